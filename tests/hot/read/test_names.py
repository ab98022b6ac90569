"""Which names in a query are tables: what the engine takes for a text or a comment has none.

Between « and » stands shop.orders, in the one or other spelling; wherever else it seems to stand it does not.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from frazil.hot.read.names import DUCKDB, SPARK, SPARK_DOUBLE_QUOTED, Syntax
from frazil.hot.read.sql import Tables, _spark_syntax, rewritten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE = "shop.orders"
_BOTH = [
    "SELECT 'shop.orders', '', 'it''s shop.orders' FROM «shop.orders»",
    "SELECT '--', '/*' FROM «shop.orders» -- it's shop.orders\nJOIN «shop.orders» b ON '*/' <> '--'",
    "SELECT 1 -- /*\nFROM «shop.orders» -- */ shop.orders",
    "SELECT 1 /* 'a /* b */ shop.orders */ FROM «shop.orders»",
    "SELECT 1 /* -- */ FROM «shop.orders» /**/, /***/«shop.orders» b /*/ shop.orders /*/ x */ shop.orders */",
    "SELECT 1 FROM «shop /* . */ . -- x\n orders»",
    "SELECT 1 FROM\u00a0«shop\u3000.\u2003orders»\u00a0WHERE 1.5 = 1.",
    "SELECT .5, 1e5, 1.e5, a.* FROM «shop.orders» a",
    "SELECT «shop.orders».id FROM «shop.orders» WHERE «shop . orders» . id = 5",
    "SELECT named.shop.orders, x[1].shop.orders, (x).shop.orders FROM «shop.orders»",
    "WITH shop AS (SELECT 1) SELECT 1 FROM «shop.orders»",
]
_DUCKDB = [
    *_BOTH,
    "SELECT 1.FROM «shop.orders»",
    "SELECT 'it\\', 'shop.orders' FROM «shop.orders»",
    "SELECT E'it\\'s shop.orders', e'\\\\' FROM «shop.orders» WHERE '\\' = E'''shop.orders\\''",
    "SELECT E'a'\n  '\\' shop.orders' FROM «shop.orders»",
    "SELECT $$ ' shop.orders $$, $a$ $$ shop.orders $b$ $a$ FROM «shop.orders»",
    "SELECT $Ä1$ shop.orders $ä1$ $Ä1$ FROM «shop.orders»",
    "SELECT a$$b FROM «shop.orders», (SELECT 1 AS a$$b)",
    'SELECT "it\'s" FROM «"shop"."orders"», «shop."orders"» b, «"shop.orders"» c',
    'SELECT "a"" shop.orders" FROM «shop.orders»',
    'SELECT "\\" FROM «shop.orders», (SELECT 1 AS "\\")',
    "SELECT x'41', b'01' FROM «shop.orders»",
    "SELECT '`' FROM «shop.orders» WHERE '`' <> ''",
    "SELECT {'a': «shop.orders».id} FROM «shop.orders» WHERE a->>'shop.orders' = @1",
]
_SPARK = [
    *_BOTH,
    'SELECT "shop.orders", "it\'s ""shop.orders", "a\\" shop.orders" FROM «shop.orders»',
    "SELECT 'it\\'s shop.orders', '\\\\' FROM «shop.orders» WHERE '\\\\' = ''",
    "SELECT r'\\', R\"\\\", r'shop.orders' FROM «shop.orders»",
    "SELECT 1 FROM «`shop`.`orders`», «shop.`orders`» b, «`shop.orders`» c",
    "SELECT `it's`, `a`` shop.orders` FROM «shop.orders»",
    "SELECT 1 -- shop.orders \\\n shop.orders\n FROM «shop.orders»",
    "SELECT /*+ BROADCAST(«shop.orders») */ 1 FROM «shop.orders»",
    "SELECT 1 /* /*+ */ FROM «shop.orders»",
    "SELECT 5L, 2D FROM «shop.orders» 2b",
]
_SPARK_DOUBLE_QUOTED = [
    'SELECT "it\'s", "a"" shop.orders" FROM «"shop"."orders"», «`shop`."orders"» b, «"shop.orders"» c',
    "SELECT 'it\\'s shop.orders', r\"shop.orders\" FROM «shop.orders»",
]


@pytest.mark.parametrize(
    ("syntax", "marked"),
    [
        *((DUCKDB, text) for text in _DUCKDB),
        *((SPARK, text) for text in _SPARK),
        *((SPARK_DOUBLE_QUOTED, text) for text in _SPARK_DOUBLE_QUOTED),
    ],
)
def test_tables_are_found_where_the_engine_has_names(
    syntax: Syntax, marked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.hot.read.sql.pinned", lambda client, name, **options: name)
    there = SimpleNamespace(exists=lambda namespace, name: (*namespace, name) == ("shop", "orders"))
    tables = Tables(SimpleNamespace(tables=there))  # type: ignore[arg-type]
    wanted = re.sub("«[^»]*»", syntax.quoted(_TABLE), marked)
    assert rewritten(_plain(marked), tables, syntax) == wanted
    assert list(tables.named()) == [_TABLE]


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        *((one, text) for one in (DUCKDB, SPARK) for text in ("'a.b", "/* /* */ a.b", "'", "", '"a.b')),
        (DUCKDB, "E'\\' a.b"),
        (DUCKDB, "$$ a.b"),
        (SPARK, "`a.b"),
        (SPARK, "'\\' a.b"),
    ],
)
def test_what_nothing_closes_goes_on_to_the_end(syntax: Syntax, text: str) -> None:
    assert [one for one in syntax.names(f"SELECT {text}") if len(one) > 1] == []


@pytest.mark.parametrize("marked", _DUCKDB)
def test_duckdb_has_it_so(marked: str) -> None:
    with duckdb.connect() as connection:
        (found,) = connection.execute("SELECT json_serialize_sql(?)", [_plain(marked)]).fetchone() or ("",)
    tree = json.loads(found)
    assert not tree["error"], tree
    tables = [
        f"{one['schema_name']}.{one['table_name']}".lstrip(".")
        for one in _nodes(tree)
        if one.get("type") == "BASE_TABLE"
    ]
    assert set(tables) == {_TABLE}
    used = len(re.findall(r"«[^»]*»\s*\.", marked))  # other than to read it
    assert len(tables) + used == marked.count("«")


def test_spark_has_it_so(spark: SparkSession) -> None:
    # Parsers follow the settings of whichever session is the active one.
    spark.createDataFrame([], "n int")
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert _spark_syntax(spark) is SPARK
    for marked in _SPARK:
        _require_relations(parser, marked)
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert _spark_syntax(spark) is SPARK_DOUBLE_QUOTED
        for marked in _SPARK_DOUBLE_QUOTED:
            _require_relations(parser, marked)
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def _require_relations(parser: Any, marked: str) -> None:
    plan = str(parser.parsePlan(_plain(marked)))
    tables = re.findall(r"UnresolvedRelation \[([^\]]*)\]", plan)
    assert {one.replace(", ", ".") for one in tables} == {_TABLE}, marked
    used = len(re.findall(r"«[^»]*»\s*\.|BROADCAST", marked))  # other than to read it
    assert len(tables) + used == marked.count("«"), marked


def _plain(marked: str) -> str:
    return marked.replace("«", "").replace("»", "")


def _nodes(tree: object) -> list[dict[str, object]]:
    if isinstance(tree, dict):
        return [tree, *(node for value in tree.values() for node in _nodes(value))]
    return [node for value in tree for node in _nodes(value)] if isinstance(tree, list) else []
