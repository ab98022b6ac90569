"""Which rows a query asks for, as far as that is told from its text."""

from __future__ import annotations

from datetime import date

import duckdb
import pytest
from tests.hot.read.world import schema_of

from frazil.hot.read.predicates import equalities, parsed

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
    assert _asked(text) == (wanted or {"id": -5, "Big": 3_000_000_000})


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
    assert _asked(text) == {}


def _asked(text: str) -> dict[str, object]:
    with duckdb.connect() as connection:
        return equalities(parsed(connection, text), "s.t", _SCHEMA)
