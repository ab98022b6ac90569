"""A topic, a table and the pipeline between them, small enough for many tests."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer, TopicPartition
from tests.stream.support import PATIENCE, await_markers, delete_topic

from frazil.client import Client
from frazil.core.schema import Field, Schema, parse_type
from frazil.core.stamp import Stamp
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.stream.config.model import (
    CatalogConfig,
    JsonFormat,
    KafkaSource,
    Limits,
    PipelineConfig,
    Pipelines,
    SparkConfig,
    TableConfig,
)
from frazil.stream.events import Event
from frazil.stream.runner import Runner
from frazil.stream.verify import Verification, verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
SCHEMA = Schema(
    (Field("id", "long", required=True), Field("word", "string"), Field("tags", parse_type("list<int>")))
)


class Silent:
    def notify(self, event: Event) -> None:
        """Nobody looks."""


@dataclass
class Trail:
    kafka: Kafka
    spark: SparkSession
    server: FrazilServer
    config: PipelineConfig
    topic: str
    produced: int = 0
    warehouse: str | None = None

    @classmethod
    def make(cls, kafka: Kafka, spark: SparkSession, server: FrazilServer, table: str | None = None) -> Trail:
        name = f"trail-{os.getpid()}-{next(_numbers)}"
        topic = kafka.create_topic(name, partitions=2)
        config = PipelineConfig(
            name=name,
            source=KafkaSource({"bootstrap.servers": kafka.bootstrap_servers}, (topic,)),
            format=JsonFormat(),
            schema=SCHEMA,
            table=TableConfig(("trail",), table or name.replace("-", "_")),
            freshness=0.1,
            limits=Limits(records_per_round=1000, records_per_task=500),
            hash="the-same",
        )
        return cls(kafka, spark, server, config, topic)

    def beside(self) -> Trail:
        """Another pipeline that writes to the same table."""
        return Trail.make(self.kafka, self.spark, self.server, self.config.table.name)

    def changed(self, **changes: Any) -> Trail:
        return replace(self, config=replace(self.config, **changes))

    def produce(self, count: int, producer: Producer | None = None, **more: Any) -> None:
        """Records with ids that go on, in both partitions by turns."""
        chosen = producer or Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        for number in range(self.produced, self.produced + count):
            value = {"id": number, "word": f"w{number}", "tags": [number, None] if number % 3 else None}
            chosen.produce(self.topic, json.dumps(value | more), partition=number % 2)
        assert chosen.flush(PATIENCE) == 0
        self.produced += count

    def transaction(self, count: int, *, commit: bool) -> None:
        settings = {
            "bootstrap.servers": self.kafka.bootstrap_servers,
            "transactional.id": f"{self.topic}-{self.produced}",
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        self.produce(count, producer)
        if commit:
            producer.commit_transaction(PATIENCE)
        else:
            producer.abort_transaction(PATIENCE)
        await_markers(self.kafka.admin, self.topic, 2)

    def trim(self, partition: int, before: int) -> None:
        (done,) = self.kafka.admin.delete_records([TopicPartition(self.topic, partition, before)]).values()
        done.result(PATIENCE)

    def make_topic_again(self) -> None:
        delete_topic(self.kafka.admin, self.topic)
        self.kafka.create_topic(self.topic, partitions=2)

    def run(self) -> None:
        """Until everything is in."""
        catalog = CatalogConfig(self.server.uri, self.warehouse)
        pipelines = Pipelines(catalog, SparkConfig(), (self.config,))
        errors = Runner(pipelines, self.spark, observer=Silent(), once=True).run()
        if errors:
            raise errors[self.config.name]

    def verify(self) -> Verification:
        with Client(self.server.uri, warehouse=self.warehouse) as client:
            return verify(self.config, self.spark, client)

    def sql(self, text: str) -> list[Any]:
        table = f"frazil.trail.{self.config.table.name}"
        return self.spark.sql(text.format(catalog="frazil", table=table)).collect()

    def ids(self) -> list[int]:
        return sorted(row.id for row in self.sql("SELECT id FROM {table}"))

    def metadata(self) -> dict[str, Any]:
        with Client(self.server.uri) as client:
            return client.tables.load(self.config.table.namespace, self.config.table.name).metadata

    def stamp(self) -> Stamp:
        found = find_stamp(MetadataHistory(self.metadata()), self.config.name)
        assert found is not None
        return found
