"""A Spark that belongs to no side: it fills tables, reads and compacts them, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.cdc.rows import SCHEMA
from frazil.lake.session import spark_session, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of a table: how many rows, and a sum for each column.
Sums: TypeAlias = tuple[int, ...]

CATALOG = "lake"
MASTER = "local[2]"
MEMORY = "2g"
_SUMS = {
    "string": "sum(length({0}))",
    "timestamptz": "sum(unix_millis({0}))",
    "double": "sum(cast(round({0} * 100) AS bigint))",
}


def start(catalog_uri: str) -> tuple[Callable[..., Any], Callable[[], None]]:
    """What does as it is told, and what ends it."""
    settings = spark_settings(catalog_uri, name=CATALOG)
    # As Arrow reads it.
    settings["spark.sql.parquet.outputTimestampType"] = "TIMESTAMP_MICROS"
    spark = spark_session(settings, master=MASTER, memory=MEMORY)
    works: dict[str, Callable[..., Any]] = {
        "load": _load,
        "read": _read,
        "export": _export,
        "compact": _compact,
    }

    def work(verb: str, table: str, *more: str) -> Any:
        return works[verb](spark, table, *more)

    return work, spark.stop


def sums(rows: pa.Table) -> list[int]:
    """The same as a query finds."""
    found = []
    for name, kind in SCHEMA.items():
        column = rows[name]
        if kind == "string":
            column = pc.utf8_length(column)
        elif kind == "timestamptz":
            column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        elif kind == "double":
            column = pa.array(np.rint(column.to_numpy() * 100).astype(np.int64))
        found.append(int(pc.sum(column).as_py() or 0))
    return found


def _load(spark: SparkSession, table: str, path: str) -> None:
    spark.sql(f"INSERT INTO {CATALOG}.{table} SELECT * FROM parquet.`{path}`")


def _read(spark: SparkSession, table: str) -> Sums:
    selected = ", ".join(_SUMS.get(kind, "sum({0})").format(name) for name, kind in SCHEMA.items())
    (row,) = spark.sql(f"SELECT count(*), {selected} FROM {CATALOG}.{table}").collect()
    return tuple(value or 0 for value in row)


def _export(spark: SparkSession, table: str, path: str) -> None:
    spark.table(f"{CATALOG}.{table}").write.parquet(path)


def _compact(spark: SparkSession, table: str) -> None:
    options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
    spark.sql(f"CALL {CATALOG}.system.rewrite_data_files(table => '{CATALOG}.{table}', options => {options})")
