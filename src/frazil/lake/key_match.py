"""Which rows have one of many keys: whole columns at a time, most rows dismissed by one look into a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

#: Rows looked at together: what is made of them stays in the processor's cache.
_CHUNK = 32_768
#: Odd, with bits at random: they spread keys that follow each other. What passes the first table by chance
#: does not pass the second, which few are looked up in.
_SPREADS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
#: Slots of the table for each key, and the table's most bits.
_SLOTS = 32
_LEAST_BITS, _MOST_BITS = 10, 22
_INT_DIGITS = 18
_WIDE = 16


class KeyMatcher:
    """The rows whose values are those of a key, in all columns; null is equal to null.

    >>> keys = KeyMatcher([pa.array([7, 3]), pa.array(["x", None])])
    >>> rows, found = keys.find([pa.array([3, 7, 3]), pa.array([None, "y", "x"])])
    >>> rows.tolist(), found.tolist()
    ([0], [1])
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        parts = [lane for column in keys for lane in lanes(column)]
        self._columns = [_column(lane) for lane in parts]
        codes = np.zeros(len(keys[0]), np.int64)
        if len(parts) > 1:
            #: How codes of several columns become one: by what was seen among the keys.
            self._steps: list[_Step] = []
            for column, lane in zip(self._columns, parts, strict=True):
                step = _Step(codes, column.size, column.find(lane)[1])
                self._steps.append(step)
                codes = step.codes
        else:
            codes = self._columns[0].find(parts[0])[1]
        # The first of several keys that are equal.
        self._codes, self._first = np.unique(codes, return_index=True)

    def find(self, columns: Sequence[pa.Array]) -> tuple[Numbers, Numbers]:
        """Rows that have a key, in order, and for each the number of the key."""
        parts = [lane for column in columns for lane in lanes(column)]
        rows, codes = self._columns[0].find(parts[0])
        if len(parts) > 1:
            combined, keep = self._steps[0].combine(np.zeros(len(rows), np.int64), codes)
            rows = rows[keep]
            for column, lane, step in zip(self._columns[1:], parts[1:], self._steps[1:], strict=True):
                some, codes = column.find(lane.take(pa.array(rows)))
                combined, keep = step.combine(combined[some], codes)
                rows = rows[some][keep]
            codes = combined
        at = np.searchsorted(self._codes, codes)
        return rows, self._first[at].astype(np.int64, copy=False)


class _Step:
    """Codes of the columns so far and of one more, as one code for each pair that keys have."""

    def __init__(self, before: Numbers, size: int, codes: Numbers) -> None:
        self._size = size
        self._pairs, self.codes = np.unique(before * size + codes, return_inverse=True)

    def combine(self, before: Numbers, codes: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """Codes of the pairs that keys have, and which those are."""
        pairs = before * self._size + codes
        at = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        keep = self._pairs[at] == pairs
        return at[keep], keep


class _Column(Protocol):
    #: More than the highest code.
    size: int

    def find(self, values: pa.Array) -> tuple[Numbers, Numbers]:
        """Rows whose value is among the keys', in order, and a code for each value."""


class _Integers:
    """Values of up to 64 bits. Code 0 is null."""

    def __init__(self, keys: pa.Array) -> None:
        self._null = keys.null_count > 0
        self._sorted = np.unique(_numbers(keys.drop_null()))
        self.size = len(self._sorted) + 1
        bits = min(max(int(self.size * _SLOTS).bit_length(), _LEAST_BITS), _MOST_BITS)
        self._shift = np.uint64(64 - bits)
        self._tables = [(spread, np.zeros(1 << bits, np.bool_)) for spread in _SPREADS]
        for spread, slots in self._tables:
            slots[self._slot(spread, self._sorted)] = True

    def find(self, values: pa.Array) -> tuple[Numbers, Numbers]:
        numbers = _numbers(values)
        (first, slots), (second, others) = self._tables
        parts = []
        for start in range(0, len(numbers), _CHUNK):
            chunk = numbers[start : start + _CHUNK]
            some = np.flatnonzero(slots[self._slot(first, chunk)])
            parts.append(some[others[self._slot(second, chunk[some])]] + start)
        maybe = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        if values.null_count:
            maybe = maybe[values.is_valid().to_numpy(zero_copy_only=False)[maybe]]
        found = numbers[maybe]
        at = np.searchsorted(self._sorted, found)
        sure = np.flatnonzero(self._sorted[np.minimum(at, len(self._sorted) - 1)] == found) if len(at) else at
        rows, codes = maybe[sure], at[sure] + 1
        if not (self._null and values.null_count):
            return rows, codes
        return _with_nulls(values, rows, codes)

    def _slot(self, spread: np.uint64, numbers: Numbers) -> npt.NDArray[np.uint64]:
        return (numbers.view(np.uint64) * spread) >> self._shift


class _Values:
    """Texts and bytes, by Arrow. Code 0 is null."""

    def __init__(self, keys: pa.Array) -> None:
        self._null = keys.null_count > 0
        self._set = pc.unique(keys.drop_null())
        self.size = len(self._set) + 1

    def find(self, values: pa.Array) -> tuple[Numbers, Numbers]:
        found = pc.index_in(values, value_set=self._set)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        codes = found.drop_null().to_numpy().astype(np.int64) + 1
        if not (self._null and values.null_count):
            return rows, codes
        return _with_nulls(values, rows, codes)


def _with_nulls(values: pa.Array, rows: Numbers, codes: Numbers) -> tuple[Numbers, Numbers]:
    nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
    rows = np.concatenate([rows, nulls])
    codes = np.concatenate([codes, np.zeros(len(nulls), np.int64)])
    order = np.argsort(rows, kind="stable")
    return rows[order], codes[order]


def _column(keys: pa.Array) -> _Column:
    return _Integers(keys) if pa.types.is_int64(keys.type) else _Values(keys)


def lanes(values: pa.Array) -> list[pa.Array]:
    """The column as arrays of 64-bit numbers, wide values as two; texts and other bytes stay.

    Rows are equal where all lanes are.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    kind = values.type
    if pa.types.is_decimal128(kind):
        words = _words(values)
        return words[:1] if kind.precision <= _INT_DIGITS else words
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == _WIDE:
        return _words(values)
    if pa.types.is_floating(kind):
        return [_float_bits(values.cast(pa.float64()))]
    if pa.types.is_boolean(kind):
        return [values.cast(pa.int8()).cast(pa.int64())]
    if pa.types.is_temporal(kind) and kind.bit_width == 32:
        return [values.view(pa.int32()).cast(pa.int64())]
    if pa.types.is_temporal(kind):
        return [values.view(pa.int64())]
    if pa.types.is_integer(kind):
        return [values.cast(pa.int64())]
    return [values]


def _words(values: pa.Array) -> list[pa.Array]:
    """16 bytes as two numbers."""
    data, size, start = values.buffers()[1], len(values), values.offset
    words = np.frombuffer(data, np.int64, 2 * (start + size)).reshape(-1, 2)[start:] if size else _NO_WORDS
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return [pa.array(np.ascontiguousarray(words[:, lane]), mask=mask) for lane in range(2)]


def _float_bits(values: pa.Array) -> pa.Array:
    """Bits that are equal where the numbers are: one zero, one NaN."""
    numbers = values.fill_null(0.0).to_numpy() + 0.0
    numbers[np.isnan(numbers)] = np.nan
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(numbers.view(np.int64), mask=mask)


def _numbers(values: pa.Array) -> Numbers:
    """The memory of the array; anything where it is null."""
    if not len(values):
        return np.zeros(0, np.int64)
    data = values.buffers()[1]
    return np.frombuffer(data, np.int64, values.offset + len(values))[values.offset :]


_NO_WORDS = np.zeros((0, 2), np.int64)
