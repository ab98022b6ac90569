"""What a table would need for the columns that records have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, Type
from frazil.stream.cdc.decode.wire import Fields, formless, natural

_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_WIDER = {("int", "long"), ("float", "double")}


def grown(schema: Schema | None, declared: Schema | None, columns: Fields) -> Schema | None:
    """The schema with what columns of wire types need besides; None if that is nothing."""
    wanted = {field.name: field.type for field in declared or ()}
    have = {field.name: field for field in schema or ()}
    fields = dict(have)
    odd = set(formless(columns))
    for name, wire in columns:
        if name in odd:
            continue
        kind = wanted.get(name) or readable(natural(wire))
        known = have.get(name)
        fields[name] = Field(name, kind) if known is None else replace(known, type=widened(known.type, kind))
    return None if schema is not None and fields == have else _optional(fields.values())


def readable(kind: Type) -> Type:
    """The type that a new column gets: times of day as text, because Spark knows no such type and could not
    read the table at all."""
    match kind:
        case "time":
            return "string"
        case ListType():
            return ListType(readable(kind.element))
        case MapType():
            return MapType(kind.key, readable(kind.value))
        case StructType():
            return StructType(tuple(replace(field, type=readable(field.type)) for field in kind.fields))
    return kind


def changed(schema: Schema | None, changes: Iterable[SchemaChange]) -> Schema:
    """The schema with new columns, also inside others."""
    root: Type = StructType(schema.fields if schema else ())
    for change in changes:
        root = _with(root, change.path, change.type)
    return _optional(root.fields if isinstance(root, StructType) else ())


def _optional(fields: Iterable[Field]) -> Schema:
    return Schema(tuple(replace(field, required=False) for field in fields))


def _with(kind: Type, path: tuple[str, ...], new: Type) -> Type:
    if not path:
        return new
    if isinstance(kind, ListType):
        return replace(kind, element=_with(kind.element, path[1:], new))
    if isinstance(kind, MapType):
        return replace(kind, value=_with(kind.value, path[1:], new))
    if not isinstance(kind, StructType):
        return kind
    fields = {field.name: field for field in kind.fields}
    inner = fields.get(path[0])
    under = StructType(()) if inner is None else inner.type
    fields[path[0]] = replace(inner or Field(path[0], new), type=_with(under, path[1:], new))
    return StructType(tuple(fields.values()))


def widened(have: Type, want: Type) -> Type:
    """A column's type, made as wide as Iceberg can make it for values of another."""
    if isinstance(have, StructType) and isinstance(want, StructType):
        fields = {field.name: field for field in have.fields}
        for field in want.fields:
            known = fields.get(field.name)
            fields[field.name] = (
                field if known is None else replace(known, type=widened(known.type, field.type))
            )
        return StructType(tuple(fields.values()))
    if isinstance(have, ListType) and isinstance(want, ListType):
        return replace(have, element=widened(have.element, want.element))
    if isinstance(have, MapType) and isinstance(want, MapType):
        return replace(have, value=widened(have.value, want.value))
    if isinstance(have, str) and isinstance(want, str):
        return want if (have, want) in _WIDER or _longer(have, want) else have
    return have


def _longer(have: str, want: str) -> bool:
    first, second = _DECIMAL.fullmatch(have), _DECIMAL.fullmatch(want)
    return bool(first and second and first[2] == second[2] and int(first[1]) < int(second[1]))
