"""The Spark that reads both ways, in a process of its own: all that a read uses is in its tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.cdc.reader import CATALOG, MASTER, MEMORY
from frazil.lake.session import spark_session, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: By status: rows, and the sum of their quantities.
Groups: TypeAlias = dict[str, tuple[int, int]]

_QUERY = "SELECT status, count(*), sum(quantity) FROM {rows} GROUP BY status"


def start(uri: str) -> tuple[Callable[..., Any], Callable[[], None]]:
    """What does as it is told, and what ends it. `uri`: of the server."""
    settings = spark_settings(f"{uri}/catalog", name=CATALOG)
    # As Arrow reads it.
    settings["spark.sql.parquet.outputTimestampType"] = "TIMESTAMP_MICROS"
    spark = spark_session(settings, master=MASTER, memory=MEMORY)
    works: dict[str, Callable[..., Any]] = {
        "load": _load,
        "plain": _plain,
        "union": _union,
        "export": _export,
    }

    def work(verb: str, table: str, *more: str) -> Any:
        return works[verb](spark, table, *more)

    return work, spark.stop


def _load(spark: SparkSession, table: str, path: str) -> None:
    spark.sql(f"INSERT INTO {CATALOG}.{table} SELECT * FROM parquet.`{path}`")


def _plain(spark: SparkSession, table: str, snapshot: str) -> Groups:
    return _groups(spark, spark.read.option("versionAsOf", snapshot).table(f"{CATALOG}.{table}"))


def _union(spark: SparkSession, table: str, uri: str) -> Groups:
    import frazil

    return _groups(spark, frazil.read(spark, table, catalog=uri))


def _export(spark: SparkSession, table: str, uri: str, path: str) -> None:
    import frazil

    frazil.read(spark, table, catalog=uri).write.parquet(path)


def _groups(spark: SparkSession, frame: DataFrame) -> Groups:
    return {status: (rows, total) for status, rows, total in spark.sql(_QUERY, rows=frame).collect()}
