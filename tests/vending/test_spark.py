"""Spark without a key in its configuration: Iceberg through S3FileIO, plain files through S3A."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.clients.support import wait_until
from tests.vending.support import BUCKET, NAMESPACE, READ_ONLY, VENDED, Lake, elsewhere, location

from frazil.client import VendedCredentials
from frazil.core.errors import InvalidInput, Unsupported
from frazil.lake import use_s3a
from frazil.lake.session import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Fresh = Callable[[str], str]
pytestmark = [pytest.mark.usefixtures("untouched"), pytest.mark.slow]
REFUSED = r"403|Access ?Denied"


@pytest.fixture(scope="module")
def engine(spark: SparkSession, lake: Lake) -> SparkSession:
    """The catalogs `vended` and `reading`; neither knows a key."""
    both = {"vended": {**VENDED, "rest-catalog-purge": "true"}, "reading": READ_ONLY}
    for name, properties in both.items():
        settings = spark_settings(lake.server.catalog_uri, lake.warehouse, name, properties)
        for key, value in settings.items():
            if key != "spark.sql.extensions":
                spark.conf.set(key, value)
    return spark


def test_s3fileio(engine: SparkSession, lake: Lake, fresh: Fresh) -> None:
    name = fresh("t1")
    table = f"vended.{NAMESPACE}.{name}"
    engine.sql(
        f"CREATE TABLE {table} USING iceberg LOCATION '{location(name)}' "
        "TBLPROPERTIES ('format-version' = '3', 'write.merge.mode' = 'merge-on-read') "
        "AS SELECT id, 'old' AS v FROM range(5)"
    )
    engine.sql(
        f"MERGE INTO {table} t USING (SELECT 2L AS id UNION ALL SELECT 7L) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'new' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
    )
    engine.sql(f"DELETE FROM {table} WHERE id = 0")
    expected = [(1, "old"), (2, "new"), (3, "old"), (4, "old"), (7, "new")]
    assert _content(engine, table) == expected
    io = _file_io(engine, table)
    for uri in lake.foreign.values():
        _is_refused(lambda at: io.newInputFile(at).newStream().read(), uri)
        _is_refused(io.newInputFile(uri).exists)
        _is_refused(io.newOutputFile(uri).createOrOverwrite().close)
        _is_refused(io.deleteFile, uri)
    _is_refused(lambda at: io.listPrefix(at).iterator().hasNext(), f"s3://{BUCKET}/")

    reading = f"reading.{NAMESPACE}.{name}"
    assert _content(engine, reading) == expected
    _is_refused(engine.sql, f"INSERT INTO {reading} VALUES (9, 'refused')")
    assert _content(engine, table) == expected

    engine.sql(f"DROP TABLE {table} PURGE")
    below = location(name).removeprefix(f"s3://{BUCKET}/") + "/"
    wait_until(lambda: not lake.objects(below), "files of the dropped table are left")


def test_s3a(engine: SparkSession, lake: Lake, fresh: Fresh) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    use_s3a(engine, keys)
    here = f"s3a://{keys.path}"
    frame = engine.range(100).repartition(2)
    frame.write.mode("append").json(here)
    frame.write.mode("append").json(here)
    assert engine.read.json(here).count() == 200
    frame.selectExpr("id", "id % 3 AS day").write.partitionBy("day").json(f"{here}/days")
    engine.range(3).write.mode("overwrite").parquet(f"{here}/days")
    assert engine.read.parquet(f"{here}/days").count() == 3
    # The committer works with renames: what it leaves is what was meant to be there.
    left = {
        key.rpartition("/")[2].partition("-")[0] for key in lake.objects(f"{keys.path.partition('/')[2]}/")
    }
    assert left == {"_SUCCESS", "part"}

    for uri in lake.foreign.values():
        use_s3a(engine, elsewhere(keys, uri))
        there = uri.replace("s3://", "s3a://").rpartition("/")[0]
        _is_refused(_read, engine, f"{there}/secret.json")
        _is_refused(_read, engine, there)
        _is_refused(frame.write.mode("append").json, f"{there}/more")
        _is_refused(frame.write.mode("overwrite").json, there)

    reader = lake.client.generic_tables.credentials(NAMESPACE, name, read_only=True)
    use_s3a(engine, reader)
    assert engine.read.parquet(f"{here}/days").count() == 3
    _is_refused(frame.write.mode("append").json, here)
    _is_refused(frame.write.mode("overwrite").parquet, f"{here}/days")
    assert lake.owner_files().get_file_info(f"{keys.path}/days/_SUCCESS").is_file


def test_s3a_uploads_and_renames_in_parts(engine: SparkSession, lake: Lake, fresh: Fresh) -> None:
    keys = lake.generic(fresh("g1"))
    conf = engine.sparkContext._jsc.hadoopConfiguration()
    for setting in ("multipart.size", "multipart.threshold"):
        conf.set(f"fs.s3a.bucket.{BUCKET}.{setting}", "5M")
    use_s3a(engine, keys)
    here = f"s3a://{keys.path}"
    engine.range(0, 400_000, 1, 1).selectExpr("uuid() AS u").write.mode("append").text(here)
    [part] = [key for key in lake.objects(f"{keys.path.partition('/')[2]}/") if "part-" in key]
    head = lake.admin().head_object(Bucket=BUCKET, Key=part)
    assert head["ContentLength"] == 400_000 * 37
    assert head["ETag"].strip('"').endswith("-3"), "it was not copied in parts"
    assert engine.read.text(here).distinct().count() == 400_000


def test_two_prefixes_of_one_bucket_are_refused(engine: SparkSession, lake: Lake, fresh: Fresh) -> None:
    first, second = lake.generic(fresh("g1")), lake.generic(fresh("g1"))
    with pytest.raises(InvalidInput, match="S3FileIO or pyarrow"):
        use_s3a(engine, first, second)


def test_keys_of_another_store_are_refused(engine: SparkSession) -> None:
    host = "lake.dfs.core.windows.net"
    keys = VendedCredentials(f"abfss://data@{host}/t1", {f"adls.sas-token.{host}": "sig=x"})
    with pytest.raises(Unsupported, match="S3A cannot use keys for abfss://"):
        use_s3a(engine, keys)


def _content(engine: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in engine.table(table).orderBy("id").collect()]


def _file_io(engine: SparkSession, table: str) -> Any:
    """The FileIO with which Spark reads and writes the table."""
    util = engine.sparkContext._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
    return util.loadIcebergTable(engine._jsparkSession, table).io()


def _read(engine: SparkSession, path: str) -> object:
    return engine.read.schema("id long").json(path).collect()


def _is_refused(attempt: Callable[..., object], *arguments: object) -> None:
    """By the store, and not by a client that lacks something."""
    with pytest.raises((Py4JJavaError, PySparkException), match=REFUSED):
        attempt(*arguments)
