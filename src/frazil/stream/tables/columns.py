"""The columns of a table, from its metadata document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from frazil.core.errors import Unsupported
from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type


def source_schema(metadata: Mapping[str, Any], table: str) -> Schema:
    """The current one, with its field ids."""
    current = metadata.get("current-schema-id", 0)
    schemas = metadata.get("schemas") or [metadata["schema"]]
    document = next(found for found in schemas if found.get("schema-id", 0) == current)
    defaults = [name for name, found in _fields(document) if found.get("initial-default") is not None]
    if defaults:
        raise Unsupported(
            f"the column {', '.join(defaults)} of the source table {table} has an initial default, which is "
            "not in the files: frazil cannot read such tables"
        )
    return Schema.from_json(document, table)


def without_ids(schema: Schema) -> Schema:
    """As somebody would write it down: the ids of another table mean nothing."""
    return Schema(_plain(schema.fields))


def identities(metadata: Mapping[str, Any]) -> dict[int, frozenset[int]]:
    """By partition spec, the fields by which files are divided as they are."""
    specs = metadata.get("partition-specs") or [{"spec-id": 0, "fields": metadata.get("partition-spec", ())}]
    return {
        int(spec["spec-id"]): frozenset(
            int(found["source-id"]) for found in spec["fields"] if found["transform"] == "identity"
        )
        for spec in specs
    }


def _fields(document: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All fields, nested ones included."""
    if not isinstance(document, Mapping):
        return
    for found in document.get("fields", ()):
        yield found["name"], found
        yield from _fields(found["type"])
    for part in ("element", "key", "value"):
        yield from _fields(document.get(part))


def _plain(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(replace(field, id=0, type=_plain_type(field.type)) for field in fields)


def _plain_type(kind: Type) -> Type:
    if isinstance(kind, StructType):
        return StructType(_plain(kind.fields))
    if isinstance(kind, ListType):
        return ListType(_plain_type(kind.element), kind.element_required)
    if isinstance(kind, MapType):
        return MapType(_plain_type(kind.key), _plain_type(kind.value), kind.value_required)
    return kind
