"""Wire types of values that come without a schema: from their column and from what they look like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from frazil.core.schema import Field, ListType, MapType, StructType, Type, arrow_type
from frazil.stream.cdc.decode.wire import (
    DECIMAL,
    GEOMETRIES,
    SPECIAL,
    UNIT_UNKNOWN,
    UUID,
    VARIABLE_DECIMAL,
    Wire,
)
from frazil.stream.config.model import DebeziumFormat

_TIME = "io.debezium.time."
_TIMES: Mapping[str | None, str] = {
    "ms": f"{_TIME}Time",
    "us": f"{_TIME}MicroTime",
    "ns": f"{_TIME}NanoTime",
    None: UNIT_UNKNOWN,
}
_TIMESTAMPS: Mapping[str | None, str] = {
    "ms": f"{_TIME}Timestamp",
    "us": f"{_TIME}MicroTimestamp",
    "ns": f"{_TIME}NanoTimestamp",
    None: UNIT_UNKNOWN,
}
_VARIABLE = Wire("struct", VARIABLE_DECIMAL, inner=(("scale", Wire("int")), ("value", Wire("bytes"))))
_GEOMETRY = Wire(
    "struct",
    GEOMETRIES[0],
    inner=(("x", Wire("double")), ("y", Wire("double")), ("wkb", Wire("bytes")), ("srid", Wire("int"))),
)


def loose(field: Field, value: Any, settings: DebeziumFormat) -> Wire:
    """Of a column's value as JSON has it; of null, what is most likely."""
    unit = settings.units.get(field.name, settings.units.get("*"))
    return _Loose(settings, unit).of(field.type, value)


class _Loose:
    def __init__(self, settings: DebeziumFormat, unit: str | None) -> None:
        self._settings = settings
        self._unit = unit

    def of(self, kind: Type, value: Any) -> Wire:
        if isinstance(kind, StructType):
            inside = value if isinstance(value, dict) else {}
            inner = tuple((one.name, self.of(one.type, inside.get(one.name))) for one in kind.fields)
            return Wire("struct", inner=inner)
        if isinstance(kind, ListType):
            return Wire("array", inner=(("element", self.of(kind.element, _first(value))),))
        if isinstance(kind, MapType):
            return Wire("map", inner=(("key", Wire("string")), ("value", self.of(kind.value, _first(value)))))
        if kind.startswith("decimal"):
            return self._decimal(kind, value)
        if kind in ("time", "timestamp", "timestamptz"):
            return self._time(kind, value)
        return _scalar(kind.split("[")[0], value)

    def _decimal(self, kind: str, value: Any) -> Wire:
        found = arrow_type(kind)
        if isinstance(value, dict):
            return _VARIABLE
        if isinstance(value, int) and kind == "decimal(20, 0)" and -(2**63) <= value < 2**63:
            return Wire("long", unsigned=True)
        if isinstance(value, int | float):
            return Wire("number", DECIMAL, scale=found.scale)
        if self._settings.decimals == "string":
            return Wire("string")
        return Wire("bytes", DECIMAL, scale=found.scale, precision=found.precision)

    def _time(self, kind: str, value: Any) -> Wire:
        if isinstance(value, str) or (value is None and kind == "timestamptz"):
            names = {"time": "IsoTime", "timestamp": "IsoTimestamp", "timestamptz": "ZonedTimestamp"}
            return Wire("string", f"{_TIME}{names[kind]}")
        return Wire("long", (_TIMES if kind == "time" else _TIMESTAMPS)[self._unit])


def _scalar(kind: str, value: Any) -> Wire:
    if kind == "boolean":
        return Wire("long" if type(value) is int else "boolean")
    if kind in ("int", "long"):
        return Wire("long")
    if kind in ("float", "double"):
        return Wire("string", SPECIAL) if isinstance(value, str) else Wire("double")
    if kind == "date":
        if isinstance(value, str):
            return Wire("string", f"{_TIME}IsoDate")
        return Wire("int", f"{_TIME}Date")
    if kind == "string":
        return _text(value)
    return Wire("string", UUID) if kind == "uuid" else Wire("bytes")


def _text(value: Any) -> Wire:
    if isinstance(value, bool):
        return Wire("boolean")
    if isinstance(value, int):
        return Wire("long")
    if isinstance(value, float):
        return Wire("double")
    if isinstance(value, dict):
        if set(value) == {"scale", "value"}:
            return _VARIABLE
        return _GEOMETRY if "wkb" in value else Wire("none")
    return Wire("none") if isinstance(value, list) else Wire("string")


def _first(value: Any) -> Any:
    """The first that is there of a list's elements or a map's values."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((one for one in items if one is not None), None)


def adapted(wire: Wire, value: Any) -> Wire:
    """A wire type that a schema told, for a value that JSON writes in another way than most."""
    if wire.kind == "struct" and isinstance(value, dict):
        return replace(wire, inner=tuple((name, adapted(one, value.get(name))) for name, one in wire.inner))
    if wire.kind == "array":
        return replace(wire, inner=(("element", adapted(wire.inner[0][1], _first(value))),))
    if wire.kind == "map":
        return replace(wire, inner=(wire.inner[0], ("value", adapted(wire.inner[1][1], _first(value)))))
    if wire.kind in ("float", "double") and isinstance(value, str):
        return Wire("string", SPECIAL)
    if wire.logical == DECIMAL and isinstance(value, int | float):
        return replace(wire, kind="number")
    return wire


def told(kind: Type) -> Type:
    """A type that was inferred from values, where it is that of something known."""
    if isinstance(kind, StructType):
        names = {field.name for field in kind.fields}
        if names == {"scale", "value"} or (names >= {"wkb"} and names <= {"x", "y", "wkb", "srid"}):
            return "string"
        return StructType(tuple(replace(field, type=told(field.type)) for field in kind.fields))
    if isinstance(kind, ListType):
        return replace(kind, element=told(kind.element))
    return kind
