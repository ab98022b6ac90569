"""Iceberg schemas: as text, as the spec's JSON, as Arrow with field ids, as Spark writes them.

A type is a word for a primitive (`long`, `decimal(10, 2)`, `timestamptz`) or one of the three nested classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.foreign_types import instead_of, require_types

#: Parquet files carry the ids of Iceberg's fields in this key of Arrow's metadata.
FIELD_ID = b"PARQUET:field_id"

_PRIMITIVES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "binary": pa.binary(),
}
_SPARK = {"time": None, "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}
_ALIASES = {"bigint": "long", "integer": "int", "bool": "boolean", "text": "string", "varchar": "string"}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_MAX_PRECISION = 38
_PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z_0-9-]*")


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct. `id` is 0 until the catalog gave one."""

    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    id: int = 0


@dataclass(frozen=True)
class StructType:
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ListType:
    element: Type
    element_required: bool = False
    element_id: int = 0


@dataclass(frozen=True)
class MapType:
    key: Type
    value: Type
    value_required: bool = False
    key_id: int = 0
    value_id: int = 0


Type: TypeAlias = str | StructType | ListType | MapType


@dataclass(frozen=True)
class Schema:
    """The columns of a table."""

    fields: tuple[Field, ...]
    id: int = 0

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def field(self, name: str) -> Field:
        """The column of that name; InvalidConfig lists those there are."""
        for field in self.fields:
            if field.name == name:
                return field
        names = ", ".join(field.name for field in self.fields)
        raise InvalidConfig(f"there is no column '{name}'; there are: {names}")

    def with_fresh_ids(self) -> Schema:
        """The same with ids counted from 1, top level first, as a catalog gives them."""
        counter = iter(range(1, 1_000_000))
        fields = _number(self.fields, counter)
        return Schema(fields, self.id)

    def to_arrow(self) -> pa.Schema:
        """Arrow's schema; fields that have an id carry it to Parquet."""
        return pa.schema([_arrow_field(field) for field in self.fields])

    def to_json(self) -> dict[str, Any]:
        """The spec's form."""
        return {"type": "struct", "schema-id": self.id, "fields": [_field_json(f) for f in self.fields]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], table: str | None = None) -> Schema:
        """The one of a table: Unsupported, if a column has a type that frazil has not."""
        require_types(document, table)
        return cls(_struct_of(document).fields, int(document.get("schema-id", 0)))

    def to_spark_ddl(self) -> str:
        """The columns as Spark's DDL writes them; `time` is not known to Spark."""
        return ", ".join(
            f"{_quoted(f.name)} {spark_type(f.type)}{' NOT NULL' if f.required else ''}" for f in self.fields
        )


@dataclass(frozen=True)
class SchemaChange:
    """Something that a schema would need to hold a value: a new column, or a wider type of one."""

    #: Names from the top: `("address", "zip")`; elements of lists are `element`, of maps `key` and `value`.
    path: tuple[str, ...]
    type: Type
    #: Whether the column is there and gets a wider type.
    widens: bool = False


def parse_type(text: str) -> Type:
    """A type as people write it: `long`, `decimal(10, 2)`, `list<string>`, `struct<a: int, b: string>`.

    >>> parse_type("map<string, long>")
    MapType(key='string', value='long', value_required=False, key_id=0, value_id=0)
    """
    parser = _TypeParser(text)
    found = parser.type()
    parser.end()
    return found


def arrow_type(kind: Type) -> pa.DataType:
    """Arrow's type for one of Iceberg's."""
    if isinstance(kind, StructType):
        return pa.struct([_arrow_field(field) for field in kind.fields])
    if isinstance(kind, ListType):
        return pa.list_(
            pa.field("element", arrow_type(kind.element), not kind.element_required, _meta(kind.element_id))
        )
    if isinstance(kind, MapType):
        key = pa.field("key", arrow_type(kind.key), False, _meta(kind.key_id))
        value = pa.field("value", arrow_type(kind.value), not kind.value_required, _meta(kind.value_id))
        return pa.map_(key, value)
    if match := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(kind):
        return pa.binary(int(match[1]))
    return _PRIMITIVES[kind]


def spark_type(kind: Type) -> str:
    """Spark's word for a type."""
    if isinstance(kind, StructType):
        inner = ", ".join(
            f"{_quoted(f.name)}: {spark_type(f.type)}{' NOT NULL' if f.required else ''}" for f in kind.fields
        )
        return f"struct<{inner}>"
    if isinstance(kind, ListType):
        return f"array<{spark_type(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{spark_type(kind.key)}, {spark_type(kind.value)}>"
    if kind.startswith("decimal"):
        return kind
    if kind.startswith("fixed"):
        return "binary"
    word = _SPARK.get(kind, kind)
    if word is None:
        raise InvalidConfig(
            f"Spark has no type for Iceberg's '{kind}': leave the transform out, or use a string"
        )
    return {"long": "bigint"}.get(word, word)


def show_type(kind: Type) -> str:
    """The text that `parse_type` reads."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{_shown(f.name)}: {show_type(f.type)}' for f in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{show_type(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{show_type(kind.key)}, {show_type(kind.value)}>"
    return kind


def primitives(kind: Type) -> Iterator[str]:
    """The words inside a type, itself if it is one."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from primitives(field.type)
    elif isinstance(kind, ListType):
        yield from primitives(kind.element)
    elif isinstance(kind, MapType):
        yield from primitives(kind.key)
        yield from primitives(kind.value)
    else:
        yield kind


class _TypeParser:
    """A recursive descent over the text of a type."""

    _WORD = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*)")
    _NAME = re.compile(rf"\s*(?:`([^`]+)`|({_PLAIN_NAME.pattern}))")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def type(self) -> Type:
        match = self._WORD.match(self._text, self._at)
        if match is None:
            raise self._wrong()
        word, self._at = match[1].lower(), match.end()
        word = _ALIASES.get(word, word)
        if word == "struct":
            return self._struct()
        if word in ("list", "array"):
            self._take("<")
            element = self.type()
            self._take(">")
            return ListType(element)
        if word == "map":
            self._take("<")
            key = self.type()
            self._take(",")
            value = self.type()
            self._take(">")
            return MapType(key, value)
        return self._primitive(word)

    def _primitive(self, word: str) -> str:
        for name, pattern in (("decimal", _DECIMAL), ("fixed", _FIXED)):
            if word == name:
                match = pattern.match(name + self._text[self._at :].lstrip())
                if match is None:
                    raise self._wrong()
                self._at = self._text.index(match[0][-1], self._at) + 1
                if name == "decimal" and not (int(match[2]) <= int(match[1]) <= _MAX_PRECISION):
                    raise InvalidConfig(
                        f"'{self._text}': a decimal has up to {_MAX_PRECISION} digits, its scale within them"
                    )
                return (
                    f"decimal({int(match[1])}, {int(match[2])})"
                    if name == "decimal"
                    else f"fixed[{int(match[1])}]"
                )
        if word not in _PRIMITIVES:
            raise self._wrong(instead_of(word))
        return word

    def _struct(self) -> StructType:
        self._take("<")
        fields = []
        while True:
            match = self._NAME.match(self._text, self._at)
            if match is None:
                raise self._wrong()
            self._at = match.end()
            self._take(":")
            fields.append(Field(match[1] or match[2], self.type()))
            if self._peek() != ",":
                break
            self._take(",")
        self._take(">")
        return StructType(tuple(fields))

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._wrong()

    def _peek(self) -> str:
        return self._text[self._at :].lstrip()[:1]

    def _take(self, mark: str) -> None:
        rest = self._text[self._at :]
        if not rest.lstrip().startswith(mark):
            raise self._wrong()
        self._at += len(rest) - len(rest.lstrip()) + len(mark)

    def _wrong(self, instead: str | None = None) -> InvalidConfig:
        if instead is not None:
            return InvalidConfig(f"'{self._text}': frazil does not have this type of format 3; use {instead}")
        return InvalidConfig(
            f"'{self._text}' is no type (at character {self._at + 1}). Types are {', '.join(_PRIMITIVES)}, "
            "decimal(p, s), fixed[n], list<type>, map<key, value>, struct<name: type, …>"
        )


def _number(fields: Sequence[Field], counter: Iterator[int]) -> tuple[Field, ...]:
    numbered = [replace(field, id=next(counter)) for field in fields]
    return tuple(replace(field, type=_number_type(field.type, counter)) for field in numbered)


def _number_type(kind: Type, counter: Iterator[int]) -> Type:
    if isinstance(kind, StructType):
        return StructType(_number(kind.fields, counter))
    if isinstance(kind, ListType):
        own = next(counter)
        return replace(kind, element_id=own, element=_number_type(kind.element, counter))
    if isinstance(kind, MapType):
        key, value = next(counter), next(counter)
        return replace(
            kind,
            key_id=key,
            value_id=value,
            key=_number_type(kind.key, counter),
            value=_number_type(kind.value, counter),
        )
    return kind


def _meta(identifier: int) -> dict[bytes, bytes] | None:
    return {FIELD_ID: str(identifier).encode()} if identifier else None


def _arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, arrow_type(field.type), not field.required, _meta(field.id))


def _field_json(field: Field) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": field.id,
        "name": field.name,
        "required": field.required,
        "type": _type_json(field.type),
    }
    return document | ({"doc": field.doc} if field.doc else {})


def _type_json(kind: Type) -> Any:
    if isinstance(kind, StructType):
        return {"type": "struct", "fields": [_field_json(field) for field in kind.fields]}
    if isinstance(kind, ListType):
        return {
            "type": "list",
            "element-id": kind.element_id,
            "element": _type_json(kind.element),
            "element-required": kind.element_required,
        }
    if isinstance(kind, MapType):
        return {
            "type": "map",
            "key-id": kind.key_id,
            "key": _type_json(kind.key),
            "value-id": kind.value_id,
            "value": _type_json(kind.value),
            "value-required": kind.value_required,
        }
    return kind


def _struct_of(document: Mapping[str, Any]) -> StructType:
    return StructType(
        tuple(
            Field(f["name"], _type_of(f["type"]), bool(f["required"]), f.get("doc"), int(f["id"]))
            for f in document["fields"]
        )
    )


def _type_of(document: Any) -> Type:
    if isinstance(document, str):
        return parse_type(document)
    if document["type"] == "struct":
        return _struct_of(document)
    if document["type"] == "list":
        return ListType(
            _type_of(document["element"]), bool(document["element-required"]), int(document["element-id"])
        )
    return MapType(
        _type_of(document["key"]),
        _type_of(document["value"]),
        bool(document["value-required"]),
        int(document["key-id"]),
        int(document["value-id"]),
    )


def _shown(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name}`"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
