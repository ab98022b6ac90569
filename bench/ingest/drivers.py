"""What runs in the driver process of a Spark side."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from bench.ingest.messages import SCHEMA
from bench.ingest.place import NAMESPACE
from frazil.jvm.jars import SPARK_ICEBERG, SPARK_KAFKA, jars
from frazil.lake.session import spark_session, spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER = "local[2]"
_MEMORY = "1g"
_SPARK_TYPES = {"long": "bigint", "timestamptz": "bigint"}


@dataclass(frozen=True)
class Addresses:
    bootstrap_servers: str
    catalog_uri: str


Ingest = Callable[[str, str], None]


def serve(connection: Connection, driver: str, addresses: Addresses) -> None:
    """Answer (topic, table) with None when it landed, with the error when it did not."""
    try:
        spark, ingest = _DRIVERS[driver](addresses)
        connection.send(None)
    except Exception:  # noqa: BLE001 - the other end raises it
        connection.send(traceback.format_exc())
        return
    while True:
        try:
            topic, table = connection.recv()
        except EOFError:
            break
        try:
            ingest(topic, table)
            connection.send(None)
        except Exception:  # noqa: BLE001 - the other end raises it
            connection.send(traceback.format_exc())
    spark.stop()


def _plain(addresses: Addresses) -> tuple[SparkSession, Ingest]:
    """Structured Streaming with Spark's own Kafka source, as its manual shows it."""
    libraries = ",".join(str(jar) for jar in (*jars(SPARK_ICEBERG), *jars(SPARK_KAFKA)))
    settings = spark_settings(addresses.catalog_uri, name="lake") | {"spark.jars": libraries}
    spark = spark_session(settings, master=_MASTER, memory=_MEMORY)
    columns = ", ".join(f"{name} {_SPARK_TYPES.get(kind, kind)}" for name, kind in SCHEMA.items())

    def ingest(topic: str, table: str) -> None:
        from pyspark.sql import functions as f

        selected = [
            f.timestamp_millis(f.col("r.ts")).alias("ts") if name == "ts" else f.col(f"r.{name}")
            for name in SCHEMA
        ]
        with tempfile.TemporaryDirectory(prefix="frazil-bench-") as checkpoint:
            (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", addresses.bootstrap_servers)
                .option("subscribe", topic)
                .option("startingOffsets", "earliest")
                .load()
                .select(f.from_json(f.col("value").cast("string"), columns).alias("r"))
                .select(*selected)
                .writeStream.format("iceberg")
                .outputMode("append")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .toTable(f"lake.{NAMESPACE}.{table}")
                .awaitTermination()
            )

    return spark, ingest


_DRIVERS: dict[str, Callable[[Addresses], tuple[SparkSession, Ingest]]] = {"spark": _plain}
