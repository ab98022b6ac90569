"""Records that are too large are bad before anybody decodes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.source import RawBatch

#: Bytes of a record, unless somebody says otherwise.
LARGEST = 16 * 1024 * 1024


@dataclass(frozen=True)
class Fitting:
    """The records of a batch that are not too large, and those that are."""

    raw: RawBatch
    #: Their rows in the whole batch; None: it is all of them.
    kept: npt.NDArray[np.int64] | None = None
    large: tuple[Undecodable, ...] = ()

    def bad(self, found: Iterable[Undecodable]) -> tuple[Undecodable, ...]:
        """What was found among those that fit, and the others, in order and by their rows in the whole."""
        if self.kept is None:
            return tuple(found)
        moved = [Undecodable(int(self.kept[bad.index]), bad.reason, bad.field, bad.fault) for bad in found]
        return tuple(sorted((*moved, *self.large), key=lambda bad: bad.index))


def fitting(raw: RawBatch, largest: int) -> Fitting:
    sizes = pc.binary_length(raw.values)
    if (pc.max(sizes).as_py() or 0) <= largest:
        return Fitting(raw)
    huge = np.flatnonzero(pc.fill_null(pc.greater(sizes, largest), False).to_numpy(zero_copy_only=False))
    kept = np.setdiff1d(np.arange(len(raw)), huge)
    large = (
        Undecodable(int(row), f"it has {sizes[int(row)]} bytes, more than {largest}", None, Fault.TOO_LARGE)
        for row in huge
    )
    return Fitting(taken(raw, pa.array(kept)), kept, tuple(large))


def taken(raw: RawBatch, rows: pa.Array) -> RawBatch:
    """Some records of a batch."""

    def part(column: pa.Array | None) -> pa.Array | None:
        return None if column is None else column.take(rows)

    return replace(
        raw,
        values=part(raw.values),
        offsets=part(raw.offsets),
        timestamps=part(raw.timestamps),
        keys=part(raw.keys),
        headers=part(raw.headers),
        rows=None if raw.rows is None else raw.rows.take(rows),
    )
