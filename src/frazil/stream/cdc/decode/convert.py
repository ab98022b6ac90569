"""Values as they were written into columns as the table has them. Nothing is rounded or cut off.

A value goes into another type than its own where that loses nothing: integers into wider ones, decimals and
exact doubles; floats into doubles; decimals into longer ones; numbers that stand for dates and times into
integers, as they were sent; and every single value into text. What does not fit makes its record bad.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import ListType, MapType, StructType, Type, arrow_type, show_type
from frazil.stream.cdc.decode import convert_decimal as decimals
from frazil.stream.cdc.decode import convert_time as times
from frazil.stream.cdc.decode.trouble import Mask, Trouble, array_of, longs_of, mask_of, spans, valid_of
from frazil.stream.cdc.decode.wire import (
    BITS,
    DATES,
    DECIMAL,
    GEOMETRIES,
    ISO,
    SPECIAL,
    TIMES,
    TIMESTAMPS,
    UNIT_UNKNOWN,
    VARIABLE_DECIMAL,
    Wire,
    natural,
)
from frazil.stream.cdc.decode.wkt import geometry_text
from frazil.stream.decode import assemble

#: The array, and which values do not fit; None: no value of this kind does.
_Found: TypeAlias = tuple[pa.Array, Mask | None] | None
_EXACT_DOUBLE = 2**53
_EXACT_FLOAT = 2**24


def converted(values: pa.Array, wire: Wire, target: Type, trouble: Trouble) -> pa.Array:
    """Values of a wire type as a column; those that do not fit are noted, and anything may stand for them."""
    kind = arrow_type(target)
    if isinstance(target, StructType) and wire.kind == "struct":
        return _struct(values, wire, target, trouble)
    if isinstance(target, ListType) and wire.kind == "array":
        return _list(values, wire, target, trouble)
    if isinstance(target, MapType) and wire.kind == "map":
        return _map(values, wire, target, trouble)
    found: _Found = None
    if isinstance(target, str):
        if values.type == kind and not wire.unsigned and wire.logical != DECIMAL:
            return values
        found = _BY_TARGET[target.split("(")[0].split("[")[0]](values, wire, kind)
    if found is None:
        trouble.note(mask_of(values.is_valid()), values, _expected(wire, target))
        return pa.nulls(len(values), kind)
    array, wrong = found
    if wrong is not None and wrong.any():
        trouble.note(wrong, values, _expected(wire, target))
    return array


def _expected(wire: Wire, target: Type) -> str:
    if wire.logical == UNIT_UNKNOWN:
        return (
            f"a {show_type(target)} whose unit is known: messages without schemas do not tell it; set "
            "`units` for the column (ms, us or ns), or turn schemas on in the connector"
        )
    if wire.kind == "none":
        return (
            f"a {show_type(target)}; Connect's type has no form here: leave the column out by the "
            "connector's `column.exclude.list`"
        )
    sent = wire.logical.rpartition(".")[2] or show_type(natural(wire))
    return f"a value that is exactly a {show_type(target)} (sent as {sent})"


def _struct(values: pa.StructArray, wire: Wire, target: StructType, trouble: Trouble) -> pa.Array:
    columns = []
    for field in target.fields:
        inner = wire.field(field.name)
        if inner is None or values.type.get_field_index(field.name) < 0:
            columns.append(pa.nulls(len(values), arrow_type(field.type)))
        else:
            columns.append(converted(values.field(field.name), inner, field.type, trouble.inside(field.name)))
    kind = arrow_type(target)
    bits = _bits(values)
    return pa.Array.from_buffers(kind, len(values), [bits], null_count=-1, children=columns)


def _bits(values: pa.Array) -> pa.Buffer | None:
    valid = valid_of(values)
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _owners(values: pa.ListArray | pa.MapArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each element its list's place."""
    offsets = np.asarray(values.offsets, np.int64)
    return np.repeat(np.arange(len(values)), np.diff(offsets))


def _list(values: pa.ListArray, wire: Wire, target: ListType, trouble: Trouble) -> pa.Array:
    owners = _owners(values)
    element = converted(values.flatten(), wire.inner[0][1], target.element, trouble.inside("[]", owners))
    return _nested(values, [element], arrow_type(target))


def _map(values: pa.MapArray, wire: Wire, target: MapType, trouble: Trouble) -> pa.Array:
    owners = _owners(values)
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    kind = arrow_type(target)
    keys = converted(values.keys[first:last], wire.inner[0][1], target.key, trouble.inside("[]", owners))
    items = converted(values.items[first:last], wire.inner[1][1], target.value, trouble.inside("[]", owners))
    entries = pa.Array.from_buffers(assemble.child_types(kind)[0], len(keys), [None], children=[keys, items])
    return _nested(values, [entries], kind)


def _nested(values: pa.ListArray | pa.MapArray, children: list[pa.Array], kind: pa.DataType) -> pa.Array:
    offsets = np.asarray(values.offsets, np.int32)
    buffers = [_bits(values), pa.py_buffer(np.ascontiguousarray(offsets - offsets[0]))]
    return assemble.array(kind, len(values), buffers, children)


def _boolean(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    """Also of 0 and 1: that is how databases without booleans have them."""
    if wire.kind == "boolean":
        return values, None
    if wire.kind not in ("int", "long"):
        return None
    numbers = longs_of(values)
    return values.cast(pa.int64()).cast(kind), (numbers != 0) & (numbers != 1)


def _integer(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    wrong: Mask | None = None
    if wire.logical == DECIMAL:
        wide, wrong = _own_decimal(values, wire)
        values, not_whole = decimals.longs_of_decimal(wide)
        wrong = wrong | not_whole
    elif wire.kind not in ("int", "long"):
        return None
    elif wire.unsigned:
        wrong = longs_of(values) < 0
    if kind == pa.int64():
        return values.cast(kind), wrong
    numbers = longs_of(values)
    far = (numbers < -(2**31)) | (numbers >= 2**31)
    found = array_of(np.where(far, 0, numbers).astype(np.int32), valid_of(values), kind)
    return found, far if wrong is None else far | wrong


def _real(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.logical == SPECIAL:
        known = pc.index_in(values, _SPECIAL_WORDS)
        found = _SPECIAL_VALUES.take(known).cast(kind)
        return found, mask_of(values.is_valid()) & mask_of(known.is_null())
    if wire.kind in ("float", "double"):
        found = values.cast(kind)
        lost = mask_of(pc.not_equal(found.cast(values.type), values)) & ~mask_of(pc.is_nan(values))
        return found, lost
    if wire.kind not in ("int", "long") or wire.logical:
        return None
    numbers = longs_of(values)
    most = _EXACT_DOUBLE if kind == pa.float64() else _EXACT_FLOAT
    return array_of(numbers.astype(kind.to_pandas_dtype()), valid_of(values), kind), abs(numbers) > most


_SPECIAL_WORDS = pa.array(["NaN", "Infinity", "-Infinity"])
_SPECIAL_VALUES = pa.array([float("nan"), float("inf"), float("-inf")])


def _decimal(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if pa.types.is_decimal(values.type):
        return _recast(values, kind)
    if wire.logical == DECIMAL:
        return decimals.decimal_of_bytes(values, wire.scale, kind)
    if wire.logical == VARIABLE_DECIMAL:
        return decimals.decimal_of_struct(values, kind)
    if wire.kind == "string" and not wire.logical:
        return decimals.decimal_of_text(values, kind)
    if wire.kind not in ("int", "long") or wire.logical:
        return None
    # No signed integer has 20 digits: who asks for them has an unsigned one.
    unsigned = wire.unsigned or (wire.kind == "long" and kind == pa.decimal128(20, 0))
    return decimals.decimal_of_longs(values, kind, unsigned=unsigned)


def _recast(values: pa.Array, kind: pa.DataType) -> _Found:
    try:
        return values.cast(kind), None
    except pa.ArrowInvalid:
        return decimals.decimal_of_text(pc.cast(values, pa.string()), kind)


def _own_decimal(values: pa.Array, wire: Wire) -> tuple[pa.Array, Mask]:
    if pa.types.is_decimal(values.type):
        return values, np.zeros(len(values), bool)
    return decimals.decimal_of_bytes(values, wire.scale, pa.decimal128(38, max(wire.scale, 0)))


def _string(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.kind == "string":
        return values.cast(kind), None
    if wire.logical == VARIABLE_DECIMAL:
        return decimals.text_of_struct(values), None
    if wire.logical in GEOMETRIES:
        found = pa.array([None if one is None else geometry_text(one) for one in values.to_pylist()], kind)
        return found, mask_of(values.is_valid()) & mask_of(found.is_null())
    if wire.kind == "bytes":
        return _text_of_bytes(values, wire), None
    own = natural(wire)
    if not isinstance(own, str):
        return None
    if own in ("date", "time", "timestamp", "decimal(20, 0)"):
        found, wrong = _BY_TARGET[own.split("(")[0]](values, wire, arrow_type(own)) or (values, None)
        return times.text_of_temporal(found), wrong
    return values.cast(kind), None


def _text_of_bytes(values: pa.Array, wire: Wire) -> pa.Array:
    if wire.logical == DECIMAL:
        if pa.types.is_decimal(values.type):
            return values.cast(pa.string())
        return decimals.text_of_bytes(values, wire.scale)
    if wire.logical == BITS and wire.length:
        return _text_of_bits(values, wire.length)
    plain = [None if one is None else base64.b64encode(one).decode() for one in values.to_pylist()]
    return pa.array(plain, pa.string())


def _text_of_bits(values: pa.Array, length: int) -> pa.Array:
    """As the database shows them, the highest first; they come with the lowest byte first."""
    return pa.array(
        [
            None if one is None else f"{int.from_bytes(one, 'little'):0{length}b}"
            for one in values.to_pylist()
        ],
        pa.string(),
    )


def _binary(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.kind != "bytes" or wire.logical == DECIMAL:
        return None
    if kind == pa.binary():
        return values, None
    wrong = np.diff(spans(values)[1]) != kind.byte_width
    wrong &= mask_of(values.is_valid())
    kept = pc.if_else(pa.array(wrong), pa.scalar(None, pa.binary()), values) if wrong.any() else values
    return kept.cast(kind), wrong


def _uuid(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.kind == "bytes":
        return _binary(values, wire, kind)
    if wire.kind != "string":
        return None
    if values.type == kind:
        return values, None
    data, starts = spans(values)
    valid = mask_of(values.is_valid())
    rows = np.flatnonzero(valid & (np.diff(starts) == 36))
    letters = data[starts[rows][:, None] + np.arange(36)]
    digits = _HEX[letters[:, _UUID_DIGITS]]
    good = (letters[:, _UUID_DASHES] == ord("-")).all(axis=1) & (digits < 16).all(axis=1)
    found = np.zeros((len(values), 16), np.uint8)
    found[rows[good]] = digits[good, ::2] << 4 | digits[good, 1::2]
    wrong = valid.copy()
    wrong[rows[good]] = False
    return pa.Array.from_buffers(kind, len(values), [_bits(values), pa.py_buffer(found)]), wrong


_UUID_DASHES = np.array([8, 13, 18, 23])
_UUID_DIGITS = np.setdiff1d(np.arange(36), _UUID_DASHES)
#: The value of a hexadecimal digit, 255 for what is none.
_HEX = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def _date(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.kind == "string":
        return times.date_of_text(values)
    return times.date_of_days(values) if wire.logical in DATES else None


def _time(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if wire.kind == "string":
        return times.time_of_text(values)
    nanos = TIMES.get(wire.logical)
    return times.time_of_numbers(values, nanos) if nanos else None


def _timestamp(values: pa.Array, wire: Wire, kind: pa.DataType) -> _Found:
    if values.type == kind:
        return values, None
    if wire.kind == "string":
        return times.timestamp_of_text(values, kind, utc=ISO.get(wire.logical) == "timestamp")
    nanos = TIMESTAMPS.get(wire.logical)
    return times.timestamp_of_numbers(values, nanos, kind) if nanos else None


_BY_TARGET: dict[str, Callable[[pa.Array, Wire, pa.DataType], _Found]] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _real,
    "double": _real,
    "decimal": _decimal,
    "string": _string,
    "binary": _binary,
    "fixed": _binary,
    "uuid": _uuid,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
}
