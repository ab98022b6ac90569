"""Decimals from all that Debezium makes of them."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.cdc.decode.trouble import Mask, array_of, longs_of, mask_of, spans, valid_of
from frazil.stream.decode.text import scaled

_BYTES = 16
_WIDEST = 38
#: For numbers of any length.
_EXACT = Context(prec=100_000, Emax=999_999, Emin=-999_999)


def decimal_of_bytes(values: pa.Array, scale: int, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Of Connect's Decimal: big-endian integers of that scale. And which of them do not fit."""
    lengths = _lengths(values)
    valid = valid_of(values)
    if scale != kind.scale or (lengths > 8).any():
        found, wrong = _checked(values, scale, kind, lengths)
    else:
        sixteen = _sixteen(values)
        wrong = lengths < 1
        if kind.precision < 19:
            most = 10**kind.precision
            low = sixteen.view(np.int64)[:, 0]
            wrong |= (low >= most) | (low <= -most)
        found = _of_integers(sixteen, valid, kind)
    return found, wrong if valid is None else wrong & valid


def _lengths(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.diff(spans(values)[1])


def _sixteen(values: pa.Array) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Big-endian integers of up to 16 bytes as little-endian ones of 16."""
    data, starts = spans(values)
    ends, lengths = starts[1:], np.diff(starts)
    found = np.zeros((len(values), _BYTES), np.uint8)
    some = np.flatnonzero(lengths)
    found[some[data[starts[some]] >= 0x80]] = 0xFF
    for place in range(int(min(lengths.max(initial=0), _BYTES))):
        rows = np.flatnonzero(lengths > place)
        found[rows, place] = data[ends[rows] - 1 - place]
    return found


def _of_integers(
    sixteen: np.ndarray[tuple[int, int], np.dtype[np.uint8]], valid: Mask | None, kind: pa.DataType
) -> pa.Array:
    count = len(sixteen)
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(np.ascontiguousarray(sixteen))])


def _checked(
    values: pa.Array, scale: int, kind: pa.DataType, lengths: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[pa.Array, Mask]:
    """By Arrow's own check of digits; where one of them fails, one by one."""
    if (lengths <= _BYTES - 1).all() and (lengths > 0).all() and 0 <= scale <= _WIDEST:
        wide = _of_integers(_sixteen(values), valid_of(values), pa.decimal128(_WIDEST, scale))
        try:
            return wide.cast(kind), np.zeros(len(values), bool)
        except pa.ArrowInvalid:
            pass
    numbers = [
        None
        if one is None
        else _exact(Decimal(int.from_bytes(one, signed=True)).scaleb(-scale, _EXACT), kind)
        for one in values.to_pylist()
    ]
    return pa.array(numbers, kind), np.array([one is None for one in numbers], bool)


def _exact(value: Decimal, kind: pa.DataType) -> Decimal | None:
    found = scaled(f"{value:f}", kind.scale, kind.precision)
    return None if found is None else _placed(found, kind.scale)


def _placed(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def decimal_of_struct(values: pa.StructArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Of VariableScaleDecimal, whose every value has a scale of its own."""
    parts = []
    for rows, scale, unscaled in _by_scale(values):
        found, wrong = decimal_of_bytes(unscaled, scale, kind)
        parts.append((rows, found, wrong))
    wrong = np.zeros(len(values), bool)
    for rows, _, bad in parts:
        wrong[rows] = bad
    return _scattered(len(values), [(rows, found) for rows, found, _ in parts], kind), wrong


def text_of_struct(values: pa.StructArray) -> pa.Array:
    parts = [(rows, text_of_bytes(unscaled, scale)) for rows, scale, unscaled in _by_scale(values)]
    return _scattered(len(values), parts, pa.string())


def _by_scale(
    values: pa.StructArray,
) -> list[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], int, pa.Array]]:
    """Places, scale and integers of those with the same scale; nulls are in none."""
    scales, integers = values.field("scale"), values.field("value")
    there = mask_of(values.is_valid()) & mask_of(scales.is_valid()) & mask_of(integers.is_valid())
    numbers = longs_of(scales)
    return [
        (rows := np.flatnonzero(there & (numbers == scale)), int(scale), integers.take(pa.array(rows)))
        for scale in np.unique(numbers[there])
    ]


def _scattered(
    count: int, parts: list[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], pa.Array]], kind: pa.DataType
) -> pa.Array:
    """Arrays put at their places; null elsewhere."""
    places = np.zeros(count, np.int64)
    valid = np.zeros(count, bool)
    begin = 0
    for rows, _ in parts:
        places[rows] = np.arange(begin, begin + len(rows))
        valid[rows] = True
        begin += len(rows)
    if not parts:
        return pa.nulls(count, kind)
    whole = pa.concat_arrays([found for _, found in parts])
    return whole.take(array_of(places, valid, pa.int64()))


def text_of_bytes(values: pa.Array, scale: int) -> pa.Array:
    """All their digits, without an exponent."""
    lengths = _lengths(values)
    if (lengths <= _BYTES - 1).all() and 0 <= scale <= _WIDEST:
        return _plain(_of_integers(_sixteen(values), valid_of(values), pa.decimal128(_WIDEST, scale)))
    return pa.array(
        [
            None if one is None else f"{Decimal(int.from_bytes(one, signed=True)).scaleb(-scale, _EXACT):f}"
            for one in values.to_pylist()
        ],
        pa.string(),
    )


def _plain(values: pa.Array) -> pa.Array:
    """Arrow writes small numbers with an exponent."""
    text = values.cast(pa.string())
    odd = mask_of(pc.match_substring(text, "E"))
    if not odd.any():
        return text
    numbers = [f"{Decimal(one.as_py()):f}" for one in text.filter(pa.array(odd))]
    return pc.replace_with_mask(text, pa.array(odd), pa.array(numbers, pa.string()))


def decimal_of_text(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """Of `decimal.handling.mode=string`."""
    numbers = [None if one is None else scaled(one, kind.scale, kind.precision) for one in values.to_pylist()]
    found = pa.array([None if one is None else _placed(one, kind.scale) for one in numbers], kind)
    return found, mask_of(values.is_valid()) & mask_of(found.is_null())


def decimal_of_longs(values: pa.Array, kind: pa.DataType, *, unsigned: bool) -> tuple[pa.Array, Mask]:
    """Integers; unsigned ones of 64 bits come as if they had a sign."""
    numbers = longs_of(values)
    valid = valid_of(values)
    if not unsigned and kind.precision - kind.scale < 19:
        most = 10 ** (kind.precision - kind.scale)
        wrong = (numbers >= most) | (numbers <= -most)
        numbers = np.where(wrong, 0, numbers)
    else:
        wrong = np.zeros(len(values), bool)
    halves = np.stack([numbers, np.where(unsigned, 0, numbers >> 63)], axis=1)
    sixteen = np.ascontiguousarray(halves).view(np.uint8)
    found = _of_integers(sixteen, valid, pa.decimal128(_WIDEST - kind.scale if kind.scale else _WIDEST, 0))
    return found.cast(kind), wrong


def longs_of_decimal(values: pa.Array) -> tuple[pa.Array, Mask]:
    """Of decimals without a fraction."""
    try:
        return values.cast(pa.int64()), np.zeros(len(values), bool)
    except pa.ArrowInvalid:
        numbers = [_long(one) for one in values.to_pylist()]
        return pa.array(numbers, pa.int64()), np.array([one is None for one in numbers], bool) & mask_of(
            values.is_valid()
        )


def _long(value: Decimal | None) -> int | None:
    if value is None or value != int(value) or not -(2**63) <= value < 2**63:
        return None
    return int(value)
