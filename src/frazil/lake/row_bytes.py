"""Rows as bytes that are equal where the rows are: whole columns at a time, for every type of Iceberg.

Null is equal to null, any NaN to any other, and maps whatever the order of their entries. The two zeros are
not the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Bytes of a digest: two rows that differ do not meet in it.
DIGEST = 16
_DIGESTS = pa.binary(DIGEST)


def row_bytes(columns: Sequence[pa.Array], count: int) -> pa.LargeBinaryArray:
    """Of the rows of those columns.

    >>> one, other, third = row_bytes([pa.array([1, 1, None]), pa.array(["a", "a", "a"])], 3)
    >>> one == other, one == third
    (True, False)
    """
    return _joined([_coded(_whole(column)) for column in columns], count)


def digests(columns: Sequence[pa.Array], count: int) -> pa.FixedSizeBinaryArray:
    """Of `DIGEST` bytes, from `row_bytes`."""
    made = [blake2b(row, digest_size=DIGEST).digest() for row in row_bytes(columns, count).to_pylist()]
    return pa.array(made, _DIGESTS)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _coded(values: pa.Array) -> pa.LargeBinaryArray:
    """Never null; what begins with it tells where it ends, so that codes can stand in a row."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    kind, there = values.type, values.is_valid()
    if pa.types.is_null(kind):
        return _bytes_of(there.cast(pa.int8()))
    parts = [_bytes_of(there.cast(pa.int8()))]
    if pa.types.is_struct(kind):
        # `flatten` makes children of structs that are not there null.
        parts += [_coded(child) for child in values.flatten()]
    elif pa.types.is_map(kind):
        parts += _lists(values, _entries(values), in_order=False)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts += _lists(values, _coded(values.values), in_order=True)
    elif _is_text(kind):
        data = pc.fill_null(_binary(values), b"")
        parts += [_bytes_of(pc.binary_length(data).cast(pa.int64())), data]
    else:
        parts.append(_fixed(values))
    return _joined(parts, len(values))


def _joined(parts: Sequence[pa.LargeBinaryArray], count: int) -> pa.LargeBinaryArray:
    if not parts:
        return pa.array([b""] * count, pa.large_binary())
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
        )
    )


def _binary(values: pa.Array) -> pa.Array:
    """Texts as their bytes."""
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    return values.cast(pa.large_binary())


def _fixed(values: pa.Array) -> pa.LargeBinaryArray:
    """Values of one width; zeros where there is none."""
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
        numbers[np.isnan(numbers)] = np.nan
        return _bytes_of(pa.array(numbers.view(np.int64)))
    if pa.types.is_boolean(kind):
        return _bytes_of(values.cast(pa.int8()).fill_null(0))
    if pa.types.is_fixed_size_binary(kind):
        return _binary(values.fill_null(bytes(kind.byte_width)))
    if pa.types.is_decimal(kind):
        width = kind.bit_width // 8
        data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
        rows = data.reshape(-1, width).copy()
        rows[~values.is_valid().to_numpy(zero_copy_only=False)] = 0
        return _binary(_of_width(rows.tobytes(), len(values), width))
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return _bytes_of(values.cast(pa.int64()).fill_null(0))


def _bytes_of(numbers: pa.Array) -> pa.LargeBinaryArray:
    data = np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False))
    return _binary(_of_width(data.tobytes(), len(numbers), data.dtype.itemsize))


def _of_width(data: bytes, count: int, width: int) -> pa.FixedSizeBinaryArray:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(data)])


def _entries(values: pa.MapArray) -> pa.LargeBinaryArray:
    return _joined([_coded(values.keys), _coded(values.items)], len(values.keys))


def _lists(
    values: pa.ListArray, elements: pa.LargeBinaryArray, *, in_order: bool
) -> list[pa.LargeBinaryArray]:
    """How many elements each list has, and those one after another."""
    offsets = values.offsets.to_numpy().astype(np.int64)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    # A list that is not there may still point at elements.
    counts = np.where(there, np.diff(offsets), 0)
    first = offsets[:-1]
    rows = elements.to_pylist()
    joined = []
    for start, count in zip(first.tolist(), counts.tolist(), strict=True):
        found = rows[start : start + count]
        joined.append(b"".join(found if in_order else sorted(found)))
    return [_bytes_of(pa.array(counts)), pa.array(joined, pa.large_binary())]
