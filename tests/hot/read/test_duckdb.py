"""DuckDB's answers from the columns and rows that it is given: the same as from whole tables of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.hot.read.world import schema_of

from frazil.core.errors import InvalidInput
from frazil.hot.read import sql
from frazil.hot.read.pins import Pinned, Pins
from frazil.lake.data_rows import Columns

_TABLES: dict[str, tuple[dict[str, str], list[tuple[Any, ...]]]] = {
    "shop.orders": (
        {"id": "long required", "word": "string", "amount": "long", "day": "date"},
        [(n, (None, "a", "b", "c")[n % 4], n * 10 % 70, f"2026-01-0{1 + n % 5}") for n in range(12)],
    ),
    "shop.names": (
        {"id": "long required", "label": "string", "amount": "long", "note": "string"},
        [(n * 2, "abc"[n % 3], n * 20 % 70, f"n{n}") for n in range(6)],
    ),
    "shop.odd": (
        {"a b": 'struct<x: int, `y"z`: list<string>>', 'q"t': "map<string, decimal(10, 2)>", "n": "long"},
        [({"x": 1, 'y"z': ["u"]}, [("k", 1)], 5)],
    ),
    "shop.kinds": (
        {
            kind: kind
            for kind in (
                "long",
                "int",
                "boolean",
                "float",
                "double",
                "date",
                "time",
                "timestamp",
                "timestamptz",
            )
        }
        | {
            kind: kind
            for kind in (
                "string",
                "uuid",
                "binary",
                "fixed[3]",
                "decimal(38,9)",
                "map<int, list<struct<a: date>>>",
            )
        },
        [],
    ),
}


def _rows(name: str) -> pa.Table:
    columns, rows = _TABLES[name]
    wanted = Columns(schema_of(columns)).fitter.schema
    given = pa.schema(
        [pa.field(one.name, pa.string() if one.type == pa.date32() else one.type) for one in wanted]
    )
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], given).cast(wanted)


@dataclass
class World:
    """Stands for the catalog and for what reads files."""

    rows: dict[str, pa.Table] = field(default_factory=lambda: {name: _rows(name) for name in _TABLES})
    #: What was read in the end.
    columns: dict[str, list[str]] = field(default_factory=dict)
    wheres: dict[str, Mapping[str, object]] = field(default_factory=dict)
    reads: int = 0

    def pinned(self, _client: object, name: str, **_options: object) -> Pinned:
        document = {**schema_of(_TABLES[name][0]).to_json(), "schema-id": 0}
        namespace, _, table = name.partition(".")
        pins = Pins(table=name, uuid="u")
        return Pinned(pins, (namespace,), table, {"schemas": [document], "current-schema-id": 0}, None)

    def union(
        self,
        found: Pinned,
        _client: object,
        _kafka: object,
        *,
        columns: Sequence[str] | None,
        where: Mapping[str, object] | None,
    ) -> SimpleNamespace:
        rows, name = self.rows[str(found)], str(found)
        self.columns[name] = rows.column_names if columns is None else list(columns)
        self.wheres[name] = where or {}
        self.reads += 1
        for column, value in (where or {}).items():
            kind = rows.schema.field(column).type
            rows = rows.filter(pa.compute.equal(rows.column(column), pa.scalar(value, kind)))
        return SimpleNamespace(table=lambda: rows.select(self.columns[name]))

    def answer(self, text: str) -> pa.Table:
        there = SimpleNamespace(exists=lambda namespace, name: f"{namespace[0]}.{name}" in _TABLES)
        return sql._by_duckdb(text, sql.Tables(SimpleNamespace(tables=there)))  # type: ignore[arg-type]

    def expected(self, text: str) -> pa.Table:
        """By DuckDB alone, to which the tables are in a schema of its own."""
        with duckdb.connect() as connection:
            connection.execute("CREATE SCHEMA shop")
            for number, (name, rows) in enumerate(self.rows.items()):
                connection.register(f"r{number}", rows)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM r{number}")
            return connection.execute(text).to_arrow_table()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(sql, "pinned", made.pinned)
    monkeypatch.setattr(sql, "Union", made.union)
    return made


def _plain(table: pa.Table) -> tuple[list[str], list[str]]:
    return table.column_names, sorted(repr(tuple(one.values())) for one in table.to_pylist())


_ORDERS = ["id", "word", "amount", "day"]
_NAMES = ["id", "label", "amount", "note"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # What is certain: the others are not read.
        ("SELECT sum(amount) FROM shop.orders", {"shop.orders": ["amount"]}),
        ("SELECT count(*) FROM (SELECT * FROM shop.orders)", {"shop.orders": ["id"]}),
        ("SELECT id FROM (SELECT * EXCLUDE (word) FROM shop.orders)", {"shop.orders": ["id"]}),
        ("WITH a AS (FROM shop.orders) SELECT day FROM a WHERE word = 'a'", {"shop.orders": ["word", "day"]}),
        ("SELECT COLUMNS('^a') FROM shop.orders", {"shop.orders": ["amount"]}),
        ("SELECT try(100 // amount) FROM shop.orders", {"shop.orders": ["amount"]}),
        # Nothing is read of them, but they are told of.
        ("SELECT * FROM shop.orders LIMIT 0", {"shop.orders": ["id"]}),
        ("SELECT * FROM shop.orders WHERE 1 = 0", {"shop.orders": ["id"]}),
        ("FROM (DESCRIBE shop.orders)", {"shop.orders": ["id"]}),
        ("/* select */ DESCRIBE shop.orders", {"shop.orders": ["id"]}),
        ("DESCRIBE shop.odd", {"shop.odd": ["a b"]}),
        ("DESCRIBE shop.kinds", {"shop.kinds": ["long"]}),
        ("SELECT n FROM (SELECT * FROM shop.odd)", {"shop.odd": ["n"]}),
        ("SELECT o FROM shop.odd o", {"shop.odd": list(_TABLES["shop.odd"][0])}),
        # Positions: `amount` must not come to stand where `word` does.
        (
            "SELECT b FROM shop.orders AS o(a, b) WHERE (SELECT max(amount) FROM shop.orders) > 5",
            {"shop.orders": ["word", "amount"]},
        ),
        ("SELECT b, amount FROM shop.orders AS o(a, b)", {"shop.orders": ["word", "amount"]}),
        (
            "SELECT word FROM (SELECT * FROM shop.orders UNION ALL BY NAME SELECT * FROM shop.names)",
            {"shop.orders": ["word"], "shop.names": ["id"]},
        ),
        (
            """SELECT word FROM (SELECT * EXCLUDE (day) FROM shop.orders
            UNION ALL SELECT * EXCLUDE (note) FROM shop.names)
            WHERE (SELECT max(day) FROM shop.orders) > DATE '2026-01-01'
            AND (SELECT max(note) FROM shop.names) <> ''""",
            {"shop.orders": ["word", "day"], "shop.names": ["label", "note"]},
        ),
        # Names that both have.
        ("SELECT note FROM shop.orders NATURAL JOIN shop.names", None),
        ("SELECT note FROM shop.orders JOIN shop.names USING (id)", None),
        ("SELECT word, n.amount FROM shop.orders o LEFT JOIN shop.names n USING (id)", None),
        ("SELECT * FROM shop.orders NATURAL JOIN shop.names WHERE 1 = 0", None),
        ("SELECT * EXCLUDE (id) REPLACE (1 AS day) FROM shop.orders", {"shop.orders": ["word", "amount"]}),
        ("SELECT * RENAME (word AS w) FROM shop.orders", {"shop.orders": _ORDERS}),
        ("SELECT o FROM shop.orders o", {"shop.orders": _ORDERS}),
        ("SUMMARIZE shop.names", {"shop.names": _NAMES}),
        ("SELECT id FROM shop.orders QUALIFY row_number() OVER (PARTITION BY word ORDER BY id) = 1", None),
        ("UNPIVOT shop.names ON label, note INTO NAME a VALUE b", {"shop.names": _NAMES}),
        ("SELECT id FROM shop.orders SEMI JOIN shop.names USING (amount)", None),
        ("SELECT (SELECT max(label) FROM shop.names n WHERE n.id = o.id) AS m FROM shop.orders o", None),
        ("SELECT list(word ORDER BY day, id) FROM shop.orders GROUP BY amount", None),
        ("SELECT shop.orders.word FROM shop.orders, shop.names WHERE shop.names.id = shop.orders.id", None),
    ],
)
def test_columns(world: World, text: str, read: dict[str, list[str]] | None) -> None:
    assert _plain(world.answer(text)) == _plain(world.expected(text))
    if read is not None:
        assert world.columns == read
        assert world.reads == len(read)


def test_what_the_plan_did_not_tell_of_is_read_then(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT id, word IS NULL, coalesce(amount, 1) FROM shop.orders WHERE word IS NULL"
    monkeypatch.setattr(sql, "_needed", lambda *_: {"shop.orders": ["id"]})
    assert _plain(world.answer(text)) == _plain(world.expected(text))
    assert (world.columns, world.reads) == ({"shop.orders": _ORDERS}, 2)


def test_a_column_that_is_not_there_is_said_before_anything_is_read(world: World) -> None:
    with pytest.raises(InvalidInput, match='"nothing" not found') as error:
        world.answer("SELECT nothing FROM shop.orders")
    assert "LINE 1: SELECT nothing" in str(error.value)
    assert world.reads == 0
