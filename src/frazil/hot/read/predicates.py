"""What a query asks of the values of a table's columns: files without such rows need not be read.

Taken from the query as DuckDB parses it. What is not understood asks nothing: DuckDB filters all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from frazil.core.schema import Field, Schema

if TYPE_CHECKING:
    import duckdb

_Node = Mapping[str, Any]
#: They may read tables that they name otherwise than by a reference.
_OPAQUE = ("TABLE_FUNCTION", "SHOW_REF", "PIVOT")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_BITS = {"int": 31, "long": 63}
#: Comparisons, and what they are with the sides changed.
_FLIPPED = {
    "COMPARE_EQUAL": "COMPARE_EQUAL",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
}


@dataclass(frozen=True)
class OneOf:
    """A column has one of these values."""

    column: str
    values: tuple[object, ...]


@dataclass(frozen=True)
class Between:
    """A column has a value that is neither below `low` nor above `high`; None: there is no such bound."""

    column: str
    low: object | None = None
    high: object | None = None


Condition: TypeAlias = OneOf | Between


def parsed(connection: duckdb.DuckDBPyConnection, text: str) -> _Node | None:
    """The query's syntax tree; None: DuckDB does not tell it."""
    import duckdb

    try:
        found = connection.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
        tree: _Node = msgspec.json.decode(found[0] if found else "{}")
    except (duckdb.Error, msgspec.MsgspecError, RecursionError):
        return None
    return tree if len(tree.get("statements") or ()) == 1 else None


def conditions(tree: _Node | None, name: str, schema: Schema) -> list[Condition]:
    """What is so of all rows of the table that the query looks at; nothing: it may be any row.

    Only of a table that the query reads once, and of conditions that must all be met there.
    """
    nodes = list(_nodes(tree))
    uses = [one for one in nodes if _is(one, "BASE_TABLE") and one["table_name"].lower() == name.lower()]
    if len(uses) != 1 or any(_is(one, kind) for one in nodes for kind in _OPAQUE):
        return []
    table = uses[0]
    (select,) = [one for one in nodes if one.get("from_table") is table] or [{}]
    # A sample is taken before rows are filtered.
    others = ("sample", "at_clause", "column_name_alias", "schema_name")
    if not select or select.get("sample") or any(table.get(one) for one in others):
        return []
    known = _Table(table.get("alias") or name, schema)
    found = (known.condition(one) for one in _conditions(select.get("where_clause")))
    return [one for one in found if one is not None]


class _Table:
    """A table under the name that it has in the query."""

    def __init__(self, alias: str, schema: Schema) -> None:
        self._alias = alias.lower()
        names = [field.name.lower() for field in schema]
        # DuckDB does not tell names by their case.
        self._fields = {one.name.lower(): one for one in schema if names.count(one.name.lower()) == 1}

    def condition(self, node: _Node) -> Condition | None:
        """None: it is none that is understood as a whole."""
        kind = str(node.get("type"))
        if kind in _FLIPPED:
            left, right = node["left"], node["right"]
            return self._compared(left, kind, right) or self._compared(right, _FLIPPED[kind], left)
        if kind == "COMPARE_IN":
            column, *given = node["children"]
            name, values = self._values(column, given)
            return OneOf(name, values) if values else None
        if kind == "COMPARE_BETWEEN":
            name, values = self._values(node["input"], (node["lower"], node["upper"]))
            return Between(name, *values) if values else None
        return None

    def _compared(self, column: _Node, kind: str, value: _Node) -> Condition | None:
        name, values = self._values(column, (value,))
        if not values:
            return None
        if kind == "COMPARE_EQUAL":
            return OneOf(name, values)
        # The bound itself is no reason to leave a row out: DuckDB does that.
        return Between(name, high=values[0]) if "LESSTHAN" in kind else Between(name, low=values[0])

    def _values(self, column: _Node, given: Iterable[_Node]) -> tuple[str, tuple[object, ...]]:
        """A column and all that it is compared with; nothing: one of them is something else."""
        field = self._field(column)
        if field is None:
            return "", ()
        values = tuple(_value(one, field.type) for one in given)
        return field.name, () if None in values else values

    def _field(self, column: _Node) -> Field | None:
        if not _is(column, "COLUMN_REF"):
            return None
        *before, name = (part.lower() for part in column["column_names"])
        # A name before it may be that of a column, of which this is a part.
        if before and (before != [self._alias] or self._alias in self._fields):
            return None
        return self._fields.get(name)


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
