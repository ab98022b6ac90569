"""Random Avro schemas, values for them, tables that they fit more or less, and bytes with something wrong."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import fastavro

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type

_NAMES = ["id", "k", "a_long_field_name", "x", "y", "z", "ts"]
_TEXTS = [
    "",
    "paid",
    "é",
    "日本語のテキスト",
    "😀",
    "\x00",
    "x" * 40,
    "sixteen letters!",
    "seventeen letters",
]
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
}
_PLAIN = ["boolean", "int", "long", "float", "double", "bytes", "string"]
_COLUMNS = [
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "uuid",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "fixed[4]",
    "decimal(9, 2)",
    "decimal(38, 10)",
    "decimal(3, 0)",
]


class Avro:
    """Makes a schema; its named types have names of their own."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._count = 0

    def record(self, depth: int = 0) -> dict[str, Any]:
        rng = self._rng
        name = self._name()
        fields: list[dict[str, Any]] = []
        for one in rng.sample(_NAMES, rng.randint(1, 5)):
            fields.append({"name": one, "type": self._field(depth)})
            if rng.random() < 0.1:
                fields[-1]["aliases"] = [rng.choice(_NAMES)]
        if depth and rng.random() < 0.1:
            fields.append({"name": "more", "type": ["null", name]})
        return {"type": "record", "name": name, "fields": fields}

    def _name(self) -> str:
        self._count += 1
        return f"T{self._count}"

    def _field(self, depth: int) -> Any:
        odds = self._rng.random()
        if odds < 0.25:
            return ["null", self._type(depth)]
        if odds < 0.3:
            return [self._type(depth), "null"]
        if odds < 0.38:
            return self._rng.choice(
                [["int", "string"], ["null", "long", "double"], ["int", "long"], ["null"]]
            )
        return "null" if odds < 0.4 else self._type(depth)

    def _type(self, depth: int) -> Any:
        rng = self._rng
        if depth < 3 and rng.random() < 0.3:
            kind = rng.choice(["record", "array", "map"])
            if kind == "record":
                return self.record(depth + 1)
            return {"type": kind, "items" if kind == "array" else "values": self._field(depth + 1)}
        odds = rng.random()
        if odds < 0.5:
            return rng.choice(_PLAIN)
        if odds < 0.75:
            word = rng.choice(list(_LOGICAL))
            return {"type": _LOGICAL[word], "logicalType": word}
        return self._special()

    def _special(self) -> Any:
        rng = self._rng
        word = rng.choice(["decimal", "decimal fixed", "uuid", "uuid fixed", "fixed", "enum"])
        decimal = {"logicalType": "decimal", "precision": rng.choice([4, 9, 18]), "scale": rng.choice([0, 2])}
        if word == "decimal":
            return {"type": "bytes", **decimal}
        if word == "uuid":
            return {"type": "string", "logicalType": "uuid"}
        if word == "enum":
            return {"type": "enum", "name": self._name(), "symbols": ["A", "BB", "a_very_long_symbol"]}
        made: dict[str, Any] = {"type": "fixed", "name": self._name(), "size": rng.choice([0, 4, 16, 17])}
        if word == "decimal fixed":
            return made | decimal | {"size": 9}
        return made | {"logicalType": "uuid", "size": 16} if word == "uuid fixed" else made


def value(rng: Random, kind: Any, known: dict[str, Any], depth: int = 0) -> Any:
    """A value as fastavro takes it."""
    if isinstance(kind, list):
        branches = [one for one in kind if one == "null"] if depth > 6 else kind
        return value(rng, rng.choice(branches or kind), known, depth)
    if isinstance(kind, str):
        return value(rng, known[kind], known, depth) if kind in known else _plain(rng, kind)
    word = kind["type"]
    if word == "record":
        known[kind["name"]] = kind
        return {one["name"]: value(rng, one["type"], known, depth + 1) for one in kind["fields"]}
    if word == "array":
        return [value(rng, kind["items"], known, depth + 1) for _ in range(rng.choice([0, 1, 2, 9]))]
    if word == "map":
        keys = rng.sample(_TEXTS, rng.choice([0, 1, 2, 9]))
        return {key: value(rng, kind["values"], known, depth + 1) for key in keys}
    if word == "enum":
        return rng.choice(kind["symbols"])
    if "logicalType" in kind:
        return _logical(rng, kind)
    return rng.randbytes(kind["size"]) if word == "fixed" else _plain(rng, word)


def _plain(rng: Random, kind: str) -> Any:
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return rng.randint(-(2**bits), 2**bits - 1) >> rng.randint(0, bits)
    if kind in ("float", "double"):
        return rng.choice([0.0, -1.5, 2.0**100, rng.gauss(0, 1e6) if kind == "double" else 3.25])
    if kind == "bytes":
        return rng.choice([b"", b"abcd", b"\xff\xfe", rng.randbytes(20)])
    return {"null": None, "boolean": rng.random() < 0.5}.get(kind, rng.choice(_TEXTS))


def _logical(rng: Random, kind: dict[str, Any]) -> Any:
    word = kind["logicalType"]
    if word == "decimal":
        digits = rng.randint(-(10 ** kind["precision"]) + 1, 10 ** kind["precision"] - 1)
        return Decimal(digits >> rng.randint(0, 60)).scaleb(-kind["scale"])
    if word == "uuid":
        found = rng.randbytes(16)
        return found if kind["type"] == "fixed" else UUID(bytes=found)
    if word == "date":
        return date(rng.choice([1, 1582, 1970, 9999]), rng.randint(1, 12), rng.randint(1, 28))
    micros = rng.randint(0, 86_399_999) * 1000 + (0 if word.endswith("millis") else rng.choice([0, 7]))
    if word.startswith("time-"):
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).time()
    if word == "timestamp-nanos":  # which fastavro does not know
        return rng.choice([-1, 0, 1]) * 10**18 + micros * 1000 + rng.choice([0, 0, 0, 1])
    zone = None if word.startswith("local") else UTC
    return datetime(rng.choice([1, 1970, 2024, 9999]), 1, 2, tzinfo=zone) + timedelta(microseconds=micros)


def encoded(document: Any, row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(document), row)
    return out.getvalue()


def bent(rng: Random, columns: Schema) -> Schema:
    """A table that the schema was made for some time ago: columns more, less, and of other types."""
    return Schema(_bent(rng, columns.fields)).with_fresh_ids()


def _bent(rng: Random, fields: tuple[Field, ...]) -> tuple[Field, ...]:
    found = {one.name: _other(rng, one) for one in fields if rng.random() < 0.85}
    if rng.random() < 0.3 or not found:
        found["other"] = Field("other", "int", rng.random() < 0.1)
    kept = list(found.values())
    rng.shuffle(kept)
    return tuple(kept)


def _other(rng: Random, one: Field) -> Field:
    required = one.required and rng.random() < 0.7
    kind: Type = rng.choice(_COLUMNS) if rng.random() < 0.1 else _inside(rng, one.type)
    return Field(one.name, kind, required)


def _inside(rng: Random, kind: Type) -> Type:
    if isinstance(kind, StructType):
        return StructType(_bent(rng, kind.fields))
    if isinstance(kind, ListType):
        return ListType(_inside(rng, kind.element), kind.element_required and rng.random() < 0.7)
    if isinstance(kind, MapType):
        return MapType("string", _inside(rng, kind.value), kind.value_required and rng.random() < 0.7)
    near = {"long": ["int", "double", "float"], "double": ["float"], "string": ["binary", "uuid"]}
    near |= {"int": ["long", "float", "double"], "float": ["double"], "binary": ["string", "fixed[4]"]}
    if kind.startswith("decimal"):
        return rng.choice([kind, "decimal(9, 2)", "decimal(38, 10)", "decimal(3, 0)"])
    return rng.choice([kind, *near[kind]]) if kind in near and rng.random() < 0.4 else kind


def mutated(rng: Random, record: bytes) -> bytes:
    """With bytes changed, added, taken out, or the end cut off."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(record))
        piece = rng.choice([b"", bytes([rng.randrange(256)]), b"\xff" * rng.randint(1, 12), b"\x00", b"\x02"])
        record = record[:at] + piece + record[at + rng.choice([0, 1, 1, 2, len(record)]) :]
    return record


def as_arrow_has_it(found: Any, kind: Type) -> Any:
    """What fastavro reads, as `to_pylist` shows it."""
    if found is None:
        return None
    if isinstance(kind, StructType):
        return {one.name: as_arrow_has_it(found[one.name], one.type) for one in kind.fields}
    if isinstance(kind, ListType):
        return [as_arrow_has_it(item, kind.element) for item in found]
    if isinstance(kind, MapType):
        return [(key, as_arrow_has_it(item, kind.value)) for key, item in found.items()]
    return found.bytes if isinstance(found, UUID) else found
