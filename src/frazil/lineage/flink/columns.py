"""Column-level lineage through one operator: from the rows it takes to the row it puts out.

Each kind of operator prints its output in its own way; every reading is checked against the columns of the
input, so that a wrong assumption about where rows come from ends in `Unclear` instead of in a wrong edge.
Conditions of filters, joins and FILTER clauses choose rows; they are not what a column is made of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from frazil.lineage.flink.plan.expressions import parse_items
from frazil.lineage.flink.plan.operators import Operator
from frazil.lineage.flink.plan.parser import Expression, Item, Reference
from frazil.lineage.flink.plan.scanning import Unclear, matching, split
from frazil.lineage.flink.rows import Column, Row, combined, opaque, strongest, unique
from frazil.lineage.model import Derivation, Input

_PASSING = frozenset(
    {
        "ChangelogNormalize",
        "ConstraintEnforcer",
        "Deduplicate",
        "DropUpdateBefore",
        "Exchange",
        "LegacySink",
        "Limit",
        "MiniBatchAssigner",
        "Partitioner",
        "RowKindSetter",
        "Sink",
        "SinkMaterializer",
        "SinkUpsertMaterializer",
        "Sort",
        "SortLimit",
        "StreamRecordTimestampInserter",
        "TemporalSort",
        "UpsertMaterializer",
        "WatermarkAssigner",
        "WindowDeduplicate",
    }
)
_JOINS = frozenset(
    {
        "AdaptiveJoin",
        "DeltaJoin",
        "HashJoin",
        "IntervalJoin",
        "Join",
        "MultiJoin",
        "NestedLoopJoin",
        "SortMergeJoin",
        "TemporalJoin",
        "WindowJoin",
    }
)
_WINDOW_PROPERTY = re.compile(r"(start|end|rowtime|proctime|slice_end)\('w\$\)")
_WINDOW_COLUMN = re.compile(r"(time_col|win_start|win_end|slice_end)=(?=\[)")
_GROUP_WINDOW = re.compile(r"[A-Za-z]+GroupWindow\('w\$, (.+?)(?:, [^,]+)*\)")
_FRAME = re.compile(r" (?:ROWS|RANGE?) ")
_TABLE_FUNCTION = re.compile(r"table\((.*)\)", re.DOTALL)


@dataclass(frozen=True)
class Looked:
    """The table that a lookup join reads: its endpoint, and its columns where something tells them."""

    endpoint: str
    columns: tuple[str, ...] | None = None


def is_join(operator: Operator) -> bool:
    """Whether an operator takes two inputs or more, and does not mix them."""
    return _plain_kind(operator) in _JOINS


def derive(operator: Operator, inputs: Sequence[Row], looked: Looked | None = None) -> Row:
    """The row that `operator` makes of its inputs; `Unclear` when it cannot be of these inputs."""
    kind = _plain_kind(operator)
    if kind in _JOINS:
        return _join(operator, inputs)
    (row,) = inputs
    if kind in _PASSING or passes_by_name(operator):
        return row
    rule = _RULES.get(kind)
    if rule is None and kind.endswith("Aggregate"):
        rule = _aggregate
    if kind == "LookupJoin" and looked is not None:
        return _lookup(operator, row, looked)
    if rule is None:
        return opaque(f"the plan does not say what {operator.text[:80]} does with the columns")
    return rule(operator, row)


def _plain_kind(operator: Operator) -> str:
    return operator.kind.removeprefix("Python").removeprefix("Async").removeprefix("Python")


def passes_by_name(operator: Operator) -> bool:
    """Helpers of sinks that are printed by name: `ConstraintEnforcer[12]`, `SinkMaterializer[3]`."""
    return not operator.kind and operator.text.partition("[")[0] in _PASSING


def _attribute(operator: Operator, name: str) -> str:
    text = operator.attributes.get(name)
    if text is None:
        raise Unclear(operator.unclear or f"{operator.kind} says nothing of its {name}")
    return text


def _column(item: Item, name: str, row: Row, call: Derivation) -> Column:
    derivation = Derivation.COPY if item.expression.plain else call
    return combined(name, [row.read(reference, derivation) for reference in item.expression.references])


def _select(operator: Operator, row: Row) -> Row:
    items = parse_items(_attribute(operator, "select"), row.names)
    return Row(tuple(_column(item, item.names[0], row, Derivation.TRANSFORMATION) for item in items))


def _aggregate(operator: Operator, row: Row) -> Row:
    columns: list[Column] = []
    for item in parse_items(_attribute(operator, "select"), row.names):
        window = _WINDOW_PROPERTY.fullmatch(item.text)
        for name in item.names:
            if window:
                columns.append(_window_property(operator, row, window.group(1), name))
            else:
                columns.append(_column(item, name, row, Derivation.AGGREGATION))
    there = {column.name for column in columns}
    properties = split(operator.attributes.get("properties", ""), ", ")
    columns += [_window_property(operator, row, "end", name) for name in properties if name not in there]
    return Row(tuple(columns))


def _over(operator: Operator, row: Row) -> Row:
    """A batch job prints the aggregates of each window apart: `window#0=[SUM(a) AS w0$o0 ROWS BETWEEN …]`."""
    windows = [text for key, text in operator.attributes.items() if key.startswith("window#")]
    if not windows or row.columns is None:
        return _aggregate(operator, row)
    columns = list(row.columns)
    for text in windows:
        frame = list(_FRAME.finditer(text))
        if not frame:
            raise Unclear(f"a window that cannot be read: {text[:60]}")
        items = parse_items(text[: frame[-1].start()], row.names)
        columns += [_column(item, item.names[0], row, Derivation.AGGREGATION) for item in items]
    return _select(operator, Row(tuple(columns)))


def _window_property(operator: Operator, row: Row, which: str, name: str) -> Column:
    """A window's bound is computed from the time column, or taken from the bounds of an earlier window."""
    if which == "proctime" or name.endswith("$proctime"):
        return Column(name)
    bounds = _window_columns(operator)
    wanted = {"start": "win_start", "end": "win_end"}.get(which, "")
    if wanted in bounds:
        return combined(name, [row.read(Reference(bounds[wanted]), Derivation.COPY)])
    return combined(
        name,
        [row.read(Reference(column), Derivation.TRANSFORMATION) for column in dict.fromkeys(bounds.values())],
    )


def _window_columns(operator: Operator) -> Mapping[str, str]:
    text = _attribute(operator, "window")
    legacy = _GROUP_WINDOW.fullmatch(text)
    if legacy:
        return {"time_col": legacy.group(1)}
    found = {
        match.group(1): text[match.end() + 1 : matching(text, match.end()) - 1]
        for match in _WINDOW_COLUMN.finditer(text)
    }
    if not found:
        raise Unclear(f"a window over no column that could be read: {text[:60]}")
    return found


def _window_function(operator: Operator, row: Row) -> Row:
    if row.columns is None:
        return row
    added = [
        _window_property(operator, row, "start", name)
        for name in ("window_start", "window_end", "window_time")
    ]
    columns = [*row.columns, *added]
    names = unique([column.name for column in columns])
    return Row(
        tuple(
            Column(name, column.inputs, column.unknown) for name, column in zip(names, columns, strict=True)
        )
    )


def _expand(operator: Operator, row: Row) -> Row:
    """Every project gives a row; a column is made of what any of them puts there."""
    projects = [part.strip() for part in split(_attribute(operator, "projects"), ", ")]
    readings = []
    for project in projects:
        if not (project.startswith("{") and project.endswith("}")):
            raise Unclear(f"a project that cannot be read: {project[:60]}")
        items = parse_items(project[1:-1], row.names)
        readings.append([_column(item, item.names[0], row, Derivation.TRANSFORMATION) for item in items])
    if len({len(reading) for reading in readings}) != 1:
        raise Unclear("projects of different widths")
    return Row(tuple(combined(parts[0].name, parts) for parts in zip(*readings, strict=True)))


def _rank(operator: Operator, row: Row) -> Row:
    """The input's columns, and the rank itself where the query asks for it; a rank is made of no column."""
    if row.names is None:
        return row
    select = _attribute(operator, "select")
    same = ", ".join(row.names)
    if select == same:
        return row
    if not select.startswith(f"{same}, "):
        raise Unclear("the columns of a rank are not those of its input")
    rank = select[len(same) + 2 :]
    if ", " in rank:
        raise Unclear("a rank adds one column, not several")
    return Row((*(row.columns or ()), Column(rank)))


def _correlate(operator: Operator, row: Row) -> Row:
    """The input's columns, then those of the table function, which are made of its arguments."""
    if row.columns is None or row.names is None:
        return opaque(row.unknown or "a table function over constants")
    select = _attribute(operator, "select")
    same = ",".join(row.names)
    if not select.startswith(f"{same},"):
        raise Unclear("the columns of a correlate do not begin with those of its input")
    call = _TABLE_FUNCTION.fullmatch(_attribute(operator, "correlate"))
    if call is None:
        raise Unclear("a table function that cannot be read")
    items = parse_items(call.group(1), row.names)
    if len(items) != 1:
        raise Unclear("a table function that cannot be read")
    added = [
        _column(items[0], name, row, Derivation.TRANSFORMATION) for name in select[len(same) + 1 :].split(",")
    ]
    return Row((*row.columns, *added))


def _match(operator: Operator, row: Row) -> Row:
    """Pattern matching puts out the partition's columns and the measures."""
    keys = parse_items(operator.attributes.get("partitionBy", ""), row.names)
    if operator.attributes.get("rowsPerMatch", "").startswith("ALL"):
        raise Unclear("all rows of a match")
    columns = [_column(item, item.names[0], row, Derivation.COPY) for item in keys]
    names = None if row.names is None else [*row.names, *_pattern_names(operator, row.names)]
    for item in parse_items(_attribute(operator, "measures"), names):
        references = tuple(_unprefixed(reference, row) for reference in item.expression.references)
        measure = Item(Expression(references), item.names, item.text)
        columns.append(_column(measure, item.names[0], row, Derivation.AGGREGATION))
    return Row(tuple(columns))


def _pattern_names(operator: Operator, names: Sequence[str]) -> list[str]:
    """Columns as measures name them, behind the pattern variable: `A.price`."""
    text = _attribute(operator, "measures")
    return [f"{variable}.{name}" for variable in set(re.findall(r"([\w$*]+)\.", text)) for name in names]


def _unprefixed(reference: Reference, row: Row) -> Reference:
    variable, _, column = reference.column.partition(".")
    if row.names is not None and reference.column not in row.names and column in row.names:
        return Reference(column, reference.path)
    if row.names is None:
        return Reference(reference.path[0] if reference.path else variable)
    return reference


def _join(operator: Operator, inputs: Sequence[Row]) -> Row:
    """The columns of the inputs one after the other; of the left one alone where the join only filters."""
    known = [row.columns for row in inputs if row.columns is not None]
    if len(known) < len(inputs):
        return _join_of_unknown(operator, inputs)
    select = _attribute(operator, "select")
    separator = "," if operator.kind == "MultiJoin" else ", "
    if operator.attributes.get("joinType", "").endswith(("SemiJoin", "AntiJoin")):
        columns = list(known[0])
    else:
        columns = [column for part in known for column in part]
    names = unique([column.name for column in columns])
    if separator.join(names) != select:
        raise Unclear(f"a join of columns that are not those of its inputs: {select[:60]}")
    return Row(
        tuple(
            Column(name, column.inputs, column.unknown) for name, column in zip(names, columns, strict=True)
        )
    )


def _join_of_unknown(operator: Operator, inputs: Sequence[Row]) -> Row:
    reason = next((row.unknown for row in inputs if row.unknown), None) or "one input has constants only"
    separator = "," if operator.kind == "MultiJoin" else ", "
    names = _attribute(operator, "select").split(separator)
    return Row(tuple(Column(name, unknown=reason) for name in names))


def _lookup(operator: Operator, row: Row, looked: Looked) -> Row:
    """The input's columns, then those taken from the table that is looked up."""
    if row.columns is None or row.names is None:
        return opaque(row.unknown or "a lookup for constants")
    select = _attribute(operator, "select")
    same = ", ".join(row.names)
    if select == same:
        return row
    if not select.startswith(f"{same}, "):
        raise Unclear("the columns of a lookup join do not begin with those of its input")
    tail = select[len(same) + 2 :]
    whole = unique([*row.names, *(looked.columns or ())])[len(row.names) :]
    if looked.columns is not None and tail == ", ".join(whole):
        right = [Column(name, frozenset({Input(looked.endpoint, name)})) for name in looked.columns]
    else:
        items = parse_items(tail, looked.columns)
        right = [_looked_up(item, operator, row, looked) for item in items]
    columns = [*row.columns, *right]
    names = unique([column.name for column in columns])
    return Row(
        tuple(
            Column(name, column.inputs, column.unknown) for name, column in zip(names, columns, strict=True)
        )
    )


def _looked_up(item: Item, operator: Operator, row: Row, looked: Looked) -> Column:
    """A name that ends in a digit may be the planner's, for a column whose name the input has too."""
    references = item.expression.references
    for reference in references:
        base = reference.column.rstrip("0123456789")
        renamed = base != reference.column and base in (row.names or ())
        if renamed and looked.columns is None:
            keys = {part.partition("=")[0] for part in split(operator.attributes.get("lookup", ""), ", ")}
            if base in keys and reference.column not in keys:
                return Column(item.names[0], frozenset({Input(looked.endpoint, base)}))
            return Column(
                item.names[0],
                unknown=f"{reference.column} may be {base} under another name; the table would tell",
            )
    derivation = Derivation.COPY if item.expression.plain else Derivation.TRANSFORMATION
    read = (Input(looked.endpoint, ref.column, ref.path, derivation) for ref in references)
    return Column(item.names[0], strongest(read))


_RULES: Mapping[str, Callable[[Operator, Row], Row]] = {
    "Calc": _select,
    "Correlate": _correlate,
    "Expand": _expand,
    "Match": _match,
    "OverAggregate": _over,
    "Rank": _rank,
    "WindowRank": _rank,
    "WindowTableFunction": _window_function,
}
