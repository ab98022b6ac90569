"""Schemas that grow: what a schema must become to hold what was asked for, and the steps to get there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from frazil.core.errors import Unprocessable
from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, Type, show_type

_WIDER = {("int", "long"), ("float", "double")}
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


@dataclass(frozen=True)
class Step:
    """One call of Iceberg's `UpdateSchema`."""

    #: Where the new column goes, or the one that gets wider; names from the top, joined by dots.
    path: str
    type: Type
    #: Of a new column.
    name: str | None = None


def evolved(schema: Schema, changes: Sequence[SchemaChange]) -> Schema:
    """The schema with the changes in it; the same if it holds all that already. New fields have the id 0.

    Unprocessable: a change that Iceberg does not know.
    """
    found: Type = StructType(schema.fields)
    for change in changes:
        found = _changed(found, change.path, change, ())
    assert isinstance(found, StructType), "a schema stays one"
    return Schema(found.fields, schema.id)


def steps(schema: Schema) -> Iterator[Step]:
    """How to get to an evolved schema: new columns, and the types of all that are there."""
    yield from _steps(StructType(schema.fields), ())


def _steps(kind: Type, at: tuple[str, ...]) -> Iterator[Step]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            if field.id == 0:
                yield Step(".".join(at), field.type, field.name)
            else:
                yield from _steps(field.type, (*at, field.name))
    elif isinstance(kind, ListType):
        yield from _steps(kind.element, (*at, "element"))
    elif isinstance(kind, MapType):
        yield from _steps(kind.value, (*at, "value"))
    else:
        yield Step(".".join(at), kind)


def _changed(kind: Type, path: tuple[str, ...], change: SchemaChange, at: tuple[str, ...]) -> Type:
    """The type at `at` after a change at `path` below it."""
    if not path:
        return _held(kind, change.type, at)
    name, rest = path[0], path[1:]

    def inside(below: Type) -> Type:
        return _changed(below, rest, change, (*at, name))

    if isinstance(kind, StructType):
        return _in_struct(kind, path, change, at, inside)
    if isinstance(kind, ListType) and name == "element":
        return replace(kind, element=inside(kind.element))
    if isinstance(kind, MapType) and name == "value":
        return replace(kind, value=inside(kind.value))
    if isinstance(kind, MapType) and name == "key":
        # Equal keys must stay equal: Iceberg lets nothing about them change.
        if inside(kind.key) != kind.key:
            raise Unprocessable(f"{_show(change.path)}: the keys of a map cannot change; make another column")
        return kind
    raise Unprocessable(
        f"{_show(change.path)}: {_show(at)} is {show_type(kind)}, in which there is no '{name}'"
    )


def _in_struct(
    kind: StructType,
    path: tuple[str, ...],
    change: SchemaChange,
    at: tuple[str, ...],
    inside: Callable[[Type], Type],
) -> StructType:
    name = path[0]
    for number, field in enumerate(kind.fields):
        if field.name == name:
            grown = replace(field, type=inside(field.type))
            return StructType((*kind.fields[:number], grown, *kind.fields[number + 1 :]))
    if len(path) > 1 or change.widens:
        names = ", ".join(field.name for field in kind.fields)
        raise Unprocessable(f"{_show(change.path)}: there is no '{name}'; there are: {names}")
    _require_distinct(kind, name, at)
    return StructType((*kind.fields, Field(name, _unnumbered(change.type))))


def _require_distinct(kind: StructType, name: str, at: tuple[str, ...]) -> None:
    """Spark does not tell upper from lower case: it could read neither of the two."""
    for field in kind.fields:
        if field.name.lower() == name.lower():
            raise Unprocessable(
                f"a column {_show((*at, name))} beside '{field.name}' would differ from it by case only, and "
                "engines could read neither. Let the pipeline leave one of them out"
            )


def _held(kind: Type, wanted: Type, at: tuple[str, ...]) -> Type:
    """The type that holds values of both: `kind` itself if it can."""
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        found: Type = kind
        for field in wanted.fields:
            found = _changed(found, (field.name,), SchemaChange((*at, field.name), field.type), at)
        return found
    if isinstance(kind, ListType) and isinstance(wanted, ListType):
        return replace(kind, element=_held(kind.element, wanted.element, (*at, "element")))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        key = SchemaChange((*at, "key"), wanted.key)
        _changed(kind, ("key",), key, at)
        return replace(kind, value=_held(kind.value, wanted.value, (*at, "value")))
    if isinstance(kind, str) and isinstance(wanted, str):
        if kind == wanted or is_wider(kind, wanted):
            return kind
        if is_wider(wanted, kind):
            return wanted
    raise Unprocessable(
        f"{_show(at)} is {show_type(kind)} and cannot become {show_type(wanted)}: Iceberg widens int to "
        "long, float to double and decimals of the same scale. Cast the values, or make another column"
    )


def is_wider(wide: str, narrow: str) -> bool:
    """Whether every value of the second type is one of the first, by Iceberg's rules of promotion.

    >>> is_wider("long", "int"), is_wider("decimal(10, 2)", "decimal(9, 2)"), is_wider("double", "long")
    (True, True, False)
    """
    one, two = _DECIMAL.fullmatch(wide), _DECIMAL.fullmatch(narrow)
    if one is not None and two is not None:
        return one[2] == two[2] and int(one[1]) > int(two[1])
    return (narrow, wide) in _WIDER


def _unnumbered(kind: Type) -> Type:
    """Without ids: those are the catalog's to give."""
    if isinstance(kind, StructType):
        return StructType(tuple(replace(f, id=0, type=_unnumbered(f.type)) for f in kind.fields))
    if isinstance(kind, ListType):
        return replace(kind, element_id=0, element=_unnumbered(kind.element))
    if isinstance(kind, MapType):
        return replace(kind, key_id=0, value_id=0, key=_unnumbered(kind.key), value=_unnumbered(kind.value))
    return kind


def _show(path: tuple[str, ...]) -> str:
    return f"'{'.'.join(path)}'"
