"""The planner's expressions: what was printed from a tree must give back that tree's columns."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.lineage.flink.plan.expressions import parse_items
from frazil.lineage.flink.plan.parser import Expression, Reference
from frazil.lineage.flink.plan.scanning import Unclear

PLAIN = ("id", "customer", "amount", "ts", "$f0", "EXPR$1", "w0$o0", "größe", "a-b", "count1$2", "IS", "DAY")
ODD = ("a, b", "c AS d", "x[0]", "(y)", "it's", "my col", "`q`", 'say "hi"', "f(id)", "AS")


@dataclass(frozen=True)
class Printed:
    """An expression as Flink prints it, and the columns that it was made of."""

    text: str
    references: frozenset[Reference] = frozenset()


def _refs(parts: list[Printed]) -> frozenset[Reference]:
    return frozenset().union(*(part.references for part in parts))


def _columns(names: tuple[str, ...]) -> st.SearchStrategy[Printed]:
    return st.sampled_from(names).map(lambda name: Printed(name, frozenset({Reference(name)})))


def _fields(names: tuple[str, ...]) -> st.SearchStrategy[Printed]:
    path = st.lists(st.sampled_from(["name", "f0", "zip_code"]), min_size=1, max_size=3)
    return st.tuples(st.sampled_from(names), path).map(
        lambda drawn: Printed(
            ".".join([drawn[0], *drawn[1]]), frozenset({Reference(drawn[0], tuple(drawn[1]))})
        )
    )


STRINGS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="'"), max_size=12
)
LITERALS = st.one_of(
    STRINGS.map(lambda text: f"'{text}'"),
    STRINGS.map(lambda text: f"_UTF-16LE'{text}':VARCHAR(2147483647) CHARACTER SET \"UTF-16LE\""),
    st.sampled_from(["' AS x, y'", "'a -> b'", "'], where=[x'", "'it's'", "'w$'", "X'0aff'"]),
    st.integers(-99, 99).map(str),
    st.integers(0, 99).map(lambda number: f"{number}L"),
    st.sampled_from(
        [
            "1.5E0",
            "true",
            "null:INTEGER",
            "null:DECIMAL(10, 2)",
            "null:RecordType:peek_no_expand(INTEGER id, VARCHAR(1) customer)",
            "5000:INTERVAL SECOND",
            "86400000:INTERVAL DAY TO SECOND(3)",
            "2020-01-01",
            "2020-01-01 10:11:12.123",
            "10:11:12",
            "Sarg[1, (2..3], _UTF-16LE'id':CHAR(2)]",
            "Sarg['a':VARCHAR(1)]:VARCHAR(1)",
        ]
    ),
).map(Printed)


def _calls(inner: st.SearchStrategy[Printed]) -> st.SearchStrategy[Printed]:
    names = st.sampled_from(
        [
            "UPPER",
            "CASE",
            "||",
            "-",
            "IS NOT DISTINCT FROM",
            "$SCALAR$1",
            "my_udf",
            "cat.db.udf",
            "ROW",
            "NOT LIKE",
        ]
    )
    call = st.tuples(names, st.lists(inner, max_size=4)).map(
        lambda drawn: Printed(f"{drawn[0]}({', '.join(part.text for part in drawn[1])})", _refs(drawn[1]))
    )
    operators = st.sampled_from(["+", "-", "*", "/", "=", "<>", "<=", "AND", "OR"])
    infix = st.tuples(operators, st.lists(inner, min_size=2, max_size=3)).map(
        lambda drawn: Printed(f"({f' {drawn[0]} '.join(part.text for part in drawn[1])})", _refs(drawn[1]))
    )
    types = st.sampled_from(
        [
            "TIMESTAMP(6)",
            'VARCHAR(5) CHARACTER SET "UTF-16LE"',
            "RecordType(INTEGER id, VARCHAR(2) amount) NOT NULL",
        ]
    )
    cast = st.tuples(st.sampled_from(["CAST", "TRY_CAST"]), inner, types).map(
        lambda drawn: Printed(f"{drawn[0]}({drawn[1].text} AS {drawn[2]})", drawn[1].references)
    )
    test = st.tuples(inner, st.sampled_from(["IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE"])).map(
        lambda drawn: Printed(f"{drawn[0].text} {drawn[1]}", drawn[0].references)
    )
    item = inner.map(lambda part: Printed(f"ITEM({part.text}, 1).f", part.references))
    return st.one_of(call, infix, cast, test, item)


def _expressions(names: tuple[str, ...]) -> st.SearchStrategy[Printed]:
    leaves = st.one_of(_columns(names), _fields(PLAIN), LITERALS)
    return st.recursive(leaves, _calls, max_leaves=12)


def _printed(items: list[tuple[Printed, str]]) -> str:
    return ", ".join(part.text if part.text == name else f"{part.text} AS {name}" for part, name in items)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(_expressions(PLAIN), st.sampled_from(["out", "EXPR$7", "id"])), min_size=1, max_size=5)
)
def test_a_select_list_gives_back_the_columns_it_was_printed_from(items: list[tuple[Printed, str]]) -> None:
    found = parse_items(_printed(items), PLAIN)
    assert [item.names for item in found] == [(name,) for _, name in items]
    assert [frozenset(item.expression.references) for item in found] == [part.references for part, _ in items]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(_expressions(PLAIN + ODD), st.sampled_from(["out", "x", "id"])), min_size=1, max_size=4
    )
)
def test_names_with_anything_in_them_are_read_right_or_not_at_all(items: list[tuple[Printed, str]]) -> None:
    try:
        found = parse_items(_printed(items), PLAIN + ODD)
    except Unclear:
        return
    assert [frozenset(item.expression.references) for item in found] == [part.references for part, _ in items]


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab,()[]{}' .ASu$01:-+*<>\"`\n"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unclear):
        parse_items(text, ("a", "b", "s"))


def _one(text: str, *columns: str) -> Expression:
    (item,) = parse_items(text, columns)
    return item.expression


def test_a_column_alone_is_plain_and_a_computed_one_is_not() -> None:
    assert _one("a", "a").plain
    assert _one("a.b.c", "a") == Expression((Reference("a", ("b", "c")),), plain=True)
    assert not _one("CAST(a AS BIGINT)", "a").plain


def test_names_with_commas_are_one_column_where_the_input_has_it() -> None:
    (first, second) = parse_items("a, b AS x, c", ("a, b", "c"))
    assert first.expression.references == (Reference("a, b"),)
    assert second.expression.references == (Reference("c"),)


def test_two_readings_are_refused() -> None:
    with pytest.raises(Unclear, match="two ways"):
        parse_items("a, b", ("a", "b", "a, b"))
    with pytest.raises(Unclear, match="can be a field"):
        parse_items("a.b", ("a", "a.b"))
    with pytest.raises(Unclear, match="can be a literal"):
        parse_items("(x + 1) AS y", ("x", "1"))


def test_a_name_that_the_input_does_not_have_is_refused() -> None:
    with pytest.raises(Unclear, match="nope is not a column"):
        parse_items("a, UPPER(nope) AS b", ("a",))


def test_symbols_are_not_columns_even_if_one_has_their_name() -> None:
    assert _one("EXTRACT(DAY, ts)", "ts", "DAY").references == (Reference("ts"),)
    assert _one("FLOOR(ts, DAY)", "ts", "DAY").references == (Reference("ts"),)
    assert _one("TRIM(BOTH, ' ', a)", "a", "BOTH").references == (Reference("a"),)
    assert set(_one("GREATEST(DAY, a)", "a", "DAY").references) == {Reference("DAY"), Reference("a")}


def test_a_string_with_quotes_in_it_goes_on_where_no_expression_can() -> None:
    (first, second) = parse_items("DATE_FORMAT(a, 'yyyy, 'x' MM') AS d, (b || 'it's a 'b' c') AS e", "ab")
    assert [read.column for read in first.expression.references] == ["a"]
    assert [read.column for read in second.expression.references] == ["b"]
    assert _one("('x' = a)", "a").references == (Reference("a"),)


def test_symbols_that_say_what_they_are_one_of() -> None:
    text = (
        "JSON_QUERY(a, '$.x', WITH_UNCONDITIONAL_ARRAY, SqlJsonQueryEmptyOrErrorBehavior[NULL],"
        " SqlJsonQueryEmptyOrErrorBehavior[NULL]) AS q, b"
    )
    assert [[read.column for read in item.expression.references] for item in parse_items(text, "ab")] == [
        ["a"],
        ["b"],
    ]
    assert _one("SqlIds[1]", "SqlIds").references == (Reference("SqlIds"),)
    assert _one("F(SqlIds[NULL])", "SqlIds").references == (Reference("SqlIds"),)


def test_aggregates_with_their_marks() -> None:
    text = (
        "k, COUNT(DISTINCT a) FILTER f AS n, COUNT(distinct$0 b) AS count$1, AVG(a) AS (sum$2, count$3),"
        " DISTINCT(b) AS distinct$0, COUNT(*) AS count1$4, AVG((a, b)) AS x"
    )
    found = [
        (item.names, {read.column for read in item.expression.references})
        for item in parse_items(text, "kabf")
    ]
    assert found == [
        (("k",), {"k"}),
        (("n",), {"a"}),
        (("count$1",), {"b"}),
        (("sum$2", "count$3"), {"a"}),
        (("distinct$0",), {"b"}),
        (("count1$4",), set()),
        (("x",), {"a", "b"}),
    ]


def test_nesting_without_end_is_refused_and_not_a_crash() -> None:
    with pytest.raises(Unclear, match="deeply"):
        parse_items("F(" * 5000 + "a" + ")" * 5000, ("a",))
