"""Hot tables, what is written to them, and what an independent reader finds in Iceberg."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog

from frazil.client import Client
from frazil.core.errors import FrazilError
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.hot.cluster import Cluster
from frazil.hot.create import create, drop
from frazil.hot.declared.declaration import Declaration
from frazil.hot.table import HotTable
from frazil.hot.tiering.service import Tiering
from frazil.lake.session import use_catalog
from frazil.stream.config.model import CatalogConfig
from frazil.stream.events import Event, Observer
from frazil.stream.observe.fanout import Observers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
#: A table that failed some times rests for more than a minute.
_SECONDS = 240.0
COLUMNS = Schema((Field("id", "long"), Field("word", "string"), Field("price", "double")))


@dataclass
class Seen:
    events: list[Event] = field(default_factory=list)

    def notify(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class Table:
    """One hot table, and the rows that it should have."""

    world: World
    hot: HotTable
    declared: Declaration
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)

    @property
    def keyed(self) -> bool:
        return bool(self.hot.key)

    def put(self, *ids: int, word: str = "w") -> None:
        for number in ids:
            row = {"id": number, "word": f"{word}{number}", "price": number / 2}
            self.rows[number] = row
            self.log.append(row)
            self._send({"id": number}, row)
        self.world.flush()

    def delete(self, *ids: int) -> None:
        for number in ids:
            self.rows.pop(number, None)
            self._send({"id": number}, None)
        self.world.flush()

    def send(self, key: bytes | None, value: bytes | None, partition: int = 0) -> None:
        self.world.producer.produce(self.hot.topic, value, key, partition=partition)
        self.world.flush()

    def wanted(self) -> list[dict[str, Any]]:
        rows = list(self.rows.values()) if self.keyed else self.log
        return sorted(rows, key=lambda row: (row["id"], row["word"]))

    def found(self) -> list[dict[str, Any]]:
        """In Iceberg, by PyIceberg."""
        return sorted(self.world.rows(str(self.hot)), key=lambda row: (row["id"], row["word"]))

    def complete(self) -> bool:
        return self.found() == self.wanted()

    def alter(self, **properties: str) -> None:
        named = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}
        texts = ", ".join(f"'{key}'='{value}'" for key, value in named.items())
        self.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ({texts})")

    def sql(self, text: str) -> None:
        """With `{}` for the table, from outside."""
        use_catalog(self.world.spark, "tiered", self.world.client)
        self.world.spark.sql(text.format(f"tiered.{self.hot}"))

    def _send(self, key: dict[str, Any], row: dict[str, Any] | None) -> None:
        self.world.producer.produce(
            self.hot.topic,
            None if row is None else json.dumps(row).encode(),
            json.dumps(key, separators=(",", ":")).encode() if self.keyed else None,
        )


@dataclass
class World:
    kafka: Kafka
    spark: SparkSession
    server: FrazilServer
    warehouse: str = "default"

    def __post_init__(self) -> None:
        self._made: dict[str, Table] = {}
        self.client = Client(self.server.uri, warehouse=self.warehouse)
        self.settings = {"bootstrap.servers": self.kafka.bootstrap_servers}
        self.producer = Producer({**self.settings, "partitioner": "murmur2_random", "log_level": 0})

    def table(
        self, name: str = "", *, key: tuple[str, ...] = ("id",), columns: Schema = COLUMNS, **options: str
    ) -> Table:
        given = {"bucket.num": "2", "table.datalake.freshness": "4s"}
        given |= {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
        name = name or f"t{os.getpid()}x{next(_numbers)}"
        declared = Declaration((f"tiering{os.getpid()}",), name, columns, key, options=given)
        made = Table(self, create(declared, self.client, self.settings).table, declared)
        self._made[name] = made
        return made

    def adopt(self, table: Table) -> None:
        """It is dropped in the end."""
        self._made[table.hot.name] = table

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Of any table, by PyIceberg."""
        uri = self.server.catalog_uri
        with load_catalog("hot", type="rest", uri=uri, warehouse=self.warehouse) as catalog:
            rows: pa.Table = catalog.load_table(table).scan().to_arrow()
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def close(self) -> None:
        for table in list(self._made.values()):
            self.drop(table)
        self.client.close()

    def drop(self, table: Table, *, topic: bool = True) -> None:
        self._made.pop(table.hot.name, None)
        drop(self.client, self.settings, table.hot.namespace, table.hot.name, topic=topic)

    def flush(self) -> None:
        assert self.producer.flush(_SECONDS) == 0

    def cluster(self) -> Cluster:
        return Cluster(CatalogConfig(self.server.uri, self.warehouse), self.settings)

    def once(self, **more: Any) -> Seen:
        """Tier what there is; errors are raised."""
        seen = Seen()
        failed = Tiering(self.cluster(), self.spark, observer=seen, once=True, **more).run()
        for error in failed.values():
            raise error
        return seen

    @contextlib.contextmanager
    def tiering(self, *, observers: Sequence[Observer] = (), **more: Any) -> Iterator[Running]:
        """A service that goes on until the block ends."""
        seen = Seen()
        service = Tiering(self.cluster(), self.spark, observer=Observers([seen, *observers]), **more)
        running = Running(seen)
        thread = threading.Thread(target=lambda: running.errors.update(service.run()), daemon=True)
        thread.start()
        try:
            yield running
        finally:
            service.stop()
            thread.join(_SECONDS)
        assert not thread.is_alive()


@dataclass
class Running:
    seen: Seen
    errors: dict[str, FrazilError] = field(default_factory=dict)

    def until(self, true: Callable[[], bool], seconds: float = _SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, self.seen.events[-8:]
            time.sleep(0.3)
