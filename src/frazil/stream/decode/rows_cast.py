"""Arrow values of one primitive type as another, where that is the same value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.decode.rows_types import is_bytes, is_text

_Rows: TypeAlias = npt.NDArray[np.bool_]
_Test: TypeAlias = Callable[[pa.DataType], bool]
#: Up to 2 to this power every integer is one of the type.
_MANTISSA = {pa.float64(): 53, pa.float32(): 24}


def cast(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Rows]:
    """The values, null where one does not fit; and where that is."""
    if values.type == kind:
        return values, np.zeros(len(values), bool)
    if not _related(values.type, kind):
        return pa.nulls(len(values), kind), _there(values)
    if pa.types.is_fixed_size_binary(kind):
        return _fixed(values, kind)
    try:
        found = values.cast(kind)
    except pa.ArrowInvalid:
        return _checked(values, kind)
    if pa.types.is_floating(values.type) or pa.types.is_floating(kind):
        return _checked(values, kind)
    return found, np.zeros(len(values), bool)


def _checked(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Rows]:
    """There and back again: what is not the same after it did not fit."""
    if pa.types.is_decimal(values.type) or pa.types.is_decimal(kind):
        return _one_by_one(values, kind)
    found = values.cast(kind, safe=False)  # never a decimal, so it does not fail
    same = pc.equal(found.cast(values.type, safe=False), values)
    if pa.types.is_floating(values.type) and pa.types.is_floating(kind):
        same = pc.or_(same, pc.is_nan(values))
    elif pa.types.is_floating(kind):
        if values.type.bit_width > _MANTISSA[kind]:
            same = pc.and_(same, _within(values, -(2 ** _MANTISSA[kind]), 2 ** _MANTISSA[kind]))
    elif pa.types.is_floating(values.type):
        # Such casts stop at the ends of the range, so that 2^63 would come back from 2^63 - 1.
        end = 2.0 ** (kind.bit_width - 1)
        same = pc.and_(same, _within(values, -end, end, below=True))
    elif pa.types.is_unsigned_integer(values.type):
        same = pc.and_(same, pc.greater_equal(found, pa.scalar(0, kind)))
    lossy = ~_of(pc.fill_null(same, True))
    return pc.if_else(pa.array(~lossy), found, pa.scalar(None, kind)), lossy


def _within(values: pa.Array, least: float, most: float, *, below: bool = False) -> pa.Array:
    """From `least` up to `most`, or to less than that."""
    end = pa.scalar(most, values.type)
    high = pc.less(values, end) if below else pc.less_equal(values, end)
    if pa.types.is_unsigned_integer(values.type):
        return high
    return pc.and_(high, pc.greater_equal(values, pa.scalar(least, values.type)))


def _one_by_one(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Rows]:
    lossy = np.zeros(len(values), bool)
    parts = []
    for row in range(len(values)):
        try:
            parts.append(values.slice(row, 1).cast(kind))
        except pa.ArrowInvalid:
            lossy[row] = True
            parts.append(pa.nulls(1, kind))
    return pa.concat_arrays(parts), lossy


def _fixed(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, _Rows]:
    found = values.to_pylist()
    lossy = np.array([one is not None and len(one) != kind.byte_width for one in found], bool)
    fitting = [None if wrong else one for one, wrong in zip(found, lossy, strict=True)]
    return pa.array(fitting, kind), lossy


def _there(values: pa.Array) -> _Rows:
    return _of(values.is_valid())


def _of(mask: pa.Array) -> _Rows:
    found: _Rows = mask.to_numpy(zero_copy_only=False)
    return found


def _related(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of the one can be values of the other at all."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return (one.tz is None) == (other.tz is None)
    return any(any(test(one) for test in tests) and any(test(other) for test in tests) for tests in _FAMILIES)


_FAMILIES: Sequence[tuple[_Test, ...]] = (
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (is_text,),
    (is_bytes, pa.types.is_fixed_size_binary),
    (pa.types.is_date,),
    (pa.types.is_time,),
)
