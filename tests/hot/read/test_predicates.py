"""Which rows a query asks for, as far as that is told from its text."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest
from tests.hot.read.world import schema_of

from frazil.hot.read.predicates import Between, Condition, OneOf, conditions, parsed

_SCHEMA = schema_of(
    {"id": "int required", "Big": "long", "word": "string", "day": "date", "amount": "decimal(10, 2)"}
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('FROM "s.t" WHERE id = 5', {"id": 5}),
        ('SELECT count(*) FROM "s.t" o WHERE -5 = o.id AND (big = 3000000000 AND word <> $$x$$)', None),
        ('SELECT id FROM "s.t" WHERE "s.t".word = $$it\'s$$ GROUP BY id LIMIT 3', {"word": "it's"}),
        ("SELECT 1 FROM \"s.t\" WHERE day = '2026-01-31'", {"day": date(2026, 1, 31)}),
        ("SELECT 1 FROM \"s.t\" WHERE day = DATE '2026-01-31'", {"day": date(2026, 1, 31)}),
        ('WITH a AS (SELECT * FROM "s.t" WHERE id = 5) SELECT * FROM a, a b WHERE a.id = 6', {"id": 5}),
        ('SELECT * FROM "s.other" JOIN (FROM "s.t" WHERE id = 5) USING (id)', {"id": 5}),
        # The column comes before what the query calls so.
        ('SELECT word AS id FROM "s.t" WHERE id = 5', {"id": 5}),
    ],
)
def test_what_is_asked_for(text: str, wanted: dict[str, object] | None) -> None:
    found = _asked(text)
    assert all(isinstance(one, OneOf) and len(one.values) == 1 for one in found)
    values = {one.column: one.values[0] for one in found if isinstance(one, OneOf)}
    assert values == (wanted or {"id": -5, "Big": 3_000_000_000})


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("id < 5", Between("id", high=5)),
        ("id <= 5", Between("id", high=5)),
        ("id > -5", Between("id", low=-5)),
        ("o.id >= 5", Between("id", low=5)),
        ("5 < BIG", Between("Big", low=5)),
        ("5 <= big", Between("Big", low=5)),
        ("5 > big", Between("Big", high=5)),
        ("5 >= big", Between("Big", high=5)),
        ("word >= 'b'", Between("word", low="b")),
        ("day < '2026-01-31'", Between("day", high=date(2026, 1, 31))),
        ("id BETWEEN 2 AND 7", Between("id", 2, 7)),
        (
            "day BETWEEN DATE '2026-01-01' AND '2026-01-31'",
            Between("day", date(2026, 1, 1), date(2026, 1, 31)),
        ),
        # As DuckDB reads it, and the same of nulls.
        ("NOT (id < 5)", Between("id", low=5)),
        ("id IN (1, -2, 3)", OneOf("id", (1, -2, 3))),
        ("word IN ('a', 'b')", OneOf("word", ("a", "b"))),
        ("day IN ('2026-01-01', DATE '2026-01-02')", OneOf("day", (date(2026, 1, 1), date(2026, 1, 2)))),
        # Of those that are not understood as a whole, nothing is taken.
        ("id NOT IN (1, 2)", None),
        ("id NOT BETWEEN 1 AND 2", None),
        ("id IN (1, NULL)", None),
        ("id IN (1, 2.5)", None),
        ("id IN (1, big)", None),
        ("id IN ('1', '2')", None),
        ("id IN (1, 3000000000)", None),
        ("id IN (SELECT 1)", None),
        ("id IN [1, 2]", None),
        ("id BETWEEN 1 AND 2.5", None),
        ("id BETWEEN 1 AND big", None),
        ("id BETWEEN NULL AND 2", None),
        ("id BETWEEN 1 AND 3000000000", None),
        ("3 BETWEEN id AND big", None),
        ("id < 3000000000", None),
        ("id < 5.5", None),
        ("id <> 5", None),
        ("id + 1 < 5", None),
        ("id < NULL", None),
        ("word < 5", None),
        ("word BETWEEN 'a' COLLATE NOCASE AND 'b'", None),
        ("word COLLATE NOCASE < 'b'", None),
        ("day > '2026-1-1'", None),
        ("day > TIMESTAMP '2026-01-01 12:00:00'", None),
        ("day >= 'infinity'", None),
        ("amount < 5", None),
        ("(NOT (id < 5)) IS TRUE", None),
        ("id < 5 OR word = 'a'", None),
        ("(id < 5) IS NOT FALSE", None),
        ("id < ANY (SELECT 5)", None),
        ("x.id < 5", None),
    ],
)
def test_ranges_and_lists(condition: str, wanted: Condition | None) -> None:
    found = _asked(f'SELECT 1 FROM "s.t" o WHERE {condition}')
    assert found == ([] if wanted is None else [wanted])


def test_all_of_several() -> None:
    text = 'SELECT 1 FROM "s.t" WHERE id > 2 AND (id <= 9 AND big IN (1, 2)) AND length(word) = 1'
    assert set(map(str, _asked(text))) == {
        str(one) for one in (Between("id", low=2), Between("id", high=9), OneOf("Big", (1, 2)))
    }


@pytest.mark.parametrize(
    "text",
    [
        'SELECT * FROM "s.t"',
        'SELECT * FROM "s.t" WHERE id = 5 OR id = 6',
        'SELECT * FROM "s.t" WHERE NOT (id = 5)',
        'SELECT * FROM "s.t" WHERE id IS NOT DISTINCT FROM 5',
        'SELECT * FROM "s.t" WHERE id + 1 = 5 AND id = big AND id = NULL AND id = (SELECT 5)',
        "SELECT * FROM \"s.t\" WHERE id = '5' AND word = 5 AND amount = 5 AND word = NULL",
        'SELECT * FROM "s.t" WHERE id = 5.0 AND id = 5e0 AND id = TRUE',
        'SELECT * FROM "s.t" WHERE id = 3000000000 AND big = 30000000000000000000',
        "SELECT * FROM \"s.t\" WHERE day = '2026-1-31' AND day = '2026-02-31' AND day = '20260131'",
        "SELECT * FROM \"s.t\" WHERE word = DATE '2026-01-31' AND word COLLATE NOCASE = 'a'",
        'SELECT *, id = 5 FROM "s.t"',
        'SELECT id FROM "s.t" GROUP BY id HAVING id = 5',
        'SELECT id FROM "s.t" WHERE id = 5 UNION ALL SELECT id FROM "s.t"',
        'SELECT * FROM "s.t" a WHERE id = 5 AND EXISTS (FROM "S.T" b WHERE b.big = a.id)',
        'SELECT * FROM "s.t" a LEFT JOIN "s.other" b ON a.id = b.id WHERE a.id = 5',
        'SELECT * FROM (FROM "s.t") WHERE id = 5',
        'SELECT * FROM "s.t" AS o(word, id) WHERE id = 5',
        'SELECT * FROM "s.t" word WHERE word.id = 5',
        'SELECT * FROM "s.t" WHERE x.id = 5',
        'SELECT * FROM "s.t" WHERE id = 5 USING SAMPLE 3 ROWS',
        'SELECT * FROM "s.t" TABLESAMPLE 3 ROWS WHERE id = 5',
        "SELECT (SELECT count(*) FROM query_table('s.t')) FROM \"s.t\" WHERE id = 5",
        'FROM (SUMMARIZE FROM "s.t" WHERE id = 5)',
        'SELECT 1; SELECT * FROM "s.t" WHERE id = 5',
        "SELEC",
    ],
)
def test_what_is_not_told(text: str) -> None:
    assert _asked(text) == []


def _asked(text: str) -> list[Condition]:
    with duckdb.connect() as connection:
        return conditions(parsed(connection, text), "s.t", _SCHEMA)
