"""SQL over both tiers."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from tests.hot.read.world import HotRows, HotWorld, ordered, row

from frazil.cli.main import cli
from frazil.core.errors import FrazilError, InvalidInput
from frazil.hot.read import sql
from frazil.hot.read.names import DUCKDB
from frazil.hot.read.sql import Tables, query, rewritten
from frazil.lake import arrow_scan
from frazil.lake.data_rows import open_rows


class Known:
    """A catalog of two tables."""

    class tables:  # noqa: N801
        @staticmethod
        def exists(namespace: tuple[str, ...], name: str) -> bool:
            return (".".join(namespace), name) in {("shop", "orders"), ("a.b", "c")}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT * FROM shop.orders", 'SELECT * FROM "shop.orders"'),
        ("SELECT o.id FROM shop . orders o", 'SELECT o.id FROM "shop.orders" o'),
        ("SELECT shop.orders.id FROM shop.orders", 'SELECT "shop.orders".id FROM "shop.orders"'),
        ('SELECT 1.5 FROM "shop"."orders", a.b.c', 'SELECT 1.5 FROM "shop.orders", "a.b.c"'),
        ('SELECT * FROM "shop.orders"', 'SELECT * FROM "shop.orders"'),
        ("SELECT 'shop.orders' -- shop.orders\nFROM x.y", "SELECT 'shop.orders' -- shop.orders\nFROM x.y"),
        ("SELECT 'it''s' /* shop.orders */ FROM shop.orders", None),
    ],
)
def test_names_of_tables_are_found(text: str, wanted: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.hot.read.sql.pinned", lambda client, name, **options: name)
    tables = Tables(Known())  # type: ignore[arg-type]
    found = rewritten(text, tables, DUCKDB)
    assert found == (wanted or text.replace("FROM shop.orders", 'FROM "shop.orders"'))


@pytest.fixture(scope="module")
def orders(hot: HotWorld) -> HotRows:
    table = hot.table()
    table.put(*(row(number, f"w{number % 3}") for number in range(30))).tier()
    table.put(row(1, "new"), row(100, "w0")).delete(2)
    table.flush()
    return table


def test_both_engines_answer_alike(hot: HotWorld, orders: HotRows) -> None:
    text = f"SELECT word, sum(amount) AS total, count(*) AS n FROM {orders.name} GROUP BY word ORDER BY word"
    first = query(text, catalog=hot.client)
    assert first.rows.column("n").to_pylist() == [1, 11, 9, 9]
    again = query(text, catalog=hot.client, spark=hot.spark, pins=first.pins)
    assert again.rows.to_pylist() == first.rows.to_pylist()
    assert again.pins == first.pins
    assert isinstance(first.rows.column("total")[0].as_py(), Decimal)


def test_names_in_texts_stay_there(hot: HotWorld, orders: HotRows) -> None:
    name = orders.name
    for spark, texts in (
        (None, f"E'it\\'s {name}' AS a, $${name}$$ AS b"),
        (hot.spark, f"'it\\'s {name}' AS a, \"{name}\" AS b"),
    ):
        text = f"SELECT {texts}, count(*) AS n FROM {name} /* /* {name} */ {name} */"
        rows = query(text, catalog=hot.client, spark=spark).rows.to_pylist()
        assert rows == [{"a": f"it's {name}", "b": name, "n": 30}]


def test_what_a_query_may_be(hot: HotWorld, orders: HotRows) -> None:
    name = orders.name

    def numbers(text: str) -> list[object]:
        return [tuple(one.values()) for one in query(text, catalog=hot.client).rows.to_pylist()]

    assert numbers(f"SELECT count(*) FROM {name}") == [(30,)]
    assert numbers(f"SELECT word FROM {name} WHERE 1 = 0") == []
    assert numbers(f"SELECT id FROM {name} WHERE word = 'new'") == [(1,)]
    joined = f"SELECT count(*) FROM {name} a JOIN {name} b ON a.id = b.id WHERE b.word <> 'w1'"
    assert numbers(joined) == [(21,)]
    assert len(numbers(f"DESCRIBE {name}")) == 4
    for text in ("DROP TABLE x", f"SELECT nothing FROM {name}", "SELECT 1; SELECT 2", "SELEC"):
        with pytest.raises(InvalidInput):
            query(text, catalog=hot.client)


@pytest.mark.parametrize("key", [("id",), ()])
def test_files_that_cannot_have_a_row_are_not_read(
    hot: HotWorld, monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    """Files by days; of a key, row 3 goes elsewhere in the tail, and row 4 comes to where 5 is."""
    columns = {"id": "long required", "day": "date", "word": "string"}
    table = hot.table(columns, key=key, partitions=1, partitioning=["day"])
    table.put(*({"id": n, "day": f"2026-01-0{1 + n}", "word": f"w{n}"} for n in range(6))).tier()
    table.put({"id": 3, "day": "2026-01-09", "word": "new"}, {"id": 4, "day": "2026-01-06", "word": "w5"})
    table.flush()
    opened: list[str] = []

    def counted(storage: Any, path: str, *more: Any) -> Any:
        opened.append(path)
        return open_rows(storage, path, *more)

    monkeypatch.setattr(arrow_scan, "open_rows", counted)
    for condition, files in (
        ("id = 3", 1),
        ("id = 5", 1),
        ("day = '2026-01-04'", 1),
        ("day = DATE '2026-01-06'", 1),
        ("word = 'w5'", 1),
        ("id IN (1, 4)", 2),
        ("day IN ('2026-01-04', '2026-01-09')", 1),
        ("id BETWEEN 3 AND 4 AND word >= 'a'", 2),
        ("day >= '2026-01-05'", 2),
        ("day < DATE '2026-01-03'", 3),
        ("word > 'w4'", 2),
        ("id > 2 AND id <= 4 AND day <> '2026-01-09'", 3),
    ):
        text = f"SELECT * FROM {table.name} WHERE {condition} ORDER BY ALL"
        opened.clear()
        found = query(text, catalog=hot.client)
        assert len(opened) == files, condition
        with monkeypatch.context() as whole:
            whole.setattr("frazil.hot.read.sql.conditions", lambda *_: [])
            assert query(text, catalog=hot.client, pins=found.pins).rows == found.rows
        assert len(opened) == files + 6, condition
    ids = query(f"SELECT id FROM {table.name} WHERE day = '2026-01-04'", catalog=hot.client).rows
    assert ids.column("id").to_pylist() == ([] if key else [3])


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", [(), ("truncate(2, word)", "month(day)"), ("n",)])
def test_less_is_read_and_the_answer_is_the_same(
    hot: HotWorld, monkeypatch: pytest.MonkeyPatch, partitioning: tuple[str, ...]
) -> None:
    """Of any conditions: with nulls, with files from before a column was widened, and with a tail."""
    draw = random.Random(repr(partitioning))
    columns = {"id": "long required", "n": "int", "word": "string", "day": "date"}
    table = hot.table(columns, partitioning=partitioning, partitions=1)

    def put() -> None:
        for _ in range(8):
            n, day = draw.choice([None, -3, 0, 4, 900]), draw.randrange(4)
            word = draw.choice([None, "", "a", "ab", "abc", "\u00e4", "\uffff", "\U0001f9ca"])
            one = {
                "id": draw.randrange(12),
                "n": n,
                "word": word,
                "day": f"2026-0{1 + day}-15" if day else None,
            }
            table.put(one)

    for number in range(4):
        put()
        table.tier()
        if number == 1:
            hot.spark.sql(f"ALTER TABLE frazil.{table.name} ALTER COLUMN n TYPE bigint")
    put()
    pins, less = table.pin(), 0
    for _ in range(40):
        text = f"SELECT * FROM {table.name} WHERE {_condition(draw)} AND {_condition(draw)}"
        found = query(text, catalog=hot.client, pins=[pins]).rows.to_pylist()
        with monkeypatch.context() as whole:
            whole.setattr("frazil.hot.read.sql.conditions", lambda *_: [])
            wanted = query(text, catalog=hot.client, pins=[pins]).rows.to_pylist()
        assert ordered(found) == ordered(wanted), text
        less += bool(wanted)
    assert less > 3, "some find rows"


def _condition(draw: random.Random) -> str:
    column, values = draw.choice(
        [
            ("id", ["0", "3", "7", "11"]),
            ("n", ["-3", "0", "4", "899", "900", "3000000000"]),
            ("word", ["''", "'a'", "'ab'", "'b'", "'\u00e4'", "'\U0001f9ca'", "NULL"]),
            ("day", ["'2026-01-15'", "DATE '2026-02-15'", "'2026-03-14'"]),
        ]
    )
    one, other = draw.choice(values), draw.choice(values)
    return draw.choice(
        [
            f"{column} {draw.choice(['=', '<', '<=', '>', '>=', '<>'])} {one}",
            f"{one} {draw.choice(['<', '>='])} {column}",
            f"{column} {draw.choice(['', 'NOT'])} BETWEEN {one} AND {other}",
            f"{column} {draw.choice(['', 'NOT'])} IN ({one}, {other})",
            f"NOT ({column} < {one})",
            f"({column} > {one} OR {column} IS NULL)",
        ]
    )


def test_the_command(hot: HotWorld, orders: HotRows) -> None:
    text = f"SELECT count(*) AS n FROM {orders.name}"

    def run(*options: str) -> tuple[str, str]:
        found = CliRunner().invoke(cli, ["sql", text, "--uri", hot.server.uri, *options])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found.stdout, found.stderr

    out, said = run("--fresh")
    assert out == "N\n30\n"
    assert "2 of them" not in said
    assert "3 of them not in the snapshot" in said
    pins = next(line for line in said.splitlines() if "--pins" in line).partition("'")[2].rstrip("'")
    before = run("--fresh")[0]
    orders.put(row(777))
    orders.flush()
    assert run("--fresh")[0] == "N\n31\n"
    assert run("--pins", pins)[0] == before
    # What is in Iceberg.
    assert run()[0] == "N\n30\n"
    with pytest.raises(FrazilError, match="behind its log"):
        run("--max-lag", "1ms")
    document = json.loads(run("--fresh", "--json", "--max-lag", "1h")[0])
    assert document["rows"] == [{"n": 30}]
    assert document["pins"][0]["table"] == orders.name


def test_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of one name are two, as of a join; JSON has no word for some numbers."""
    rows = pa.Table.from_arrays(
        [
            pa.array([1, 2]),
            pa.array([float("nan"), 0.5]),
            pa.array([[float("-inf"), None], [1.5]], pa.list_(pa.float64())),
            pa.array([b"\x01", None]),
        ],
        names=["id", "id", "id_1", "raw"],
    )
    monkeypatch.setattr(sql, "query", lambda *_, **__: sql.Answer(rows, ()))
    for options, wanted in (
        ((), "ID  ID   ID_1          RAW\n1   nan  [-inf, None]  b'\\x01'\n2   0.5  [1.5]         -\n"),
        (
            ("--json",),
            (
                '{"rows": [{"id": 1, "id_1": "nan", "id_1_1": ["-inf", null], "raw": "01"}, '
                '{"id": 2, "id_1": 0.5, "id_1_1": [1.5], "raw": null}], "pins": []}\n'
            ),
        ),
    ):
        found = CliRunner().invoke(cli, ["sql", "SELECT 1", "--uri", "http://127.0.0.1:1", *options])
        assert (found.exit_code, found.stdout) == (0, wanted)


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_two_columns_of_one_name(hot: HotWorld, orders: HotRows, engine: str) -> None:
    text = f"SELECT a.id, b.id FROM {orders.name} a JOIN {orders.name} b ON b.id = a.id + 4 WHERE a.id = 5"
    found = query(text, catalog=hot.client, spark=hot.spark if engine == "spark" else None)
    assert [column.to_pylist() for column in found.rows.columns] == [[5], [9]]


@pytest.mark.parametrize("other", [("--fresh",), ("--max-lag", "1h"), ("--fresh", "--max-lag", "1h")])
@pytest.mark.parametrize("pins", ["[]", '[{"table": "a.b", "uuid": "u"}]'])
def test_pins_say_of_when_the_answer_is(pins: str, other: tuple[str, ...]) -> None:
    found = CliRunner().invoke(
        cli, ["sql", "SELECT 1", "--uri", "http://127.0.0.1:1", "--pins", pins, *other]
    )
    assert (found.exit_code, found.stdout) == (2, "")
    assert "leave out --fresh and --max-lag" in found.stderr
