"""Topics, tables and the pipelines between them, in one process."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

import frazil
from frazil.client import Client
from frazil.core.errors import FrazilError
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.lake.session import use_catalog
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import CatalogConfig, Pipelines
from frazil.stream.config.python import gather
from frazil.stream.events import Event, Stopped
from frazil.stream.runner import Runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {"id": "long required", "word": "string", "at": "timestamptz", "ref": "uuid"}
_numbers = itertools.count(1)


@dataclass
class Seen:
    events: list[Event] = field(default_factory=list)

    def notify(self, event: Event) -> None:
        self.events.append(event)


@dataclass
class Running:
    """Pipelines at work."""

    seen: Seen
    runner: Runner
    #: Of those that ended by one, by name.
    errors: dict[str, FrazilError] = field(default_factory=dict)

    def run(self) -> None:
        self.errors |= self.runner.run()

    def stopped(self) -> list[str]:
        return [event.pipeline for event in self.seen.events if isinstance(event, Stopped)]

    def until(self, true: Callable[[], bool], seconds: float = 300.0) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, self.seen.events[-5:]
            time.sleep(0.3)


def empty(server: FrazilServer) -> None:
    """Drop all tables of the namespace that worlds share."""
    with Client(server.uri, warehouse="default") as client:
        if client.namespaces.exists("paths"):
            for one in list(client.tables.list("paths")):
                client.tables.drop(one.namespace, one.name)


@dataclass
class World:
    kafka: Kafka
    spark: SparkSession
    server: FrazilServer
    warehouse: str = "default"
    seen: Seen = field(default_factory=Seen)

    def topic(self, records: Iterable[dict[str, Any] | bytes] = (), partitions: int = 2) -> str:
        name = self.kafka.create_topic(f"paths-{os.getpid()}-{next(_numbers)}", partitions=partitions)
        self.produce(name, records, partitions)
        return name

    def produce(
        self, topic: str, records: Iterable[dict[str, Any] | bytes], partitions: int = 2, **more: Any
    ) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        for number, record in enumerate(records):
            value = record if isinstance(record, bytes) else json.dumps(record).encode()
            producer.produce(topic, value, partition=number % partitions, **more)
        assert producer.flush(120) == 0

    def produce_nothing(self, topic: str) -> None:
        """A record without a value."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        producer.produce(topic, None, partition=0)
        assert producer.flush(120) == 0

    def pipeline(self, topic: str, table: str, **settings: Any) -> PipelineConfig:
        settings = {"schema": SCHEMA, "freshness": "1s", "topics": topic} | settings
        name = settings.pop("name", f"p-{topic}")
        if settings["schema"] is None:
            del settings["schema"]
        return frazil.Pipeline(name, table=f"paths.{table}", **settings)

    def run(self, *pipelines: PipelineConfig) -> None:
        catalog = {"uri": self.server.uri, "warehouse": self.warehouse}
        servers = {"bootstrap.servers": self.kafka.bootstrap_servers}
        frazil.run(pipelines, catalog=catalog, kafka=servers, spark=self.spark, once=True, observer=self.seen)

    def gathered(self, *pipelines: PipelineConfig) -> Pipelines:
        catalog = CatalogConfig(self.server.uri, self.warehouse)
        return gather(pipelines, catalog=catalog, kafka={"bootstrap.servers": self.kafka.bootstrap_servers})

    @contextmanager
    def running(self, *pipelines: PipelineConfig) -> Iterator[Running]:
        """Pipelines that go on until the block ends."""
        runner = Runner(self.gathered(*pipelines), self.spark, observer=self.seen)
        run = Running(self.seen, runner)
        thread = threading.Thread(target=run.run, daemon=True)
        thread.start()
        try:
            yield run
        finally:
            runner.stop()
            thread.join(300)
        assert not thread.is_alive()

    def rows(self, table: str, by: tuple[str, ...] = ("id",)) -> list[dict[str, Any]]:
        with load_catalog(
            "paths", type="rest", uri=self.server.catalog_uri, warehouse=self.warehouse
        ) as catalog:
            found: pa.Table = catalog.load_table(f"paths.{table}").scan().to_arrow()
        return sorted(found.to_pylist(), key=lambda row: tuple(row[key] for key in by))

    def spark_sql(self, text: str) -> None:
        """With `{}` for the namespace of the tables."""
        self.spark_rows(text)

    def spark_rows(self, text: str) -> list[dict[str, Any]]:
        with Client(self.server.uri, warehouse=self.warehouse) as client:
            use_catalog(self.spark, "world", client)
        return [row.asDict() for row in self.spark.sql(text.format("world.paths")).collect()]

    def exists(self, table: str) -> bool:
        with Client(self.server.uri, warehouse=self.warehouse) as client:
            return client.tables.exists("paths", table)

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        with Client(self.server.uri, warehouse=self.warehouse) as client:
            found: list[dict[str, Any]] = client.tables.load("paths", table).metadata["snapshots"]
        return found


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "word": f"w{number % 7}",
        "at": f"2026-01-{1 + number % 3:02d}T10:00:00Z",
        "ref": str(uuid.UUID(int=number)),
    }


def records(count: int) -> list[dict[str, Any]]:
    return [record(number) for number in range(count)]
