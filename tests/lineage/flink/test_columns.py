"""Operators one by one, as the planner prints them, where no captured job has them."""

from __future__ import annotations

import pytest

from frazil.lineage.flink.columns import Looked, derive
from frazil.lineage.flink.plan.operators import read_operator
from frazil.lineage.flink.plan.scanning import Unclear
from frazil.lineage.flink.rows import Column, Row, opaque, unique
from frazil.lineage.model import Input


def _row(*names: str, table: str = "t") -> Row:
    return Row(tuple(Column(name, frozenset({Input(table, name)})) for name in names))


def _made(text: str, *inputs: Row, looked: Looked | None = None) -> dict[str, str]:
    row = derive(read_operator(text), inputs, looked)
    assert row.columns is not None
    return {
        column.name: column.unknown
        or " ".join(sorted(f"{read.endpoint}.{read.column}" for read in column.inputs))
        for column in row.columns
    }


def test_a_lookup_join_takes_columns_of_the_table() -> None:
    text = (
        "LookupJoin(table=[c.d.dim], joinType=[LeftOuterJoin], lookup=[id=a],"
        " select=[a, b, id, UPPER(name) AS EXPR$1])"
    )
    assert _made(text, _row("a", "b"), looked=Looked("dim")) == {
        "a": "t.a",
        "b": "t.b",
        "id": "dim.id",
        "EXPR$1": "dim.name",
    }


def test_a_column_that_the_planner_may_have_renamed_is_known_by_the_table_alone() -> None:
    text = "LookupJoin(table=[c.d.dim], joinType=[InnerJoin], lookup=[id=a], select=[a, v, id, v0])"
    assert "may be v" in _made(text, _row("a", "v"), looked=Looked("dim"))["v0"]
    assert _made(text, _row("a", "v"), looked=Looked("dim", ("id", "v")))["v0"] == "dim.v"
    with pytest.raises(Unclear):
        derive(read_operator(text), [_row("b", "v")], Looked("dim"))


def test_a_key_of_the_lookup_tells_its_name() -> None:
    text = "LookupJoin(table=[c.d.dim], joinType=[InnerJoin], lookup=[id=id], select=[id, v, id0])"
    assert _made(text, _row("id", "v"), looked=Looked("dim"))["id0"] == "dim.id"


def test_a_join_of_other_columns_than_its_inputs_is_refused() -> None:
    text = "Join(joinType=[InnerJoin], where=[true], select=[a, b, a0])"
    assert _made(text, _row("a", "b"), _row("a", table="u")) == {"a": "t.a", "b": "t.b", "a0": "u.a"}
    with pytest.raises(Unclear):
        derive(read_operator(text), [_row("a", table="u"), _row("a", "b")])


def test_a_join_of_many_inputs() -> None:
    text = "MultiJoin(joinTypes=[INNER, LEFT], select=[a,a0,a1], rowType=[RecordType(INTEGER a)])"
    rows = [_row("a", table=table) for table in "xyz"]
    assert _made(text, *rows) == {"a": "x.a", "a0": "y.a", "a1": "z.a"}


def test_a_table_aggregate_gives_several_columns() -> None:
    text = "GroupTableAggregate(groupBy=[k], select=[k, Top3(v) AS (f0, f1)])"
    assert _made(text, _row("k", "v")) == {"k": "t.k", "f0": "t.v", "f1": "t.v"}


def test_a_table_function_is_made_of_its_arguments() -> None:
    text = (
        "Correlate(invocation=[split($cor0.s, $cor0.d)], correlate=[table(split($cor0.s,$cor0.d))],"
        " select=[s,d,word,n], rowType=[RecordType(VARCHAR s)], joinType=[INNER])"
    )
    assert _made(text, _row("s", "d")) == {"s": "t.s", "d": "t.d", "word": "t.d t.s", "n": "t.d t.s"}


def test_measures_of_a_match_name_columns_behind_the_variable() -> None:
    text = (
        "Match(partitionBy=[symbol], orderBy=[ts ASC], measures=[FINAL(A.price) AS price,"
        " FINAL(MATCH_ROWTIME(*.ts)) AS at], rowsPerMatch=[ONE ROW PER MATCH], after=[SKIP TO NEXT ROW],"
        " pattern=[_UTF-16LE'A'], define=[{A=>(PREV(A.$2, 0), 0)}])"
    )
    assert _made(text, _row("symbol", "ts", "price")) == {
        "symbol": "t.symbol",
        "price": "t.price",
        "at": "t.ts",
    }


def test_python_and_asynchronous_operators_are_the_same() -> None:
    assert _made("PythonCalc(select=[a, udf(b) AS f])", _row("a", "b")) == {"a": "t.a", "f": "t.b"}
    assert _made("AsyncCalc(select=[a, udf(b) AS f])", _row("a", "b")) == {"a": "t.a", "f": "t.b"}


def test_an_operator_that_nobody_knows_tells_nothing() -> None:
    row = derive(read_operator("ProcessTableFunction(invocation=[f(a)], select=[a,b])"), [_row("a")])
    assert row.columns is None
    assert "does not say" in (row.unknown or "")


def test_behind_an_unknown_row_names_are_known_and_their_inputs_are_not() -> None:
    row = derive(read_operator("Calc(select=[a, (b + 1) AS c])"), [opaque("no plan")])
    assert row.columns == (Column("a", unknown="no plan"), Column("c", unknown="no plan"))


def test_names_of_a_joined_row_are_made_new_as_the_planner_does() -> None:
    assert unique(["a", "b", "a", "a", "a0"]) == ("a", "b", "a0", "a1", "a00")
