"""Values that do not fit, by record; and Arrow arrays as numpy sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decode.problem import cut

Mask: TypeAlias = npt.NDArray[np.bool_]
Longs: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trouble:
    """Collects what is wrong, the first thing of each record."""

    path: str = ""
    #: Which record each value is of, where there are more values than records.
    owners: Longs | None = None
    found: dict[int, Undecodable] = field(default_factory=dict)

    def inside(self, step: str, owners: Longs | None = None) -> Trouble:
        """For values inside these; `owners` are their places among these."""
        path = f"{self.path}{step}" if step.startswith("[") or not self.path else f"{self.path}.{step}"
        if owners is None:
            owners = self.owners
        elif self.owners is not None:
            owners = self.owners[owners]
        return replace(self, path=path, owners=owners)

    def note(self, wrong: Mask, values: pa.Array, expected: str) -> None:
        """Of values that do not fit: what was found, and what would."""
        for place in np.flatnonzero(wrong):
            reason = f"found {shown(values[int(place)].as_py())}, expected {expected}"
            self.add(int(place), reason, Fault.TYPE)

    def add(self, place: int, reason: str, fault: Fault) -> None:
        record = place if self.owners is None else int(self.owners[place])
        self.found.setdefault(record, Undecodable(record, reason, self.path or None, fault))


def shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{cut(', '.join(f'{key}: {shown(one)}' for key, one in value.items()))}}}"
    if isinstance(value, bytes):
        return f"bytes {cut(value.hex(' '))}" if value else "no bytes"
    return f'"{cut(value)}"' if isinstance(value, str) else cut(str(value))


def mask_of(values: pa.Array) -> Mask:
    """Of booleans, nulls being false."""
    filled = values.fill_null(False) if values.null_count else values
    return np.asarray(filled.to_numpy(zero_copy_only=False), bool)


def valid_of(values: pa.Array) -> Mask | None:
    """None: all are."""
    return mask_of(values.is_valid()) if values.null_count else None


def longs_of(values: pa.Array) -> Longs:
    """Of integers, nulls being 0."""
    wide = values if pa.types.is_int64(values.type) else values.cast(pa.int64())
    filled = wide.fill_null(0) if wide.null_count else wide
    return np.asarray(filled.to_numpy(), np.int64)


def array_of(values: npt.NDArray[Any], valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Numbers as an array of a type that is laid out like them."""
    found = pa.array(values, mask=None if valid is None else ~valid)
    return found if found.type == kind else found.view(kind)


def spans(values: pa.Array) -> tuple[npt.NDArray[np.uint8], Longs]:
    """The bytes of texts or binaries, and where each begins; one more for where the last ends."""
    offsets, data = values.buffers()[1:3]
    count = len(values)
    if not count or offsets is None:
        return np.zeros(0, np.uint8), np.zeros(count + 1, np.int64)
    starts = np.frombuffer(offsets, np.int32, count + 1, values.offset * 4).astype(np.int64)
    whole = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return whole, starts
