"""What tables need to hold the rows that records have."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, Type


def grown(table: Schema, columns: Schema) -> list[SchemaChange]:
    """New columns, and other types of those that are there; what cannot be, the table refuses."""
    return list(_grown((), table.fields, columns.fields))


def _grown(
    path: tuple[str, ...], there: tuple[Field, ...], wanted: tuple[Field, ...]
) -> Iterator[SchemaChange]:
    known = {field.name: field for field in there}
    for field in wanted:
        at = (*path, field.name)
        if field.name not in known:
            yield SchemaChange(at, field.type)
        else:
            yield from _widened(at, known[field.name].type, field.type)


def _widened(path: tuple[str, ...], there: Type, wanted: Type) -> Iterator[SchemaChange]:
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        yield from _grown(path, there.fields, wanted.fields)
    elif isinstance(there, ListType) and isinstance(wanted, ListType):
        yield from _widened((*path, "element"), there.element, wanted.element)
    elif isinstance(there, MapType) and isinstance(wanted, MapType):
        yield from _widened((*path, "value"), there.value, wanted.value)
    elif there != wanted:
        yield SchemaChange(path, wanted, widens=True)
