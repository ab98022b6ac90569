"""DuckDB with its Iceberg extension reads what the other engines wrote, and writes itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from frazil.devstack.frazil_server import FrazilServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fresh = Callable[[], str]


@pytest.fixture
def lake(duck: Any, frazil_sqlite: FrazilServer) -> Any:
    duck.execute(
        f"ATTACH 'default' AS lake (TYPE iceberg, ENDPOINT '{frazil_sqlite.catalog_uri}', "
        "AUTHORIZATION_TYPE 'none')"
    )
    return duck


def test_it_reads_what_pyiceberg_wrote(lake: Any, pyiceberg_sqlite: Catalog, fresh: Fresh) -> None:
    top = fresh()
    pyiceberg_sqlite.create_namespace(top)
    pyiceberg_sqlite.create_namespace((top, "inner"))
    for namespace in ((top,), (top, "inner")):
        rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
        table = pyiceberg_sqlite.create_table((*namespace, "t"), schema=rows.schema)
        table.append(rows)
        table.delete("id = 2")
    expected = [(1, "a"), (3, None)]
    assert lake.sql(f"SELECT * FROM lake.{top}.t ORDER BY id").fetchall() == expected
    assert lake.sql(f'SELECT * FROM lake."{top}.inner".t ORDER BY id').fetchall() == expected


@pytest.mark.parametrize("version", [2, 3])
def test_it_reads_what_spark_wrote_and_deleted(
    lake: Any, spark: SparkSession, fresh: Fresh, version: int
) -> None:
    name = fresh()
    spark.sql(f"CREATE NAMESPACE frazil.{name}")
    spark.sql(
        f"CREATE TABLE frazil.{name}.t USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
        f"('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read') "
        "AS SELECT id, id % 2 AS part, concat('floe ', id) AS name FROM range(10)"
    )
    ((first,),) = spark.sql(f"SELECT snapshot_id FROM frazil.{name}.t.snapshots").collect()
    spark.sql(f"DELETE FROM frazil.{name}.t WHERE id IN (3, 4)")
    spark.sql(f"ALTER TABLE frazil.{name}.t ADD COLUMN area DOUBLE")
    spark.sql(f"INSERT INTO frazil.{name}.t VALUES (10, 0, 'floe 10', 2.5)")
    seen = lake.sql(f"SELECT * FROM lake.{name}.t ORDER BY id").fetchall()
    assert seen == [tuple(row) for row in spark.table(f"frazil.{name}.t").orderBy("id").collect()]
    assert len(seen) == 9
    before = f"SELECT count(*) FROM lake.{name}.t AT (VERSION => {first})"
    assert lake.sql(before).fetchall() == [(10,)]


def test_it_writes_and_pyiceberg_reads(lake: Any, pyiceberg_sqlite: Catalog, fresh: Fresh) -> None:
    name = fresh()
    lake.execute(f"CREATE SCHEMA lake.{name}")
    lake.execute(f"CREATE TABLE lake.{name}.t (id BIGINT, v VARCHAR)")
    lake.execute(f"INSERT INTO lake.{name}.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    lake.execute(f"UPDATE lake.{name}.t SET v = 'B' WHERE id = 2")
    lake.execute(f"DELETE FROM lake.{name}.t WHERE id = 3")
    read = pyiceberg_sqlite.load_table((name, "t")).scan().to_arrow().sort_by("id")
    assert read.to_pylist() == [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}]
    # Both tables of one transaction, or none: it goes to the multi-table endpoint.
    lake.execute(f"CREATE TABLE lake.{name}.u (id BIGINT)")
    lake.execute("BEGIN")
    lake.execute(f"INSERT INTO lake.{name}.t VALUES (4, 'd')")
    lake.execute(f"INSERT INTO lake.{name}.u VALUES (4)")
    lake.execute("ROLLBACK")
    assert len(pyiceberg_sqlite.load_table((name, "u")).snapshots()) == 0
    lake.execute("BEGIN")
    lake.execute(f"INSERT INTO lake.{name}.t VALUES (4, 'd')")
    lake.execute(f"INSERT INTO lake.{name}.u VALUES (4)")
    lake.execute("COMMIT")
    assert pyiceberg_sqlite.load_table((name, "t")).scan().count() == 3
    assert pyiceberg_sqlite.load_table((name, "u")).scan().count() == 1
    lake.execute(f"DROP TABLE lake.{name}.u")
    lake.execute(f"DROP TABLE lake.{name}.t")
    lake.execute(f"DROP SCHEMA lake.{name}")
    assert not pyiceberg_sqlite.namespace_exists(name)
