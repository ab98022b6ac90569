"""A table's schema in Avro as Iceberg's spec writes it, and rows in the form in which fastavro takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.lake.row_metrics import unscaled

_PRIMITIVES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    "uuid": {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
}
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_FIXED = re.compile(r"fixed\[(\d+)\]")

Convert = Callable[[Any], Any]


def record_schema(schema: Schema) -> dict[str, Any]:
    """The record of a row."""
    return _Writer().record("table", schema.fields)


class _Writer:
    """Avro has a named type written out once only; after that the name stands for it."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def record(self, name: str, fields: Sequence[Field]) -> dict[str, Any]:
        rows = []
        for field, short in zip(fields, avro_names(fields), strict=True):
            row = self._field(short, field.type, field.required, field.id)
            if short != field.name:
                row["iceberg-field-name"] = field.name
            if field.doc is not None:
                row["doc"] = field.doc
            rows.append(row)
        return {"type": "record", "name": name, "fields": rows}

    def _field(self, name: str, kind: Type, required: bool, identifier: int) -> dict[str, Any]:
        row = {"name": name, "type": self._type(kind, required, identifier), "field-id": identifier}
        return row if required else row | {"default": None}

    def _type(self, kind: Type, required: bool, identifier: int) -> Any:
        found = self._inner(kind, identifier)
        return found if required else ["null", found]

    def _inner(self, kind: Type, identifier: int) -> Any:
        if isinstance(kind, StructType):
            return self.record(f"r{identifier}", kind.fields)
        if isinstance(kind, ListType):
            items = self._type(kind.element, kind.element_required, kind.element_id)
            return {"type": "array", "items": items, "element-id": kind.element_id}
        if isinstance(kind, MapType):
            return self._map(kind)
        return self._once(_primitive(kind))

    def _map(self, kind: MapType) -> dict[str, Any]:
        if kind.key == "string":
            values = self._type(kind.value, kind.value_required, kind.value_id)
            return {"type": "map", "values": values, "key-id": kind.key_id, "value-id": kind.value_id}
        pair = {
            "type": "record",
            "name": f"k{kind.key_id}_v{kind.value_id}",
            "fields": [
                self._field("key", kind.key, True, kind.key_id),
                self._field("value", kind.value, kind.value_required, kind.value_id),
            ],
        }
        return {"type": "array", "logicalType": "map", "items": pair}

    def _once(self, found: Any) -> Any:
        name = found.get("name") if isinstance(found, dict) else None
        if name is None:
            return found
        if name in self._named:
            return name
        self._named.add(name)
        return found


def _primitive(kind: str) -> Any:
    if match := _DECIMAL.fullmatch(kind):
        precision, scale = int(match[1]), int(match[2])
        return {
            "type": "fixed",
            "name": f"decimal_{precision}_{scale}",
            "size": _decimal_size(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if match := _FIXED.fullmatch(kind):
        return {"type": "fixed", "name": f"fixed_{match[1]}", "size": int(match[1])}
    return _PRIMITIVES[kind]


def _decimal_size(precision: int) -> int:
    """The fewest bytes that hold any number of so many digits with its sign.

    >>> [_decimal_size(digits) for digits in (1, 2, 3, 9, 18, 38)]
    [1, 1, 2, 4, 8, 16]
    """
    return int(10**precision - 1).bit_length() // 8 + 1


def avro_names(fields: Sequence[Field]) -> list[str]:
    """Names that Avro allows; readers go by the ids.

    >>> avro_names([Field("a", "int"), Field("é-1", "int"), Field("1", "int")])
    ['a', '_xE9_x2D1', '_1']
    """
    found: list[str] = []
    for field in fields:
        name = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match[0]):X}", field.name)
        name = f"_{name}" if name[:1].isdigit() else name
        found.append(f"{name}_{field.id}" if not name or name in found else name)
    return found


def converter(schema: Schema) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Turns the values of a row, as Arrow gives them, into fastavro's record."""
    names = avro_names(schema.fields)
    converts = [_converter(field.type) for field in schema.fields]
    changing = [(number, convert) for number, convert in enumerate(converts) if convert is not None]

    def convert(row: Sequence[Any]) -> dict[str, Any]:
        values = list(row)
        for number, change in changing:
            values[number] = change(values[number])
        return dict(zip(names, values, strict=True))

    return convert


def _converter(kind: Type) -> Convert | None:
    """None: the value is what fastavro wants already."""
    found: Convert | None
    if isinstance(kind, StructType):
        found = _struct(kind)
    elif isinstance(kind, ListType):
        element = _converter(kind.element)
        found = None if element is None else lambda values: [element(value) for value in values]
    elif isinstance(kind, MapType):
        found = _map(kind)
    elif match := _DECIMAL.fullmatch(kind):
        size = _decimal_size(int(match[1]))
        found = lambda value: unscaled(value).to_bytes(size, "big", signed=True)  # noqa: E731
    else:
        found = None
    return None if found is None else _unless_null(found)


def _struct(kind: StructType) -> Convert | None:
    names = avro_names(kind.fields)
    inner = [
        (field.name, name, _converter(field.type) or _same)
        for field, name in zip(kind.fields, names, strict=True)
    ]
    if all(old == new and convert is _same for old, new, convert in inner):
        return None
    return lambda row: {new: convert(row[old]) for old, new, convert in inner}


def _map(kind: MapType) -> Convert:
    key, value = _converter(kind.key) or _same, _converter(kind.value) or _same
    if kind.key == "string":
        return lambda pairs: {k: value(v) for k, v in pairs}
    return lambda pairs: [{"key": key(k), "value": value(v)} for k, v in pairs]


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
