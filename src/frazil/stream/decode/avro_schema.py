"""Avro schemas: read from their JSON text, and the Iceberg types that they stand for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_MAX_PRECISION = 38
#: Which types a logical type may stand on; on another one it means nothing, as the specification says.
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
_FIXED_SIZES = {"uuid": 16, "duration": 12}


@dataclass(frozen=True, eq=False)
class Leaf:
    """A primitive, a fixed or an enum."""

    kind: str
    logical: str = ""
    #: Of a fixed.
    size: int = 0
    #: Of a decimal.
    precision: int = 0
    scale: int = 0
    #: Of an enum.
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.logical == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return self.logical or (f"fixed({self.size})" if self.kind == "fixed" else self.kind)


@dataclass(frozen=True, eq=False)
class Array:
    items: AvroType

    def __str__(self) -> str:
        return f"array of {self.items}"


@dataclass(frozen=True, eq=False)
class Map:
    values: AvroType

    def __str__(self) -> str:
        return f"map of {self.values}"


@dataclass(frozen=True, eq=False)
class Union:
    branches: tuple[AvroType, ...]

    def __str__(self) -> str:
        return f"union of {' and '.join(map(str, self.branches))}"


@dataclass(frozen=True, eq=False)
class RecordField:
    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    doc: str | None = None


@dataclass(eq=False)
class Record:
    """Its fields come after it: they may hold the record itself."""

    name: str
    fields: tuple[RecordField, ...] = ()

    def __str__(self) -> str:
        return f"record {self.name}"


AvroType: TypeAlias = Leaf | Array | Map | Union | Record


class NoType(Exception):
    """Iceberg has no type for it."""


def parse_avro(text: str, references: Mapping[str, str] | None = None) -> AvroType:
    """The schema in a text, which may use the types of `references`; InvalidConfig if it is none."""
    parser = _Parser()
    try:
        for other in (references or {}).values():
            parser.type(json.loads(other), "")
        return parser.type(json.loads(text), "")
    except json.JSONDecodeError as problem:
        raise InvalidConfig(f"not an Avro schema: no JSON ({problem})") from None
    except RecursionError:
        raise InvalidConfig("not an Avro schema: its types are nested too deep") from None


def iceberg_schema(text: str, references: Mapping[str, str] | None = None) -> Schema:
    """The columns that a registered schema stands for; a field that cannot be null is a required column."""
    record = parse_avro(text, references)
    if not isinstance(record, Record):
        raise InvalidConfig(f"the Avro schema of records is a record, not: {record}")
    try:
        kind = iceberg_type(record)
    except NoType as problem:
        raise InvalidConfig(f"{problem}; give the pipeline a `schema` without it") from None
    if not isinstance(kind, StructType):
        raise InvalidConfig(f"the Avro schema {record.name} has no fields that could be columns")
    return Schema(kind.fields)


def iceberg_type(kind: AvroType, *, optional: bool = False) -> Type | None:
    """None for what has no content (null, a record without fields); NoType for what Iceberg does not have.

    With `optional`, every field inside is.
    """
    return _Types(optional).of(kind, "", ())


def takes_no_bytes(kind: AvroType, above: tuple[Record, ...] = ()) -> bool:
    """Whether its values are written as nothing at all."""
    if isinstance(kind, Leaf):
        return kind.kind == "null" or (kind.kind == "fixed" and kind.size == 0)
    if isinstance(kind, Record) and kind not in above:
        return all(takes_no_bytes(field.type, (*above, kind)) for field in kind.fields)
    return False


class _Types:
    def __init__(self, optional: bool) -> None:
        self._optional = optional

    def of(self, kind: AvroType, path: str, above: tuple[Record, ...]) -> Type | None:
        if isinstance(kind, Leaf):
            return _leaf_type(kind, path)
        if isinstance(kind, Union):
            return self._union(kind, path, above)
        if isinstance(kind, Record):
            return self._record(kind, path, above)
        inner = kind.items if isinstance(kind, Array) else kind.values
        found = self.of(inner, f"{path}[]", above)
        if found is None:
            raise NoType(f"field '{path}' ({kind}) has no Iceberg type: its elements have no content")
        required = not self._optional and not nullable(inner)
        return ListType(found, required) if isinstance(kind, Array) else MapType("string", found, required)

    def _record(self, kind: Record, path: str, above: tuple[Record, ...]) -> Type | None:
        if kind in above:
            raise NoType(f"field '{path}' ({kind}, inside itself) has no Iceberg type")
        fields = []
        for field in kind.fields:
            inside = f"{path}.{field.name}" if path else field.name
            found = self.of(field.type, inside, (*above, kind))
            if found is not None:
                required = not self._optional and not nullable(field.type)
                fields.append(Field(field.name, found, required, field.doc))
        return StructType(tuple(fields)) if fields else None

    def _union(self, kind: Union, path: str, above: tuple[Record, ...]) -> Type | None:
        """Branches that one type holds."""
        found: Type | None = None
        for branch in kind.branches:
            one = self.of(branch, path, above)
            if one is None:
                continue
            joined = one if found in (None, one) else _WIDER.get(frozenset((str(found), str(one))))
            if joined is None:
                raise NoType(f"field '{path}' ({kind}) has no Iceberg type")
            found = joined
        return found


_WIDER = {frozenset(("int", "long")): "long", frozenset(("float", "double")): "double"}


def nullable(kind: AvroType) -> bool:
    if isinstance(kind, Union):
        return any(map(nullable, kind.branches))
    return isinstance(kind, Leaf) and kind.kind == "null"


def _leaf_type(kind: Leaf, path: str) -> Type | None:
    if kind.logical == "decimal":
        if kind.precision > _MAX_PRECISION:
            raise NoType(f"field '{path}' ({kind}) has no Iceberg type: {_MAX_PRECISION} digits are the most")
        return f"decimal({kind.precision}, {kind.scale})"
    if kind.logical == "duration" or (kind.kind == "fixed" and kind.size == 0):
        raise NoType(f"field '{path}' ({kind}) has no Iceberg type")
    if kind.logical:
        return _LOGICAL_TYPES[kind.logical]
    if kind.kind == "fixed":
        return f"fixed[{kind.size}]"
    return {"null": None, "bytes": "binary", "enum": "string"}.get(kind.kind, kind.kind)


_LOGICAL_TYPES = {
    "date": "date",
    "time-millis": "time",
    "time-micros": "time",
    "uuid": "uuid",
    **{f"timestamp-{unit}": "timestamptz" for unit in ("millis", "micros", "nanos")},
    **{f"local-timestamp-{unit}": "timestamp" for unit in ("millis", "micros", "nanos")},
}


class _Parser:
    """Named types by their full names."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def type(self, document: Any, namespace: str) -> AvroType:
        if isinstance(document, str):
            return self._word(document, namespace)
        if isinstance(document, list):
            return self._union(document, namespace)
        if not isinstance(document, dict) or "type" not in document:
            raise _wrong(f"{json.dumps(document)[:100]} is no type")
        kind = document["type"]
        if isinstance(kind, dict | list):
            return self.type(kind, namespace)
        if kind == "array":
            return Array(self.type(_get(document, "items"), namespace))
        if kind == "map":
            return Map(self.type(_get(document, "values"), namespace))
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(kind, document, namespace)
        return _logical(document, kind) if kind in PRIMITIVES else self._word(kind, namespace)

    def _word(self, word: Any, namespace: str) -> AvroType:
        if word in PRIMITIVES:
            return Leaf(word)
        for name in (f"{namespace}.{word}", word) if namespace and "." not in str(word) else (word,):
            if name in self._named:
                return self._named[name]
        raise _wrong(f"'{word}' is neither a type of Avro nor one that was defined before it")

    def _union(self, document: list[Any], namespace: str) -> Union:
        branches = tuple(self.type(one, namespace) for one in document)
        if any(isinstance(one, Union) for one in branches):
            raise _wrong("a union stands right inside a union")
        return Union(branches)

    def _define(self, kind: str, document: Mapping[str, Any], namespace: str) -> AvroType:
        name = _get(document, "name", str)
        if "." not in name:
            space = document.get("namespace", namespace)
            name = f"{space}.{name}" if space else name
        if name in self._named:
            raise _wrong(f"'{name}' is defined twice")
        if kind == "enum":
            symbols = _get(document, "symbols", list)
            made: AvroType = Leaf("enum", symbols=tuple(map(str, symbols)))
        elif kind == "fixed":
            size = _get(document, "size", int)
            if not 0 <= size < 2**31:
                raise _wrong(f"the size of '{name}' is {size}")
            made = _logical(document, "fixed", size)
        else:
            made = Record(name)
        self._named[name] = made
        for alias in document.get("aliases") or ():
            space = name.rpartition(".")[0]
            self._named.setdefault(alias if "." in alias or not space else f"{space}.{alias}", made)
        if isinstance(made, Record):
            made.fields = tuple(self._fields(_get(document, "fields", list), name.rpartition(".")[0]))
        return made

    def _fields(self, documents: list[Any], namespace: str) -> Iterable[RecordField]:
        seen = set()
        for document in documents:
            if not isinstance(document, dict):
                raise _wrong(f"{json.dumps(document)[:100]} is no field")
            name = _get(document, "name", str)
            if name in seen:
                raise _wrong(f"a record has two fields '{name}'")
            seen.add(name)
            kind = self.type(_get(document, "type"), namespace)
            aliases = document.get("aliases") or ()
            doc = document.get("doc")
            yield RecordField(name, kind, tuple(map(str, aliases)), doc if isinstance(doc, str) else None)


def _logical(document: Mapping[str, Any], kind: str, size: int = 0) -> Leaf:
    """What is said wrongly counts as not said, as the specification has it."""
    word = document.get("logicalType")
    if not isinstance(word, str) or kind not in _LOGICAL.get(word, ()):
        return Leaf(kind, size=size)
    if word == "decimal":
        precision, scale = document.get("precision"), document.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision >= 1:
            return Leaf(kind, size=size)
        if kind == "fixed" and 10**precision > 2 ** (8 * size - 1 if size else 0):
            return Leaf(kind, size=size)
        return Leaf(kind, word, size, precision, scale)
    if kind == "fixed" and size != _FIXED_SIZES[word]:
        return Leaf(kind, size=size)
    # Iceberg's own files say by this that a timestamp is a local one.
    if word.startswith("timestamp-") and document.get("adjust-to-utc") is False:
        word = f"local-{word}"
    return Leaf(kind, word, size)


def _get(document: Mapping[str, Any], key: str, kind: type | None = None) -> Any:
    found = document.get(key)
    if found is None or (kind is not None and not isinstance(found, kind)):
        raise _wrong(f"'{key}' is missing or wrong in {json.dumps(document)[:100]}")
    return found


def _wrong(reason: str) -> InvalidConfig:
    return InvalidConfig(f"not an Avro schema: {reason}")
