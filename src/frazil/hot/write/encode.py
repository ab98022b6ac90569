"""Rows as JSON, just as the decoder of the log reads them; whole columns at a time where Arrow can.

A value has one text, whoever wrote it: keys that are equal are equal bytes, and go to one partition.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.stream.decode.text import FIRST_MICROS, LAST_MICROS

#: What has to be escaped in JSON.
_SPECIAL = r'["\\\x00-\x1f]'
_AS_NUMBERS = ("boolean", "int", "long", "float", "double")
_FLOATS = ("float", "double")
_DAY = 24 * 60 * 60 * 1_000_000
_encoder = msgspec.json.Encoder(decimal_format="string", uuid_format="canonical")
_Convert = Callable[[Any], Any]


class Unwritable(Exception):
    """A value that no JSON can hold. `row` counts from the first of the batch."""

    def __init__(self, row: int, column: str, reason: str) -> None:
        super().__init__(row, column, reason)
        self.row = row
        self.column = column
        self.reason = reason


class JsonRows:
    """Encodes batches of a schema; `only` these columns, in this order."""

    def __init__(self, schema: Schema, only: Sequence[str] | None = None) -> None:
        self._fields = schema.fields if only is None else tuple(schema.field(name) for name in only)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """A JSON object for each row; Unwritable."""
        parts: list[Any] = []
        literal = "{"
        for number, field in enumerate(self._fields):
            literal += f"{',' if number else ''}{json.dumps(field.name, ensure_ascii=False)}:"
            text, quoted = _texts(rows.column(field.name), field)
            if quoted and text.null_count:
                text, quoted = pc.binary_join_element_wise('"', text, '"', ""), False
            if text.null_count:
                text = pc.fill_null(text, "null")
            mark = '"' if quoted else ""
            parts += [literal + mark, text]
            literal = mark
        # Scalars alone would make a scalar: a table has a column at least.
        joined = pc.binary_join_element_wise(*parts, literal + "}", "")
        return joined.cast(pa.binary())


def _texts(values: pa.Array, field: Field) -> tuple[pa.Array, bool]:
    """The text of each value, null where there is none, and whether quotes belong around it."""
    kind = field.type
    if kind == "string":
        _check_text(values, field.name)
        return _escaped(values)
    if kind in _AS_NUMBERS:
        if kind in _FLOATS:
            _check_finite(values, field.name)
        return values.cast(pa.string()), False
    if kind in ("timestamp", "timestamptz"):
        return _times(values, field), True
    if kind == "date":
        _check_days(values, field.name)
    if isinstance(kind, str) and (kind in ("date", "time") or kind.startswith("decimal")):
        return values.cast(pa.string()), True
    return _one_by_one(values, field), False


def _times(values: pa.Array, field: Field) -> pa.Array:
    _check_years(values, field.name)
    # As if it had no zone, which is UTC anyway: looking that up for each value takes 20 times as long.
    texts = values.cast(pa.timestamp("us")).cast(pa.string())
    texts = pc.binary_replace_slice(texts, 10, 11, "T")
    return texts if field.type == "timestamp" else pc.binary_join_element_wise(texts, "Z", "")


def _escaped(values: pa.Array) -> tuple[pa.Array, bool]:
    special = pc.match_substring_regex(values, _SPECIAL)
    if not pc.any(special).as_py():
        return values, True
    mask = pc.fill_null(special, False)
    written = [_encoder.encode(one)[1:-1].decode() for one in values.filter(mask).to_pylist()]
    return pc.replace_with_mask(values, mask, pa.array(written, pa.string())), True


def _check_finite(values: pa.Array, column: str) -> None:
    finite = pc.fill_null(pc.is_finite(values), True)
    if not pc.all(finite, min_count=0).as_py():
        row = pc.index(finite, False).as_py()
        raise Unwritable(
            row, column, f"{values[row].as_py()} is no number that JSON has; write null, or leave it out"
        )


def _check_years(values: pa.Array, column: str) -> None:
    _check_within(values.cast(pa.int64()), FIRST_MICROS, LAST_MICROS, column, "a time")


def _check_days(values: pa.Array, column: str) -> None:
    _check_within(values.cast(pa.int32()), FIRST_MICROS // _DAY, LAST_MICROS // _DAY, column, "a day")


def _check_within(numbers: pa.Array, first: int, last: int, column: str, what: str) -> None:
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    if not pc.all(inside, min_count=0).as_py():
        row = pc.index(inside, False).as_py()
        raise Unwritable(row, column, f"{what} that is not in the years 1 to 9999")


def _check_text(values: pa.Array, column: str) -> None:
    """Files and memory of others may say of any bytes that they are text."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        for row, one in enumerate(values.cast(pa.binary()).to_pylist()):
            if one is not None and one.decode(errors="ignore").encode() != one:
                raise Unwritable(row, column, "text that is no UTF-8") from None
        raise


def _one_by_one(values: pa.Array, field: Field) -> pa.Array:
    convert = _converter(field.type) or (lambda value: value)
    found: list[bytes | None] = []
    for row, one in enumerate(values):
        try:
            value = one.as_py()
            found.append(None if value is None else _encoder.encode(convert(value)))
        except (ValueError, OverflowError) as error:
            raise Unwritable(row, field.name, str(error)) from None
    return pa.array(found, pa.binary()).cast(pa.string())


def _converter(kind: Type) -> _Convert | None:
    """What Arrow's value has to go through for msgspec to write it right; None: nothing."""
    if isinstance(kind, StructType):
        inner = {field.name: _converter(field.type) for field in kind.fields}
        return lambda value: {name: _applied(inner[name], one) for name, one in value.items()}
    if isinstance(kind, ListType):
        element = _converter(kind.element)
        return None if element is None else lambda value: [_applied(element, one) for one in value]
    if isinstance(kind, MapType):
        entry = _converter(kind.value)
        return lambda value: {key: _applied(entry, one) for key, one in value}
    if kind == "uuid":
        return lambda value: uuid.UUID(bytes=value)
    return _finite if kind in _FLOATS else None


def _applied(convert: _Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _finite(value: float) -> float:
    # msgspec would write null.
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{value} is no number that JSON has; write null, or leave it out")
    return value
