"""What a query asks of a table's rows, as far as it is `column = value`: files without them need not be read.

Taken from the query as DuckDB parses it. What is not understood asks nothing: DuckDB filters all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

import msgspec

from frazil.core.schema import Schema

if TYPE_CHECKING:
    import duckdb

_Node = Mapping[str, Any]
#: They may read tables that they name otherwise than by a reference.
_OPAQUE = ("TABLE_FUNCTION", "SHOW_REF", "PIVOT")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_BITS = {"int": 31, "long": 63}


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> _Node | None:
    """The query's syntax tree; None: DuckDB does not tell it."""
    import duckdb

    try:
        found = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
        tree: _Node = msgspec.json.decode(found[0] if found else "{}")
    except (duckdb.Error, msgspec.MsgspecError, RecursionError):
        return None
    return tree if len(tree.get("statements") or ()) == 1 else None


def equalities(tree: _Node | None, name: str, schema: Schema) -> dict[str, object]:
    """Values that columns have in all rows of the table that the query looks at; none: it may be any row.

    Only of a table that the query reads once, and of conditions that must all be met there.
    """
    nodes = list(_nodes(tree))
    uses = [one for one in nodes if _is(one, "BASE_TABLE") and one["table_name"].lower() == name.lower()]
    if len(uses) != 1 or any(_is(one, kind) for one in nodes for kind in _OPAQUE):
        return {}
    table = uses[0]
    (select,) = [one for one in nodes if one.get("from_table") is table] or [{}]
    # A sample is taken before rows are filtered.
    others = ("sample", "at_clause", "column_name_alias", "schema_name")
    if not select or select.get("sample") or any(table.get(one) for one in others):
        return {}
    known = _Table(table.get("alias") or name, schema)
    found: dict[str, object] = {}
    for condition in _conditions(select.get("where_clause")):
        if _is(condition, "COMPARE_EQUAL"):
            left, right = condition["left"], condition["right"]
            found |= known.equality(left, right) or known.equality(right, left)
    return found


class _Table:
    """A table under the name that it has in the query."""

    def __init__(self, alias: str, schema: Schema) -> None:
        self._alias = alias.lower()
        names = [field.name.lower() for field in schema]
        # DuckDB does not tell names by their case.
        self._fields = {one.name.lower(): one for one in schema if names.count(one.name.lower()) == 1}

    def equality(self, column: _Node, value: _Node) -> dict[str, object]:
        if not _is(column, "COLUMN_REF"):
            return {}
        *before, name = (part.lower() for part in column["column_names"])
        field = self._fields.get(name)
        # A name before it may be that of a column, of which this is a part.
        if field is None or (before and (before != [self._alias] or self._alias in self._fields)):
            return {}
        found = _value(value, field.type)
        return {} if found is None else {field.name: found}


def _value(node: _Node, kind: Any) -> object | None:
    """A constant of the column's own kind: others are compared after a conversion, which is DuckDB's."""
    if kind == "date" and _is(node, "OPERATOR_CAST") and node["cast_type"]["id"] == "DATE":
        node = node["child"]
    if not _is(node, "VALUE_CONSTANT"):
        return None
    constant, value = node["value"]["type"]["id"], node["value"].get("value")
    if kind in _BITS and constant in ("INTEGER", "BIGINT"):
        return value if -(1 << _BITS[kind]) <= value < 1 << _BITS[kind] else None
    if constant != "VARCHAR":
        return None
    return _day(value) if kind == "date" else value if kind == "string" else None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def _conditions(where: _Node | None) -> Iterator[_Node]:
    waiting = [where] if where is not None else []
    while waiting:
        one = waiting.pop()
        if _is(one, "CONJUNCTION_AND"):
            waiting += one["children"]
        else:
            yield one


def _nodes(tree: object) -> Iterator[_Node]:
    """All of a tree, itself among them."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _is(node: _Node, kind: str) -> bool:
    return node.get("type") == kind
