"""DuckDB's answers from the columns and rows that it is given: the same as from whole tables of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.hot.read.world import schema_of

from frazil.core.errors import InvalidInput
from frazil.hot.read import sql
from frazil.hot.read.pins import Pinned, Pins
from frazil.hot.read.predicates import Condition, OneOf
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
    "shop.alike": ({"n": "long", "a": "long", "A": "long"}, [(1, 2, 3)]),
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


def _found(name: str) -> str:
    """As the catalog has it, which does not mind the case."""
    return name if name in _TABLES else name.lower()


@dataclass
class World:
    """Stands for the catalog and for what reads files."""

    rows: dict[str, pa.Table] = field(default_factory=lambda: {name: _rows(name) for name in _TABLES})
    #: What was read in the end.
    columns: dict[str, list[str]] = field(default_factory=dict)
    wheres: dict[str, list[Condition]] = field(default_factory=dict)
    reads: int = 0

    def pinned(self, _client: object, name: str, **_options: object) -> Pinned:
        name = _found(name)
        document = {**schema_of(_TABLES[name][0]).to_json(), "schema-id": 0}
        namespace, _, table = name.partition(".")
        pins = Pins(table=name, uuid=f"id of {name}")
        return Pinned(pins, (namespace,), table, {"schemas": [document], "current-schema-id": 0}, None)

    def union(
        self,
        found: Pinned,
        _client: object,
        _kafka: object,
        *,
        columns: Sequence[str] | None,
        where: Sequence[Condition],
    ) -> SimpleNamespace:
        rows, name = self.rows[str(found)], str(found)
        self.columns[name] = rows.column_names if columns is None else list(columns)
        self.wheres[name] = list(where)
        self.reads += 1
        for one in where:
            kind = rows.schema.field(one.column).type
            if isinstance(one, OneOf):
                rows = rows.filter(pc.field(one.column).isin(pa.array(one.values, kind)))
                continue
            if one.low is not None:
                rows = rows.filter(pc.field(one.column) >= pa.scalar(one.low, kind))
            if one.high is not None:
                rows = rows.filter(pc.field(one.column) <= pa.scalar(one.high, kind))
        return SimpleNamespace(table=lambda: rows.select(self.columns[name]))

    def answer(self, text: str) -> pa.Table:
        there = SimpleNamespace(exists=lambda namespace, name: _found(f"{namespace[0]}.{name}") in _TABLES)
        return sql._by_duckdb(text, sql.Tables(SimpleNamespace(tables=there)))  # type: ignore[arg-type]

    def expected(self, text: str) -> pa.Table:
        """By DuckDB alone, to which the tables are in a schema of its own."""
        with duckdb.connect() as connection:
            connection.execute("CREATE SCHEMA shop")
            for number, (name, rows) in enumerate(self.rows.items()):
                if name == "shop.alike":
                    continue
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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Shop.Orders.id FROM shop.orders",
        "SELECT o.id FROM shop.orders o JOIN SHOP.ORDERS p ON o.id = p.amount",
        'SELECT word FROM "Shop"."ORDERS" WHERE id = 5',
    ],
)
def test_one_table_however_its_name_is_written(world: World, text: str) -> None:
    assert _plain(world.answer(text)) == _plain(world.expected(text))
    assert list(world.columns) == ["shop.orders"]
    assert world.reads == 1


def test_pins_are_of_a_table_however_its_name_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Pins] = []

    def open_again(client: object, pins: Pins, **_options: object) -> Pinned:
        opened.append(pins)
        return world.pinned(client, pins.table)

    monkeypatch.setattr(sql, "opened", open_again)
    pins = Pins(table="Shop.Orders", uuid="u")
    tables = sql.Tables(SimpleNamespace(), {pins.table: pins})  # type: ignore[arg-type]
    assert sql._by_duckdb("SELECT id FROM SHOP.orders", tables).num_rows == 12
    assert opened == [pins]


def test_tables_whose_names_sql_does_not_tell_apart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_TABLES, "shop.Orders", ({"id": "long"}, []))
    with pytest.raises(InvalidInput, match=r"shop\.orders and shop\.Orders"):
        world.answer("SELECT count(*) FROM shop.orders UNION ALL SELECT count(*) FROM shop.Orders")


def test_columns_whose_names_sql_does_not_tell_apart(world: World) -> None:
    assert world.answer("SELECT n, count(*) AS m FROM shop.alike GROUP BY n").to_pylist() == [
        {"n": 1, "m": 1}
    ]
    for text in ('SELECT "A" FROM shop.alike', "SELECT n FROM shop.alike WHERE a = 2", "FROM shop.alike"):
        with pytest.raises(InvalidInput, match=r"shop\.alike has the columns a, A"):
            world.answer(text)


def test_a_column_that_is_not_there_is_said_before_anything_is_read(world: World) -> None:
    with pytest.raises(InvalidInput, match='"nothing" not found') as error:
        world.answer("SELECT nothing FROM shop.orders")
    assert "LINE 1: SELECT nothing" in str(error.value)
    assert world.reads == 0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("SELECT * FROM shop.orders WHERE id = 5", {"id": 5}),
        ("SELECT * FROM shop.orders o WHERE o.id = 5 AND (o.word = 'a' OR amount = 0)", {"id": 5}),
        ("SELECT count(*) FROM shop.orders WHERE word = 'a' LIMIT 1", {"word": "a"}),
        ("FROM shop.orders WHERE word = 'a' ORDER BY id DESC LIMIT 1 OFFSET 1", {"word": "a"}),
        ("FROM (FROM shop.orders ORDER BY id LIMIT 2) WHERE word = 'c'", {}),
        ("FROM (FROM shop.orders WHERE word = 'b' ORDER BY id LIMIT 2) WHERE id = 2", {"word": "b"}),
        ("FROM shop.orders WHERE id = (SELECT 5) OR word = 'a'", {}),
        ("FROM shop.orders WHERE id = 5 OR word = 'a'", {}),
        ("FROM shop.orders WHERE (id = 5 AND word = 'a') OR (id = 5 AND word = 'b')", {}),
        ("FROM shop.orders WHERE NOT (id = 5)", {}),
        ("FROM shop.orders WHERE NOT (id = 5 AND word = 'a')", {}),
        ("FROM shop.orders WHERE (word = 'a') IS NOT TRUE", {}),
        ("FROM shop.orders WHERE (word = 'a') IS NULL", {}),
        ("FROM shop.orders WHERE CASE WHEN word = 'a' THEN id = 1 ELSE id = 2 END", {}),
        ("FROM shop.orders WHERE id <> 5 AND word >= 'a' || 'b' AND amount IN (0, id)", {}),
        ("SELECT amount AS id FROM shop.orders WHERE id = 10", {"id": 10}),
        ("SELECT amount AS n FROM shop.orders WHERE n = 10", {}),
        ("SELECT a FROM shop.orders AS o(a, b, id) WHERE id = 20", {}),
        ("SELECT b FROM shop.orders AS o(a, b) WHERE b = 'a'", {}),
        ("SELECT word, count(*) FROM shop.orders GROUP BY word HAVING word = 'a'", {}),
        ("SELECT id, sum(amount) OVER (ORDER BY id) FROM shop.orders QUALIFY id = 5", {}),
        ("SELECT * FROM (SELECT id, sum(amount) OVER (ORDER BY id) FROM shop.orders) WHERE id = 5", {}),
        ("SELECT count(*) FILTER (WHERE id = 5), count(*) FROM shop.orders", {}),
        ("SELECT id, (SELECT max(id) FROM shop.orders WHERE word = 'a') AS m FROM shop.orders", {}),
        ("SELECT max(id) FROM shop.orders WHERE word = 'a' UNION ALL SELECT max(id) FROM shop.orders", {}),
        ("WITH a AS (FROM shop.orders) FROM a WHERE id = 5 UNION ALL FROM a WHERE word = 'a'", {}),
        ("WITH a AS (FROM shop.orders WHERE word = 'a') FROM a WHERE id = 1 UNION ALL FROM a", {"word": "a"}),
        *(
            (f"SELECT * FROM shop.orders o {kind} JOIN shop.names n ON o.id = n.id WHERE {condition}", {})
            for kind in ("INNER", "LEFT", "RIGHT", "FULL")
            for condition in ("o.word = 'a'", "n.label = 'a'", "o.id = 4", "n.label = 'a' OR o.id = 4")
        ),
        *(
            (f"SELECT * FROM shop.orders o {kind} JOIN shop.names n ON o.id = n.id AND {condition}", {})
            for kind in ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
            for condition in ("o.word = 'a'", "n.label = 'a'")
        ),
        ("SELECT * FROM shop.orders o, shop.names n WHERE o.id = n.id AND n.label = 'a'", {}),
        ("SELECT * FROM shop.orders NATURAL FULL JOIN shop.names WHERE id = 4", {}),
        ("SELECT * FROM shop.orders FULL JOIN shop.names USING (id) WHERE id = 4", {}),
        ("SELECT * FROM shop.orders o POSITIONAL JOIN shop.names n WHERE o.id = 5", {}),
        ("FROM shop.orders o WHERE NOT EXISTS (FROM shop.names n WHERE n.id = o.id AND o.word = 'a')", {}),
        ("FROM shop.names n LEFT JOIN (FROM shop.orders WHERE word = 'c') o ON o.id = n.id", {"word": "c"}),
        ("FROM shop.names n LEFT JOIN LATERAL (FROM shop.orders WHERE word = n.label) o ON TRUE", {}),
        (
            "FROM shop.names n LEFT JOIN LATERAL (FROM shop.orders o WHERE n.amount = 20 AND id = 5) ON TRUE",
            {"id": 5},
        ),
        (
            """WITH RECURSIVE r AS (SELECT id, 0 AS n FROM shop.orders WHERE id = 5
            UNION ALL SELECT id, n + 1 FROM r WHERE id = 5 AND n < 2) FROM r""",
            {"id": 5},
        ),
    ],
)
def test_rows(world: World, text: str, where: dict[str, object]) -> None:
    """Fewer rows are read where that is the same, and nowhere else."""
    assert _plain(world.answer(text)) == _plain(world.expected(text))
    found = world.wheres["shop.orders"]
    assert {one.column: one.values[0] for one in found if isinstance(one, OneOf)} == where
    assert len(found) == len(where)
    assert not world.wheres.get("shop.names")


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_query(world: World, seed: int) -> None:
    draw = random.Random(seed)

    def condition(one: str, depth: int = 0) -> str:
        kind = draw.randrange(9 if depth < 3 else 5)
        if kind < 5:
            made = draw.choice(
                [
                    "{}id = 4",
                    "{}amount = 20",
                    "{}amount <> 20",
                    "{}id IS NULL",
                    "20 = {}amount",
                    "{}amount < 40",
                    "{}amount >= 20",
                    "3 < {}id",
                    "8 >= {}id",
                    "{}id BETWEEN 2 AND 8",
                    "{}amount NOT BETWEEN 20 AND 40",
                    "{}amount IN (0, 20, 40)",
                    "{}id NOT IN (4, 6)",
                    "{}id IN (2, NULL, 4)",
                ]
            )
            # Without the table's name where there is one table.
            return made.format(draw.choice(["", one]) if one == "t." else one)
        if kind == 5:
            return f"NOT ({condition(one, depth + 1)})"
        if kind == 6:
            return f"({condition(one, depth + 1)}) IS NOT TRUE"
        join = draw.choice([" AND ", " OR "])
        return f"({join.join(condition(one, depth + 1) for _ in range(2))})"

    def source(depth: int = 0) -> str:
        kind = draw.randrange(6 if depth < 2 else 2)
        if kind < 2:
            table = draw.choice(["shop.orders", "shop.names"])
            return f"(SELECT id, amount FROM {table} t WHERE {condition('t.')})"
        if kind == 2:
            return f"(SELECT id, amount FROM {source(depth + 1)} AS t(amount, id) WHERE {condition('t.')})"
        if kind == 3:
            return f"(FROM {source(depth + 1)} ORDER BY ALL LIMIT {draw.randrange(9)})"
        if kind == 4:
            union = draw.choice(["UNION", "EXCEPT", "INTERSECT", "UNION ALL"])
            return f"(FROM {source(depth + 1)} {union} FROM {source(depth + 1)})"
        outer = draw.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        return (
            f"(SELECT a.id, b.amount FROM {source(depth + 1)} a {outer} {source(depth + 1)} b "
            f"ON a.id = b.id AND {condition('a.')} WHERE {condition('b.')})"
        )

    for _ in range(20):
        text = f"FROM {source()} WHERE {condition('')}"
        assert _plain(world.answer(text)) == _plain(world.expected(text)), text


def test_a_number_without_end_is_no_reason_to_fail(world: World) -> None:
    """DuckDB writes no JSON of it that can be read."""
    text = "SELECT id FROM shop.orders WHERE id = 5 AND id < 1e400"
    assert world.answer(text).to_pylist() == [{"id": 5}]


def test_days_are_those_of_utc(world: World) -> None:
    """As in Spark's sessions, wherever the machine is."""
    text = "SELECT current_setting('TimeZone') AS zone, count(*) AS n FROM shop.orders"
    assert world.answer(text).to_pylist() == [{"zone": "UTC", "n": 12}]
    text = "SELECT TIMESTAMPTZ '2026-01-01 00:00:00' AS at"
    assert world.answer(text).column("at").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("name", ["views", "tables", "text", "rows", "pa"])
def test_no_variable_is_a_table(world: World, name: str) -> None:
    """Of those that this program has."""
    with pytest.raises(InvalidInput, match=f"Table with name {name} does not exist"):
        world.answer(f"SELECT * FROM {name}")
