"""Flink's SQL: what is taken, as what, and what is refused with which words."""

from __future__ import annotations

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, StructType, show_type
from frazil.hot.declared.ddl import parse_ddl
from frazil.hot.declared.declaration import Declaration

#: As it stands in the guide of Fluss for Lakekeeper.
GUIDE = """\
USE CATALOG fluss_catalog;

CREATE TABLE orders (
    `order_id` BIGINT,
    `customer_id` INT NOT NULL,
    `total_price` DECIMAL(15, 2),
    `order_date` DATE,
    `status` STRING,
    PRIMARY KEY (`order_id`) NOT ENFORCED
) WITH (
    'table.datalake.enabled' = 'true',
    'table.datalake.freshness' = '30s'
);
"""
#: What Fluss's quickstart of a lakehouse on Iceberg declares and sets, but for `fluss_order`.
QUICKSTART = """\
CREATE CATALOG fluss_catalog WITH (
    'type' = 'fluss',
    'bootstrap.servers' = 'coordinator-server:9123',
    'iceberg.jdbc.password' = 'iceberg',
    'iceberg.s3.access-key-id' = 'rustfsadmin',
    'iceberg.s3.secret-access-key' = 'rustfsadmin'
);
USE CATALOG fluss_catalog;
CREATE TABLE fluss_customer (
    `cust_key` INT NOT NULL,
    `name` STRING,
    `phone` STRING,
    `nation_key` INT NOT NULL,
    `acctbal` DECIMAL(15, 2),
    `mktsegment` STRING,
    PRIMARY KEY (`cust_key`) NOT ENFORCED
);
CREATE TABLE fluss_nation (
  `nation_key` INT NOT NULL,
  `name`       STRING,
   PRIMARY KEY (`nation_key`) NOT ENFORCED
);
CREATE TABLE datalake_enriched_orders (
    `order_key` BIGINT,
    `cust_key` INT NOT NULL,
    `total_price` DECIMAL(15, 2),
    `order_date` DATE,
    `order_priority` STRING,
    `clerk` STRING,
    `cust_name` STRING,
    `cust_phone` STRING,
    `cust_acctbal` DECIMAL(15, 2),
    `cust_mktsegment` STRING,
    `nation_name` STRING
) WITH (
    'table.datalake.enabled' = 'true',
    'table.datalake.freshness' = '30s'
);
-- use tableau result mode
SET 'sql-client.execution.result-mode' = 'tableau';
"""


def declared(sql: str) -> Declaration:
    (statement,) = parse_ddl(sql).tables
    return statement.table


def columns(sql: str) -> dict[str, str]:
    found = declared(sql).columns
    return {one.name: show_type(one.type) + (" required" if one.required else "") for one in found}


def test_the_guide_is_accepted_verbatim() -> None:
    table = declared(GUIDE)
    assert (table.namespace, table.name, table.key) == (("default",), "orders", ("order_id",))
    assert columns(GUIDE) == {
        "order_id": "long required",
        "customer_id": "int required",
        "total_price": "decimal(15, 2)",
        "order_date": "date",
        "status": "string",
    }
    assert table.options == {"table.datalake.enabled": "true", "table.datalake.freshness": "30s"}
    assert (table.buckets, table.partitioning, table.topic) == (1, (), "default.orders")


def test_the_quickstart_is_accepted_but_for_its_computed_column() -> None:
    script = parse_ddl(QUICKSTART + "USE CATALOG fluss_catalog;")
    assert [one.table.name for one in script.tables] == [
        "fluss_customer",
        "fluss_nation",
        "datalake_enriched_orders",
    ]
    assert script.ignored == (
        "CREATE CATALOG fluss_catalog",
        "USE CATALOG fluss_catalog",
        "SET 'sql-client.execution.result-mode'",
    )
    with pytest.raises(InvalidConfig, match="column 'ptime' is computed"):
        parse_ddl("CREATE TABLE fluss_order (`order_key` BIGINT, `ptime` AS PROCTIME())")
    assert parse_ddl("CREATE CATALOG IF NOT EXISTS c COMMENT 'ours'").ignored == ("CREATE CATALOG c",)


def test_several_statements_and_comments() -> None:
    script = parse_ddl(
        """
        -- a line; with a mark
        SET 'execution.runtime-mode' = 'batch';
        CREATE DATABASE IF NOT EXISTS shop COMMENT 'it''s ours';
        USE shop;
        CREATE TABLE IF NOT EXISTS a (x INT /* in /* the middle */, y INT COMMENT 'why; not');;
        create table fluss_catalog.iot.b (`select` string) comment 'of b' partitioned by (`select`)
        """,
        "tables.sql",
    )
    first, second = script.tables
    assert script.databases == ("shop",)
    assert (str(first.table), first.if_not_exists, first.place) == ("shop.a", True, "tables.sql:6")
    assert first.table.columns.field("y").doc == "why; not"
    assert (str(second.table), second.if_not_exists, second.table.comment) == ("iot.b", False, "of b")
    assert [(one.source, one.transform) for one in second.table.partitioning] == [("select", "identity")]


def test_types() -> None:
    kinds = {
        "BOOLEAN": "boolean",
        "TINYINT": "int",
        "SMALLINT": "int",
        "INT": "int",
        "INTEGER": "int",
        "BIGINT": "long",
        "FLOAT": "float",
        "DOUBLE": "double",
        "DOUBLE PRECISION": "double",
        "DECIMAL": "decimal(10, 0)",
        "NUMERIC(9)": "decimal(9, 0)",
        "DEC(38, 38)": "decimal(38, 38)",
        "CHAR": "string",
        "CHAR(3)": "string",
        "VARCHAR(20)": "string",
        "STRING NOT NULL": "string required",
        "BINARY": "fixed[1]",
        "BINARY(16)": "fixed[16]",
        "VARBINARY(9)": "binary",
        "BYTES NULL": "binary",
        "DATE": "date",
        "TIMESTAMP": "timestamp",
        "TIMESTAMP(3)": "timestamp",
        "TIMESTAMP(6) WITHOUT TIME ZONE": "timestamp",
        "TIMESTAMP_LTZ(3)": "timestamptz",
        "TIMESTAMP(0) WITH LOCAL TIME ZONE": "timestamptz",
        "TIMESTAMP WITH TIME ZONE": "timestamptz",
        "ARRAY<INT NOT NULL>": "list<int>",
        "MAP<STRING, ARRAY<BIGINT>>": "map<string, list<long>>",
        "ROW<a INT NOT NULL 'first', `b c` STRING>": "struct<a: int, `b c`: string>",
        "ROW(a INT, b ROW<c DATE>)": "struct<a: int, b: struct<c: date>>",
    }
    listed = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
    assert list(columns(f"CREATE TABLE t ({listed})").values()) == list(kinds.values())
    table = declared(
        "CREATE TABLE t (a ARRAY<INT NOT NULL>, m MAP<STRING, INT NOT NULL>, r ROW<x INT 'an x'>)"
    )
    assert [one.type for one in table.columns] == [
        ListType("int", element_required=True),
        MapType("string", "int", value_required=True),
        StructType((Field("x", "int", doc="an x"),)),
    ]


def test_keys_and_options() -> None:
    table = declared(
        """CREATE TABLE shop.t (b STRING, a INT, c INT, CONSTRAINT pk PRIMARY KEY (a, b) NOT ENFORCED)
        PARTITIONED BY (b) WITH ('bucket.num' = '4', 'bucket.key' = 'a', 'frazil.hot.keep' = '2 h',
        'table.replication.factor' = '3', 'iceberg.format-version' = '3', 'table.log.format' = 'arrow',
        'iceberg.write.parquet.compression-codec' = 'zstd', 'frazil.hot.dead-letters' = 'shop.bad')"""
    )
    assert (table.key, table.buckets, table.replicas) == (("a", "b"), 4, 3)
    assert (table.format_version, table.properties) == (3, {"write.parquet.compression-codec": "zstd"})
    assert "iceberg.format-version" not in table.options
    assert declared("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED COMMENT 'the key', b INT)").key == ("a",)
    assert declared("CREATE TABLE t (a INT, b INT) WITH ('bucket.key' = 'b')").key == ()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CREATE TABLE t (a INT, b AS a * 2)", "1:26: column 'b' is computed"),
        (
            "CREATE TABLE t (a TIMESTAMP(3),\n WATERMARK FOR a AS a - INTERVAL '5' SECOND)",
            "2:2: a hot table delays nothing",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('frazil.hot.event-time' = 'a')",
            "'frazil.hot.event-time': column 'a' is of type int; legal: timestamp, timestamptz",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('frazil.hot.event-time' = 'b')",
            "'frazil.hot.event-time': there is no column 'b'; there are: a",
        ),
        ("CREATE TABLE t (a INT METADATA FROM 'offset')", "column 'a' is metadata"),
        ("CREATE TABLE t (a METADATA)", "column 'a' is metadata"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", "write NOT ENFORCED behind PRIMARY KEY"),
        (
            "CREATE TABLE t (a INT NULL, PRIMARY KEY (a) NOT ENFORCED)",
            "'a' is of the primary key, and said to be NULL",
        ),
        (
            "CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)",
            "primary key: there is no column 'b'; there are: a",
        ),
        ("CREATE TABLE t (a DOUBLE, PRIMARY KEY (a) NOT ENFORCED)", "of the primary key is of type double"),
        ("CREATE TABLE t (a ARRAY<INT>, PRIMARY KEY (a) NOT ENFORCED)", "is of type list<int>"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a) NOT ENFORCED)", "names a column twice"),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED)", "already"),
        ("CREATE TABLE t (a INT, A INT)", "'a' and 'A' are one name for Spark"),
        ("CREATE TABLE t ()", "there are no columns"),
        ("CREATE TABLE t (a INT UNIQUE)", "expected ')', found 'UNIQUE'"),
        ("CREATE TABLE t (UNIQUE (a))", "one PRIMARY KEY and no other"),
        ("CREATE TABLE t (a NUMBER)", "1:19: 'NUMBER' is no type. Legal: BOOLEAN, TINYINT"),
        ("CREATE TABLE t (a TIME)", "Spark cannot open a table with a time of day"),
        ("CREATE TABLE t (a INTERVAL YEAR)", "Iceberg has no intervals"),
        ("CREATE TABLE t (a TIMESTAMP(9))", "p up to 6; this one has 9"),
        ("CREATE TABLE t (a DECIMAL(39, 2))", "1 to 38 digits"),
        ("CREATE TABLE t (a DECIMAL(3, 4))", "its scale within them"),
        ("CREATE TABLE t (a MAP<INT, INT>)", "the keys of a map are strings"),
        (
            "CREATE TABLE t (a INT) WITH ('table.datalake.freshnes' = '1s')",
            "did you mean 'table.datalake.freshness'",
        ),
        ("CREATE TABLE t (a INT) WITH ('table.datalake.freshness' = 'soon')", "'soon' is no duration"),
        ("CREATE TABLE t (a INT) WITH ('table.datalake.enabled' = 'yes')", "legal: true, false"),
        ("CREATE TABLE t (a INT) WITH ('table.datalake.format' = 'paimon')", "legal: iceberg"),
        ("CREATE TABLE t (a INT) WITH ('table.log.ttl' = '7d')", "write 'frazil.hot.keep'"),
        ("CREATE TABLE t (a INT) WITH ('table.merge-engine' = 'first_row')", "other merges are not offered"),
        ("CREATE TABLE t (a INT) WITH ('bucket.num' = '0')", "a whole number, 1 or more"),
        ("CREATE TABLE t (a INT) WITH ('bucket.key' = 'b')", "'bucket.key': there is no column 'b'"),
        (
            "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('bucket.key' = 'b')",
            "all changes of a row have to be in one bucket",
        ),
        ("CREATE TABLE t (a INT) WITH ('iceberg.format-version' = '1')", "legal: 2, 3"),
        ("CREATE TABLE t (a INT) WITH ('a' = 'b', 'a' = 'c')", "the option 'a' is there twice"),
        ("CREATE TABLE t (a INT) WITH (a = 'b')", "the name of an option in single quotes, found 'a'"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (b)", "there is no column 'b'"),
        ("CREATE TABLE t (a INT) LIKE b", "copy them"),
        ("CREATE TABLE t LIKE b", "copy them"),
        ("CREATE TABLE t AS SELECT 1", "a table begins empty"),
        ("CREATE TABLE t (a INT) DISTRIBUTED BY HASH(a) INTO 4 BUCKETS", "'bucket.num'"),
        ("CREATE TEMPORARY TABLE t (a INT)", "never temporary"),
        ("CREATE TABLE a.b.c.d (a INT)", "catalog.database.table"),
        ("CREATE TABLE __a.b (a INT)", "begins with '__', as topics of Kafka's own do"),
        ("CREATE TABLE `a b` (a INT)", "cannot be in the name of a hot table"),
        ("CREATE TABLE `a.b` (a INT)", "cannot be in the name of a hot table"),
        ("CREATE CATALOG c WITH ('type')", "expected '=', found ')'"),
        ("SELECT 1", "'SELECT' begins no statement"),
        ("CREATE TABLE t (a INT) CREATE TABLE u (a INT)", "expected ';' or the end"),
        ("CREATE TABLE t (a INT", "expected ')', found the end"),
        ("CREATE TABLE t (`a INT)", "1:17: a name in backquotes begins here and does not end"),
        ("CREATE TABLE t (a INT COMMENT 'x)", "a text begins here and does not end"),
        ("CREATE TABLE t /* (a INT)", "a comment begins here and does not end"),
        ('CREATE TABLE "t" (a INT)', "double quotes mean nothing"),
    ],
)
def test_what_is_refused(sql: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_ddl(sql, "t.sql")
    assert message in refused.value.message
    assert refused.value.message.startswith("t.sql:")
