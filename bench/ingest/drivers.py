"""The driver processes of Spark sides: what runs in them, and how they are told."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from bench.driver_process import Silent
from bench.ingest.encodings import Name, format_of
from bench.ingest.messages import SCHEMA
from bench.ingest.place import NAMESPACE
from frazil.core.schema import Field, Schema
from frazil.jvm.jars import SPARK_KAFKA, jars
from frazil.lake.session import spark_session, spark_settings
from frazil.stream.config.model import (
    CatalogConfig,
    KafkaSource,
    PipelineConfig,
    Pipelines,
    SparkConfig,
    TableConfig,
    Transform,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER = "local[2]"
_MEMORY = "1g"
#: The name of our pipeline.
PIPELINE = "bench"
_SPARK_TYPES = {"long": "bigint", "timestamptz": "bigint"}


@dataclass(frozen=True)
class Addresses:
    bootstrap_servers: str
    catalog_uri: str
    #: The schema registry's.
    registry: str | None = None


Ingest = Callable[[str, str], None]


def start(driver: str, addresses: Addresses) -> tuple[Ingest, Callable[[], None]]:
    """What lands a topic in a table, and what ends it."""
    spark, ingest = _DRIVERS[driver](addresses)
    return ingest, spark.stop


def serve_steady(
    connection: Connection, addresses: Addresses, topic: str, table: str, freshness: float
) -> None:
    """Run our pipeline until any message comes."""
    from frazil.stream.runner import Runner

    spark = spark_session(master=_MASTER, memory=_MEMORY)
    given = pipelines(addresses, topic, table, freshness=freshness)
    runner = Runner(given, spark, observer=Silent())
    failed: list[str] = []
    running = threading.Thread(target=lambda: failed.extend(map(str, runner.run().values())))
    running.start()
    connection.send((None, None))
    try:
        connection.recv()
    except EOFError:
        return
    finally:
        runner.stop()
        running.join()
        spark.stop()
    connection.send(("; ".join(failed) or None, None))


def _plain(addresses: Addresses) -> tuple[SparkSession, Ingest]:
    """Structured Streaming with Spark's own Kafka source, as its manual shows it."""
    libraries = ",".join(str(jar) for jar in jars(SPARK_KAFKA))
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


def pipelines(
    addresses: Addresses,
    topic: str,
    table: str,
    *,
    encoding: Name = "json",
    sql: str | None = None,
    freshness: float = 30.0,
) -> Pipelines:
    """Our own way: one pipeline from the topic to the table."""
    one = PipelineConfig(
        name=PIPELINE,
        source=KafkaSource({"bootstrap.servers": addresses.bootstrap_servers}, topics=(topic,)),
        format=format_of(encoding, addresses.registry),
        schema=Schema(tuple(Field(name, kind) for name, kind in SCHEMA.items())),
        table=TableConfig((NAMESPACE,), table),
        freshness=freshness,
        transform=Transform(sql=sql) if sql else None,
    )
    return Pipelines(CatalogConfig(addresses.catalog_uri), SparkConfig(_MASTER), (one,))


def _ours(
    addresses: Addresses, *, encoding: Name = "json", sql: str | None = None
) -> tuple[SparkSession, Ingest]:
    from frazil.stream.runner import Runner

    spark = spark_session(master=_MASTER, memory=_MEMORY)

    def ingest(topic: str, table: str) -> None:
        given = pipelines(addresses, topic, table, encoding=encoding, sql=sql)
        for error in Runner(given, spark, observer=Silent(), once=True).run().values():
            raise error

    return spark, ingest


_DRIVERS: dict[str, Callable[[Addresses], tuple[SparkSession, Ingest]]] = {
    "fused": _ours,
    "avro": partial(_ours, encoding="avro"),
    "protobuf": partial(_ours, encoding="protobuf"),
    "sparkpath": partial(_ours, sql="SELECT * FROM source"),
    "spark": _plain,
}
