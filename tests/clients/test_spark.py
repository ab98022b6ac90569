"""Spark 4.1 with Iceberg 1.12 through a running server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog import Catalog
from tests.clients.support import files_below, metric, plant, wait_until

from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.session import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fresh = Callable[[], str]
Sql = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def sql(spark: SparkSession) -> Sql:
    return lambda text: [tuple(row) for row in spark.sql(text).collect()]


@pytest.fixture
def ns(sql: Sql, fresh: Fresh) -> str:
    """A new namespace, with the catalog in front."""
    name = f"frazil.{fresh()}"
    sql(f"CREATE NAMESPACE {name}")
    return name


@pytest.fixture
def purging(spark: SparkSession, frazil_sqlite: FrazilServer) -> str:
    """A Spark catalog that leaves purging to the server; by default Spark deletes the files itself."""
    options = {"rest-catalog-purge": "true"}
    for key, value in spark_settings(frazil_sqlite.catalog_uri, name="purging", properties=options).items():
        if key != "spark.sql.extensions":
            spark.conf.set(key, value)
    return "purging"


def location_of(sql: Sql, table: str) -> str:
    rows = sql(f"DESCRIBE TABLE EXTENDED {table}")
    return str(next(row[1] for row in rows if row[0] == "Location"))


def test_namespaces(sql: Sql, ns: str) -> None:
    sql(f"CREATE NAMESPACE {ns}.inner COMMENT 'deep' WITH PROPERTIES (keeper = 'ice')")
    sql(f"CREATE TABLE {ns}.inner.t (id INT) USING iceberg")
    assert sql(f"SHOW NAMESPACES IN {ns}") == [(f"{ns.removeprefix('frazil.')}.inner",)]
    assert [row[1] for row in sql(f"SHOW TABLES IN {ns}.inner")] == ["t"]
    sql(f"ALTER NAMESPACE {ns}.inner SET PROPERTIES (keeper = 'bear')")
    assert "bear" in str(sql(f"DESCRIBE NAMESPACE EXTENDED {ns}.inner"))
    with pytest.raises(Exception, match="not empty"):
        sql(f"DROP NAMESPACE {ns}")
    sql(f"DROP TABLE {ns}.inner.t")
    sql(f"DROP NAMESPACE {ns}.inner")
    sql(f"DROP NAMESPACE {ns}")
    assert (ns.removeprefix("frazil."),) not in sql("SHOW NAMESPACES IN frazil")


def test_columns_come_and_go(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t (id BIGINT NOT NULL, a STRING, s STRUCT<x: INT>) USING iceberg")
    sql(f"INSERT INTO {ns}.t VALUES (1, 'one', struct(10))")
    sql(f"ALTER TABLE {ns}.t ADD COLUMN b DOUBLE COMMENT 'new' AFTER id")
    sql(f"ALTER TABLE {ns}.t ADD COLUMN s.y INT")
    sql(f"ALTER TABLE {ns}.t RENAME COLUMN a TO label")
    sql(f"ALTER TABLE {ns}.t ALTER COLUMN s.x TYPE BIGINT")
    sql(f"INSERT INTO {ns}.t VALUES (2, 2.5, 'two', struct(20, 21))")
    assert sql(f"SELECT id, b, label, s.x, s.y FROM {ns}.t ORDER BY id") == [
        (1, None, "one", 10, None),
        (2, 2.5, "two", 20, 21),
    ]
    sql(f"ALTER TABLE {ns}.t DROP COLUMN b")
    sql(f"ALTER TABLE {ns}.t ADD COLUMN b STRING")
    assert sql(f"SELECT b FROM {ns}.t WHERE id = 2") == [(None,)]
    sql(f"ALTER TABLE {ns}.t SET TBLPROPERTIES ('keeper' = 'ice')")
    sql(f"ALTER TABLE {ns}.t SET IDENTIFIER FIELDS id")
    assert ("keeper", "ice") in sql(f"SHOW TBLPROPERTIES {ns}.t")


def test_partitions_evolve(spark: SparkSession, sql: Sql, ns: str) -> None:
    from pyspark.sql import functions

    sql(f"CREATE TABLE {ns}.t (id BIGINT, day DATE) USING iceberg PARTITIONED BY (months(day))")
    sql(f"INSERT INTO {ns}.t VALUES (1, DATE '2026-01-05'), (2, DATE '2026-02-05')")
    sql(f"ALTER TABLE {ns}.t REPLACE PARTITION FIELD months(day) WITH days(day)")
    sql(f"ALTER TABLE {ns}.t ADD PARTITION FIELD bucket(4, id) AS shard")
    sql(f"ALTER TABLE {ns}.t WRITE ORDERED BY id")
    sql(f"INSERT INTO {ns}.t VALUES (3, DATE '2026-02-06')")
    assert sql(f"SELECT DISTINCT spec_id FROM {ns}.t.files ORDER BY 1") == [(0,), (2,)]
    assert sql(f"SELECT id FROM {ns}.t WHERE day >= DATE '2026-02-01' ORDER BY id") == [(2,), (3,)]
    rows = spark.sql("SELECT 4L AS id, DATE '2026-02-06' AS day")
    rows.writeTo(f"{ns}.t").overwrite(functions.col("day") == "2026-02-06")
    sql(f"ALTER TABLE {ns}.t DROP PARTITION FIELD shard")
    sql(f"CALL frazil.system.rewrite_data_files(table => '{ns}.t', options => map('rewrite-all', 'true'))")
    assert sql(f"SELECT id FROM {ns}.t ORDER BY id") == [(1,), (2,), (4,)]


@pytest.mark.parametrize("version", [2, 3])
def test_merge_update_delete(sql: Sql, ns: str, version: int, pyiceberg_sqlite: Catalog) -> None:
    modes = ", ".join(f"'write.{name}.mode' = 'merge-on-read'" for name in ("merge", "update", "delete"))
    sql(
        f"CREATE TABLE {ns}.t (id BIGINT, v STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    sql(f"INSERT INTO {ns}.t SELECT /*+ COALESCE(1) */ id, 'old' FROM range(6)")
    sql(
        f"MERGE INTO {ns}.t USING (SELECT * FROM VALUES (1, 'gone'), (2, 'new'), (9, 'new') AS s(id, v)) s "
        "ON t.id = s.id WHEN MATCHED AND s.v = 'gone' THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    sql(f"UPDATE {ns}.t SET v = 'updated' WHERE id = 3")
    sql(f"DELETE FROM {ns}.t WHERE id = 4")
    expected = [(0, "old"), (2, "new"), (3, "updated"), (5, "old"), (9, "new")]
    assert sql(f"SELECT * FROM {ns}.t ORDER BY id") == expected
    formats = {row[0] for row in sql(f"SELECT file_format FROM {ns}.t.delete_files")}
    assert formats == {"PUFFIN" if version == 3 else "PARQUET"}
    if version == 3:
        assert len({row[0] for row in sql(f"SELECT _row_id FROM {ns}.t")}) == len(expected)
    read = pyiceberg_sqlite.load_table(f"{ns}.t".removeprefix("frazil.")).scan().to_arrow().sort_by("id")
    assert [(row["id"], row["v"]) for row in read.to_pylist()] == expected


def test_version_3_types(sql: Sql, ns: str) -> None:
    sql(
        f"CREATE TABLE {ns}.t (id BIGINT, doc VARIANT, at TIMESTAMP_NTZ) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    document = '{"ice": [1, 2]}'
    sql(f"INSERT INTO {ns}.t VALUES (1, parse_json('{document}'), TIMESTAMP_NTZ '2026-01-01 00:00:00')")
    assert sql(f"SELECT variant_get(doc, '$.ice[1]', 'int') FROM {ns}.t") == [(2,)]


def test_time_travel(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t (id INT) USING iceberg")
    for number in (1, 2, 3):
        sql(f"INSERT INTO {ns}.t VALUES ({number})")
    history = sql(
        f"SELECT snapshot_id, CAST(committed_at AS STRING) FROM {ns}.t.snapshots ORDER BY committed_at"
    )
    (first, _), (_, second_at), _ = history
    assert sql(f"SELECT * FROM {ns}.t VERSION AS OF {first}") == [(1,)]
    assert sql(f"SELECT count(*) FROM {ns}.t TIMESTAMP AS OF '{second_at}'") == [(2,)]
    sql(f"CALL frazil.system.rollback_to_snapshot('{ns}.t', {first})")
    assert sql(f"SELECT * FROM {ns}.t") == [(1,)]
    sql(f"CALL frazil.system.expire_snapshots(table => '{ns}.t', older_than => now(), retain_last => 1)")
    assert sql(f"SELECT snapshot_id FROM {ns}.t.snapshots") == [(first,)]


def test_branches_and_tags(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t (id INT) USING iceberg")
    sql(f"INSERT INTO {ns}.t VALUES (1)")
    sql(f"ALTER TABLE {ns}.t CREATE TAG start RETAIN 5 DAYS")
    sql(f"ALTER TABLE {ns}.t CREATE BRANCH trial WITH SNAPSHOT RETENTION 2 SNAPSHOTS")
    sql(f"INSERT INTO {ns}.t.branch_trial VALUES (2)")
    assert sql(f"SELECT count(*) FROM {ns}.t") == [(1,)]
    assert sql(f"SELECT id FROM {ns}.t VERSION AS OF 'trial' ORDER BY id") == [(1,), (2,)]
    sql(f"CALL frazil.system.fast_forward('{ns}.t', 'main', 'trial')")
    assert sql(f"SELECT id FROM {ns}.t ORDER BY id") == [(1,), (2,)]
    assert sql(f"SELECT id FROM {ns}.t VERSION AS OF 'start'") == [(1,)]
    assert {row[0] for row in sql(f"SELECT name FROM {ns}.t.refs")} == {"main", "start", "trial"}
    sql(f"ALTER TABLE {ns}.t DROP BRANCH trial")
    sql(f"ALTER TABLE {ns}.t DROP TAG start")
    assert sql(f"SELECT name FROM {ns}.t.refs") == [("main",)]


def test_views(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t (id INT, v STRING) USING iceberg")
    sql(f"INSERT INTO {ns}.t VALUES (1, 'a'), (2, 'b')")
    sql(f"CREATE VIEW {ns}.w TBLPROPERTIES ('keeper' = 'ice') AS SELECT id FROM {ns}.t WHERE id > 1")
    assert sql(f"SELECT * FROM {ns}.w") == [(2,)]
    assert [row[1] for row in sql(f"SHOW VIEWS IN {ns}")] == ["w"]
    sql(f"CREATE OR REPLACE VIEW {ns}.w (label) AS SELECT upper(v) FROM {ns}.t")
    assert sql(f"SELECT label FROM {ns}.w ORDER BY 1") == [("A",), ("B",)]
    sql(f"ALTER VIEW {ns}.w SET TBLPROPERTIES ('keeper' = 'bear')")
    assert ("keeper", "bear") in sql(f"SHOW TBLPROPERTIES {ns}.w")
    sql(f"ALTER VIEW {ns}.w RENAME TO {ns}.renamed")
    assert sql(f"SELECT count(*) FROM {ns}.renamed") == [(2,)]
    with pytest.raises(Exception, match=r"(?i)already exists"):
        sql(f"CREATE TABLE {ns}.renamed (id INT) USING iceberg")
    sql(f"DROP VIEW {ns}.renamed")
    assert sql(f"SHOW VIEWS IN {ns}") == []


def test_rename_and_register(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t (id INT) USING iceberg")
    sql(f"INSERT INTO {ns}.t VALUES (1)")
    sql(f"ALTER TABLE {ns}.t RENAME TO {ns.removeprefix('frazil.')}.renamed")
    assert [row[1] for row in sql(f"SHOW TABLES IN {ns}")] == ["renamed"]
    newest = f"SELECT file FROM {ns}.renamed.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    ((metadata,),) = sql(newest)
    sql(f"DROP TABLE {ns}.renamed")
    sql(f"CALL frazil.system.register_table('{ns}.again', '{metadata}')")
    sql(f"INSERT INTO {ns}.again VALUES (2)")
    assert sql(f"SELECT * FROM {ns}.again ORDER BY id") == [(1,), (2,)]


def test_create_and_replace_as_select(sql: Sql, ns: str) -> None:
    sql(f"CREATE TABLE {ns}.t USING iceberg PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(10)")
    assert sql(f"SELECT count(*) FROM {ns}.t WHERE k = 1") == [(5,)]
    sql(f"CREATE OR REPLACE TABLE {ns}.t USING iceberg AS SELECT id, 'x' AS label FROM range(3)")
    assert sql(f"SELECT * FROM {ns}.t ORDER BY id") == [(0, "x"), (1, "x"), (2, "x")]
    # The replaced data stays within reach, as the rules of Iceberg have it.
    assert len(sql(f"SELECT * FROM {ns}.t.snapshots")) == 2
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql(f"CREATE TABLE {ns}.failed USING iceberg AS SELECT 1 / (id - id) AS x FROM range(3)")
    assert [row[1] for row in sql(f"SHOW TABLES IN {ns}")] == ["t"]


def test_the_server_purges_when_spark_asks_it_to(
    sql: Sql, ns: str, purging: str, frazil_sqlite: FrazilServer
) -> None:
    table = _with_deletes(sql, ns)
    location = location_of(sql, table)
    stranger = plant(location)
    files = files_below(location) - {stranger}
    assert {path.suffix for path in files} == {".json", ".avro", ".parquet", ".puffin", ".stats"}
    purged = metric(frazil_sqlite, "frazil_purged_files_total")
    sql(f"DROP TABLE {purging}.{table.removeprefix('frazil.')} PURGE")
    wait_until(lambda: files_below(location) == {stranger}, "files of a purged table are left")
    wait_until(
        lambda: metric(frazil_sqlite, "frazil_purged_files_total") == purged + len(files),
        "the server deleted them, each counted once",
    )


def test_spark_purges_by_itself_by_default(sql: Sql, ns: str, frazil_sqlite: FrazilServer) -> None:
    table = _with_deletes(sql, ns)
    location = location_of(sql, table)
    stranger = plant(location)
    purged = metric(frazil_sqlite, "frazil_purged_files_total")
    sql(f"DROP TABLE {table} PURGE")
    assert files_below(location) == {stranger}
    assert metric(frazil_sqlite, "frazil_purged_files_total") == purged


def _with_deletes(sql: Sql, ns: str) -> str:
    """A table with data, two generations of deletes, a branch and statistics."""
    table = f"{ns}.t"
    properties = "'format-version' = '3', 'write.delete.mode' = 'merge-on-read'"
    rows = "SELECT id, 'x' AS v FROM range(20)"
    sql(f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ({properties}) AS {rows}")
    sql(f"ALTER TABLE {table} CREATE BRANCH side")
    sql(f"INSERT INTO {table}.branch_side VALUES (100, 'y')")
    sql(f"DELETE FROM {table} WHERE id = 3")
    sql(f"DELETE FROM {table} WHERE id = 4")
    sql(f"CALL frazil.system.compute_table_stats('{table}')")
    return table
