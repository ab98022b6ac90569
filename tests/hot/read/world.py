"""Hot tables as they lie in catalog and Kafka, with a model of what is in them."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Producer
from tests.hot.support import PATIENCE

import frazil
from frazil.client import Client
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema, parse_type
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot.read.arrow import read_arrow
from frazil.hot.read.pins import Pins
from frazil.hot.table import BINDING, Binding, hot_table, table_name
from frazil.lake.catalog import Lake
from frazil.stream.config.model import KafkaSource
from frazil.stream.events import Event
from frazil.stream.kafka.log import KafkaLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_numbers = itertools.count(1)
_TOPIC = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
COLUMNS = {"id": "long required", "word": "string", "amount": "decimal(10, 2)", "at": "timestamptz"}


class Quiet:
    def notify(self, event: Event) -> None:
        """Nobody listens."""


@dataclass
class HotRows:
    """One hot table, and what it should hold."""

    world: HotWorld
    name: str
    key: tuple[str, ...]
    partitions: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return self.name

    def put(self, *rows: dict[str, Any]) -> HotRows:
        """Appended, or in the place of those with their keys."""
        for row in rows:
            self.send(self._text(row) if self.key else None, json.dumps(row).encode())
            if self.key:
                self.rows = [one for one in self.rows if self._text(one) != self._text(row)]
            self.rows.append(row)
        return self

    def delete(self, *keys: Any) -> HotRows:
        for key in keys:
            text = self._text(dict(zip(self.key, key if isinstance(key, tuple) else (key,), strict=True)))
            self.send(text, None)
            self.rows = [one for one in self.rows if self._text(one) != text]
        return self

    def send(self, key: bytes | None, value: bytes | None) -> None:
        partition: dict[str, Any] = {} if self.key else {"partition": next(_numbers) % self.partitions}
        self.world.producer.produce(self.topic, value, key, **partition)
        if next(_numbers) % 1000 == 0:
            self.world.producer.poll(0)

    def flush(self) -> None:
        assert self.world.producer.flush(PATIENCE) == 0

    def tier(self) -> HotRows:
        """Bring the log into Iceberg."""
        self.flush()
        self.world.tier(self.name)
        return self

    def pin(self, **options: Any) -> Pins:
        self.flush()
        return frazil.pin(self.world.client, self.name, **options)

    def arrow(self, **options: Any) -> pa.Table:
        self.flush()
        return read_arrow(self.name, catalog=self.world.client, **options)

    def spark(self, **options: Any) -> DataFrame:
        self.flush()
        return frazil.read(self.world.spark, self.name, catalog=self.world.client, **options)

    def expected(self) -> list[dict[str, Any]]:
        return ordered(self.rows)

    def check(self, pins: Pins | None = None, expected: Sequence[dict[str, Any]] | None = None) -> Pins:
        """Both readers give what the model has."""
        wanted = self.expected() if expected is None else ordered(expected)
        pins = pins or self.pin()
        assert plain(self.arrow(pins=pins).to_pylist()) == wanted
        assert plain(row.asDict() for row in self.spark(pins=pins.encode()).collect()) == wanted
        return pins

    def _text(self, row: dict[str, Any]) -> bytes:
        return json.dumps({name: row[name] for name in self.key}, separators=(",", ":")).encode()


@dataclass
class HotWorld:
    kafka: Kafka
    spark: SparkSession
    server: FrazilServer
    warehouse: str = "default"

    def __post_init__(self) -> None:
        self.client = Client(self.server.uri, warehouse=self.warehouse)
        self.lake = Lake(self.spark, self.client)
        self.connect()

    def connect(self) -> None:
        """A producer that knows the partitions there are now."""
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0, "linger.ms": 5}
        self.producer = Producer({**settings, "partitioner": "murmur2_random"})

    def table(
        self,
        columns: dict[str, str] | None = None,
        key: Sequence[str] = ("id",),
        *,
        partitions: int = 2,
        version: int = 2,
        partitioning: Sequence[str] = (),
        properties: dict[str, str] | None = None,
    ) -> HotRows:
        name = f"hotread.t{os.getpid()}_{next(_numbers)}"
        self.kafka.create_topic(name, partitions=partitions, config=_TOPIC)
        brokers = {"bootstrap.servers": self.kafka.bootstrap_servers}
        log = KafkaLog(KafkaSource(brokers, topics=(name,)))
        binding = Binding(
            topic=name,
            topic_id=log.topics()[name].id,
            source=log.identity(),
            brokers=self.kafka.bootstrap_servers,
        )
        self.lake.create(
            *table_name(name),
            schema_of(columns or COLUMNS),
            parse_partitioning(partitioning),
            {BINDING: binding.encode(), "bucket.num": str(partitions), **(properties or {})},
            version,
            key,
        )
        return HotRows(self, name, tuple(key), partitions)

    def close(self) -> None:
        self.lake.close()
        self.client.close()

    def tier(self, name: str) -> None:
        namespace, table = table_name(name)
        hot = hot_table(namespace, table, self.client.tables.load(namespace, table).metadata)
        assert hot is not None
        frazil.run(
            [hot.pipeline({})],
            catalog={"uri": self.server.uri, "warehouse": self.warehouse},
            spark=self.spark,
            once=True,
            observer=Quiet(),
        )


def schema_of(columns: dict[str, str]) -> Schema:
    return Schema(
        tuple(
            Field(name, parse_type(text.removesuffix(" required")), required=text.endswith(" required"))
            for name, text in columns.items()
        )
    )


def row(number: int, word: str = "x") -> dict[str, Any]:
    return {
        "id": number,
        "word": word,
        "amount": f"{number % 100}.25",
        "at": f"2026-01-{1 + number % 28:02d}T10:00:00+00:00",
    }


def plain(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """As JSON would have them, in order."""
    return ordered({name: _plain(value) for name, value in one.items()} for one in rows)


def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda one: json.dumps(one, sort_keys=True, default=str))


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat() if value.tzinfo else f"{value.isoformat()}+00:00"
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    return str(value)
