"""A number for a set of rows, whatever their order: equal sets have equal ones, on either side of a pipeline.

It is the sum of a 64-bit hash of each row. Two sets that differ have the same one by accident only, about
once in 2^64; nobody is kept from making such a pair on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes: TypeAlias = npt.NDArray[np.uint64]

_MASK = (1 << 64) - 1
_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEP = 0xD1B54A32D192ED03


@dataclass(frozen=True)
class Fingerprint:
    rows: int = 0
    total: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, (self.total + other.total) & _MASK)

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Fingerprint:
        """Of rows whose columns are in an agreed order and of agreed types."""
        return cls(batch.num_rows, int(_combined(batch.columns, batch.num_rows).sum()))


def _combined(columns: list[pa.Array], rows: int) -> Hashes:
    """One hash for what lies side by side."""
    found = np.zeros(rows, np.uint64)
    for column in columns:
        found = _mix(found * np.uint64(31) + _hashes(column))
    return found


def _hashes(column: pa.Array) -> Hashes:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _of_lists(column)
    elif pa.types.is_struct(kind):
        found = _combined(column.flatten(), len(column))
    elif pa.types.is_decimal(kind):
        found = _of_decimals(column)
    elif kind in _TEXTS or pa.types.is_fixed_size_binary(kind):
        found = _of_texts(column)
    else:
        found = _mix(_bits(column))
    if column.null_count:
        found = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, found)
    return found


_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _bits(column: pa.Array) -> Hashes:
    """The values of a type of fixed width."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = pc.fill_null(column, 0.0).cast(pa.float64()).to_numpy()
        bits: Hashes = np.ascontiguousarray(values).view(np.uint64)
        return bits
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    whole: Hashes = pc.fill_null(column.cast(pa.int64()), 0).to_numpy().view(np.uint64)
    return whole


def _of_decimals(column: pa.Array) -> Hashes:
    wide = pc.fill_null(column, 0).cast(pa.decimal128(38, column.type.scale))
    halves = np.frombuffer(wide.buffers()[1], np.uint64)[2 * wide.offset : 2 * (wide.offset + len(wide))]
    return _mix(_mix(halves[0::2]) + halves[1::2])


def _of_texts(column: pa.Array) -> Hashes:
    from pandas.util import hash_array

    filled = column.cast(pa.binary()).fill_null(b"")
    found: Hashes = hash_array(filled.to_numpy(zero_copy_only=False), categorize=False)
    return found


def _of_lists(column: pa.Array) -> Hashes:
    """In order for lists; the entries of a map have none."""
    there = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(there, np.diff(column.offsets.to_numpy()), 0)
    if pa.types.is_map(column.type):
        # A copy: keys and items of a part would be those of the whole.
        present = column.take(pa.array(np.flatnonzero(there)))
        entries = _combined([present.keys, present.items], len(present.keys))
    else:
        inner = column.flatten()
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = (np.arange(len(inner)) - starts).astype(np.uint64)
        entries = _mix(_hashes(inner) + (places + np.uint64(1)) * np.uint64(_STEP))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
    ends = np.cumsum(lengths)
    return _mix(sums[ends] - sums[ends - lengths] + lengths.astype(np.uint64) * np.uint64(_STEP))


def _mix(values: Any) -> Hashes:
    """The last step of splitmix64: every bit of the value moves about half of the result's."""
    with np.errstate(over="ignore"):
        found = values + np.uint64(0x9E3779B97F4A7C15)
        found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Hashes = found ^ (found >> np.uint64(31))
    return mixed
