from __future__ import annotations

import pytest
from tests.lineage.standin import created

from frazil.core.errors import InvalidConfig
from frazil.lineage.flink.resolve.ddl import parse_script, parse_table

SCRIPT = """
-- What the job's program creates; the ; in this comment ends nothing.
CREATE CATALOG ice WITH ('type' = 'iceberg', 'password' = 'it''s');
USE CATALOG ice;
USE db;
CREATE TEMPORARY TABLE IF NOT EXISTS t (
  a BIGINT NOT NULL,
  b ROW<x INT, y ROW<z STRING>>,
  m MAP<STRING, INT>,
  c AS a + 1 < 2,
  ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
  `o d` DECIMAL(10, 2) METADATA COMMENT 'a, b',
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT x PRIMARY KEY (a, `o d`) NOT ENFORCED
) COMMENT 'x; y' PARTITIONED BY (a) WITH ('connector' = 'kafka', 'topic' = 'a');
/* below, another catalog */
CREATE TABLE default_catalog.default_database.u (z INT) WITH ('topic' = 'b') LIKE t (EXCLUDING CONSTRAINTS);
CREATE TABLE w WITH ('connector' = 'kafka') LIKE elsewhere;
INSERT INTO u SELECT a FROM t;
"""


def test_captured_statements() -> None:
    table = parse_table(created("show_create_table_kafka.json"))
    assert table.path == ("default_catalog", "default_database", "k_orders")
    assert table.stored_columns() == ("order_id", "customer", "amount", "ts")
    assert table.options["topic"] == "orders"
    assert [column.type for column in table.columns or ()] == [
        "BIGINT",
        "VARCHAR(2147483647)",
        "DECIMAL(10, 2)",
        "TIMESTAMP(3)",
    ]


def test_a_script() -> None:
    script = parse_script(SCRIPT, "orders.sql")
    assert script.catalogs["ice"] == {"type": "iceberg", "password": "it's"}
    table = script.tables["ice", "db", "t"]
    assert table.stored_columns() == ("a", "b", "m", "o d")
    assert table.nested() == {"b": ("x", "y", "y.z")}
    assert table.primary_key == ("a", "o d")
    assert [column.nullable for column in table.columns or ()] == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    ("columns", "written"),
    [
        ("ts TIMESTAMP(3) METADATA FROM 'timestamp', id BIGINT, v INT", ("id", "v", "ts")),
        ("id BIGINT, ts TIMESTAMP(3) METADATA VIRTUAL, v INT", ("id", "v")),
        (
            "h MAP<STRING, BYTES> METADATA FROM 'headers', id BIGINT, ts TIMESTAMP(3) METADATA",
            ("id", None, None),
        ),
    ],
)
def test_a_sink_is_given_metadata_after_all_other_columns(
    columns: str, written: tuple[str | None, ...]
) -> None:
    """In the order of the connector, which the statement does not tell."""
    table = parse_table(f"CREATE TABLE t ({columns})")
    assert table.written_columns() == written


def test_like_takes_over_what_is_known() -> None:
    script = parse_script(SCRIPT, "orders.sql")
    like = script.tables["default_catalog", "default_database", "u"]
    assert like.stored_columns() == ("a", "b", "m", "o d", "z")
    assert like.options == {"connector": "kafka", "topic": "b"}
    assert script.tables["ice", "db", "w"].columns is None, "LIKE something that the file does not define"


@pytest.mark.parametrize(
    ("clause", "columns", "topic"),
    [
        ("", ("id", "c", "ts"), "in"),
        ("(EXCLUDING OPTIONS)", ("id", "c", "ts"), None),
        ("(EXCLUDING METADATA EXCLUDING CONSTRAINTS)", ("id", "c"), "in"),
        ("(EXCLUDING ALL)", ("id", "c"), None),
        ("(EXCLUDING ALL INCLUDING OPTIONS)", ("id", "c"), "in"),
        ("(OVERWRITING OPTIONS EXCLUDING GENERATED)", ("id", "c", "ts"), "in"),
    ],
)
def test_like_leaves_out_what_it_excludes(clause: str, columns: tuple[str, ...], topic: str | None) -> None:
    script = parse_script(
        "CREATE TABLE base (id BIGINT, ts TIMESTAMP(3) METADATA, twice AS id * 2) WITH ('topic' = 'in');"
        f"CREATE TABLE t (c INT) WITH ('connector' = 'kafka') LIKE base {clause};",
        "orders.sql",
    )
    table = script.tables["default_catalog", "default_database", "t"]
    assert table.written_columns() == columns
    assert table.options.get("topic") == topic
    computed = {column.name for column in table.columns or () if not column.stored}
    assert computed == (set() if "EXCLUDING ALL" in clause or "GENERATED" in clause else {"twice"})


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a STRING, b AS a LIKE 'x%') WITH ('topic' = 'in')",
        "CREATE TABLE t WITH ('topic' = 'in') AS SELECT * FROM o WHERE a LIKE 'x%'",
    ],
)
def test_like_is_an_operator_too(statement: str) -> None:
    script = parse_script(statement, "orders.sql")
    assert script.tables["default_catalog", "default_database", "t"].options == {"topic": "in"}


def test_modules_are_no_database() -> None:
    script = parse_script("USE c.d; USE MODULES hive, core; CREATE TABLE t (a INT);", "orders.sql")
    assert set(script.tables) == {("c", "d", "t")}


def test_options_do_not_print() -> None:
    assert "kafka" not in repr(parse_script(SCRIPT, "orders.sql").tables)


@pytest.mark.parametrize("text", ["CREATE TABLE t (a INT", "CREATE TABLE", "CREATE TABLE a.b.c.d (x INT)"])
def test_what_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"orders.sql: statement 2 cannot be read"):
        parse_script(f"USE db; {text}", "orders.sql")
