"""The places where a job reads and writes, as its operators name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from frazil.lineage.flink.plan.graph import Node
from frazil.lineage.flink.plan.handing import sink_name
from frazil.lineage.flink.plan.operators import Operator
from frazil.lineage.flink.plan.scanning import HINT, Unclear, split
from frazil.lineage.flink.rows import Column, Row, opaque
from frazil.lineage.model import Direction, Endpoint, Input

#: Operators that read a table; the table's columns are in `fields`.
SCANS = frozenset({"TableSourceScan", "LegacyTableSourceScan", "BoundedStreamScan", "DataStreamScan"})
#: Operators that turn records of a DataStream into rows: what their columns were before is not in the plan.
CONVERSIONS = frozenset({"DataStreamScan", "SourceConversion", "DataSteamToTable", "DataStreamToTable"})

_DIGEST = re.compile(r"[A-Za-z]+(?:=|: )\[")
_NUMBER = re.compile(r"\[\d+\]$")
_OF_ICEBERG = re.compile(r"IcebergSink (?=\S)")
#: Operators around both of Iceberg's sinks.
_BY_ICEBERG = re.compile(r"^Iceberg|: Sink pre-commit aggregator: ")


def scanned(node: Node, id_: str) -> Endpoint:
    """The endpoint of an operator that reads."""
    operator = node.operator
    path = _scan_path(operator)
    columns = _fields(operator)
    name = path[-1] if path else _NUMBER.sub("", operator.text.removeprefix("Source: "))
    return Endpoint(
        id_, Direction.READ, name, node.vertex, operator.text, path, columns, hints=_hints(operator)
    )


def scan_row(endpoint: Endpoint, operator: Operator) -> Row:
    """What a scan puts out: the table's columns, as far as it does not aggregate in the source."""
    if endpoint.columns is None:
        return opaque(f"the plan does not name the columns of {endpoint.name}")
    if "aggregates=[" not in operator.attributes.get("table", ""):
        columns = (Column(name, frozenset({Input(endpoint.id, name)})) for name in endpoint.columns)
        return Row(tuple(columns))
    reason = f"{endpoint.name} aggregates before Flink sees the rows"
    return Row(tuple(Column(name, unknown=reason) for name in endpoint.columns))


def converted_row(operator: Operator) -> Row:
    """What an operator puts out that makes rows of a DataStream's records."""
    reason = "these columns come from a DataStream, whose code the plan does not show"
    fields = _fields(operator)
    if fields is None:
        return opaque(reason)
    return Row(tuple(Column(name, unknown=reason) for name in fields))


def named_row(operator: Operator, row: Row) -> Row:
    """A sink's row under the names that it prints itself, or under numbers."""
    if row.columns is None:
        return row
    names = _fields(operator) or ()
    if len(names) != len(row.columns):
        names = tuple(str(position) for position in range(len(row.columns)))
    return Row(tuple(replace(column, name=name) for name, column in zip(names, row.columns, strict=True)))


def looked_up(node: Node, id_: str) -> Endpoint:
    """The endpoint of the table in a lookup join."""
    summary = node.operator.attributes.get("table", "")
    path = table_path(summary)
    return Endpoint(
        id_,
        Direction.READ,
        path[-1] if path else summary,
        node.vertex,
        node.operator.text,
        path,
        hints={"lookup": "true"},
    )


def written(nodes: Sequence[Node], id_: str, row: Row) -> Endpoint:
    """The endpoint that these operators write, the first of them given `row`."""
    name, hints = _written_name(nodes)
    for node in nodes:
        hints |= _hints(node.operator)
    tables = (node.operator.attributes["table"] for node in nodes if "table" in node.operator.attributes)
    name = next(tables, name)
    path = table_path(name)
    return Endpoint(
        id_,
        Direction.WRITE,
        path[-1] if path else name,
        nodes[0].vertex,
        " -> ".join(node.operator.text for node in nodes),
        path,
        row.names,
        hints,
    )


def _written_name(nodes: Sequence[Node]) -> tuple[str, dict[str, str]]:
    hints: dict[str, str] = {}
    found = ""
    for node in reversed(nodes):
        text = node.operator.text
        name = sink_name(node.operator) or text.removeprefix("Sink: ")
        if _OF_ICEBERG.match(name):
            return _OF_ICEBERG.sub("", name), {"connector": "iceberg"}
        # The last operator of some sinks only ends the stream; the writer before it has the name.
        if not found or found == "end":
            found = name
    if any(_BY_ICEBERG.search(node.operator.text) for node in nodes):
        hints["connector"] = "iceberg"
    return _NUMBER.sub("", found), hints


def table_path(summary: str) -> tuple[str, ...]:
    """`catalog.database.table` in its parts; nothing where it has not three: names can have dots in them."""
    parts = tuple(summary.split("."))
    plain = len(parts) == 3 and all(parts) and not any(char.isspace() for char in summary)
    return parts if plain else ()


def _scan_path(operator: Operator) -> tuple[str, ...]:
    """The path in `table=[[catalog, database, table, project=[…], …]]`."""
    text = operator.attributes.get("table", "")
    if not (text.startswith("[") and text.endswith("]")):
        return ()
    path: list[str] = []
    try:
        for part in split(text[1:-1], ", "):
            if _DIGEST.match(part):
                break
            path.append(part)
    except Unclear:
        return ()
    return tuple(path)


def _fields(operator: Operator) -> tuple[str, ...] | None:
    text = operator.attributes.get("fields")
    return None if text is None else tuple(text.split(", ")) if text else ()


def _hints(operator: Operator) -> dict[str, str]:
    """The options that a query gives in a hint override those of the table."""
    found = HINT.finditer(operator.attributes.get("hints", ""))
    options = next((hint["options"] for hint in found if hint["hint"] == "OPTIONS"), "")
    pairs = (pair.partition("=") for pair in options.split(", "))
    return {f"options.{key}": value for key, equals, value in pairs if equals}
