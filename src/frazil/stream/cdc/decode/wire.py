"""What a value is on the wire: Kafka Connect's type and the name of what it means; and its Iceberg type.

The table of docs/cdc-types.md in code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from frazil.core.schema import Field, ListType, MapType, StructType, Type

_CONNECT = "org.apache.kafka.connect.data."
_TIME = "io.debezium.time."
_DATA = "io.debezium.data."
MAX_PRECISION = 38

DECIMAL = f"{_CONNECT}Decimal"
VARIABLE_DECIMAL = f"{_DATA}VariableScaleDecimal"
BITS = f"{_DATA}Bits"
UUID = f"{_DATA}Uuid"
#: Texts that stand for doubles that JSON has no numbers for.
SPECIAL = "special"
#: A number that stands for a time, of a unit that nobody said.
UNIT_UNKNOWN = "unit-unknown"

#: Days since 1970.
DATES = (f"{_TIME}Date", f"{_CONNECT}Date")
#: Since midnight, and since 1970: nanoseconds of a unit.
TIMES = {
    f"{_TIME}Time": 1_000_000,
    f"{_CONNECT}Time": 1_000_000,
    f"{_TIME}MicroTime": 1_000,
    f"{_TIME}NanoTime": 1,
}
TIMESTAMPS = {
    f"{_TIME}Timestamp": 1_000_000,
    f"{_CONNECT}Timestamp": 1_000_000,
    f"{_TIME}MicroTimestamp": 1_000,
    f"{_TIME}NanoTimestamp": 1,
}
#: Texts, with a zone that is always UTC where the column has none.
ISO = {
    f"{_TIME}ZonedTimestamp": "timestamptz",
    f"{_TIME}IsoTimestamp": "timestamp",
    f"{_TIME}IsoDate": "date",
    f"{_TIME}IsoTime": "time",
}
GEOMETRIES = tuple(f"{_DATA}geometry.{name}" for name in ("Point", "Geometry", "Geography"))


@dataclass(frozen=True)
class Wire:
    """A type on the wire."""

    #: boolean, int, long, float, double, string, bytes, array, map, struct; `number` of a decimal in JSON's
    #: digits; `none`: what has no form here.
    kind: str
    #: The name that Connect's schema gives it, or SPECIAL.
    logical: str = ""
    scale: int = 0
    #: 0: not said.
    precision: int = 0
    #: Of bits.
    length: int = 0
    #: An integer of 64 bits that the database has as unsigned.
    unsigned: bool = False
    #: Fields of a struct; else `element`, or `key` and `value`.
    inner: Fields = ()

    def field(self, name: str) -> Wire | None:
        return next((wire for found, wire in self.inner if found == name), None)


Fields: TypeAlias = tuple[tuple[str, Wire], ...]


def formless(columns: Fields) -> Iterator[str]:
    """The names of columns whose values have no form here."""
    for name, wire in columns:
        if wire.kind == "none" or any(True for _ in formless(wire.inner)):
            yield name


def natural(wire: Wire) -> Type:
    """The Iceberg type that holds every value of it."""
    if wire.kind == "struct":
        if wire.logical == VARIABLE_DECIMAL or wire.logical in GEOMETRIES:
            return "string"
        return StructType(tuple(Field(name, natural(inner)) for name, inner in wire.inner))
    if wire.kind == "array":
        return ListType(natural(wire.inner[0][1]))
    if wire.kind == "map":
        return MapType("string", natural(wire.inner[1][1]))
    return _logical(wire) or _PLAIN[wire.kind]


def _logical(wire: Wire) -> str | None:
    if wire.logical == DECIMAL:
        precision = wire.precision or MAX_PRECISION
        fits = 0 <= wire.scale <= precision <= MAX_PRECISION
        return f"decimal({precision}, {wire.scale})" if fits else "string"
    if wire.unsigned:
        return "decimal(20, 0)"
    if wire.logical in DATES:
        return "date"
    if wire.logical in TIMES:
        return "time"
    if wire.logical in TIMESTAMPS:
        return "timestamp"
    return _NAMED.get(wire.logical)


_NAMED = {**ISO, UUID: "uuid", BITS: "string", SPECIAL: "double"}
_PLAIN = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "none": "string",
}


def physical(wire: Wire) -> Type:
    """What the decoders of JSON and Avro are asked for: the value as it was written."""
    if wire.kind == "struct":
        return StructType(tuple(Field(name, physical(inner)) for name, inner in wire.inner))
    if wire.kind == "array":
        return ListType(physical(wire.inner[0][1]))
    if wire.kind == "map":
        return MapType("string", physical(wire.inner[1][1]))
    if wire.kind == "number":
        return f"decimal({MAX_PRECISION}, {wire.scale})"
    return _PLAIN[wire.kind]
