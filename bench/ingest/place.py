"""Where all sides read from and write to: one broker, one catalog with its warehouse on the local disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from bench import tables
from bench.ingest import messages
from bench.ingest.encodings import REGISTERED, Name, renderer
from bench.tables import columns, local
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.registry import SchemaRegistry

NAMESPACE = "bench"
_BATCH = 500_000


@dataclass(frozen=True)
class Landed:
    """What an independent reader finds in a table."""

    rows: int
    #: Missing, twice, or with another content than produced.
    wrong: int
    files: int
    bytes: int
    snapshots: int


@dataclass
class Place:
    """The addresses that a side needs, and what the benchmark does with the tables."""

    kafka: Kafka
    server: FrazilServer
    #: Only where a format needs it.
    registry: SchemaRegistry | None = None
    #: Rows by topic.
    topics: dict[str, int] = field(default_factory=dict)

    @property
    def catalog(self) -> RestCatalog:
        return RestCatalog("bench", uri=self.server.catalog_uri)

    def fill(self, topic: str, rows: int, encoding: Name = "json") -> str:
        """A topic with that many messages, made once."""
        if topic not in self.topics:
            self.kafka.create_topic(topic, partitions=messages.PARTITIONS)
            messages.produce(self.kafka.bootstrap_servers, topic, rows, self.renderer(encoding))
            self.topics[topic] = rows
        return topic

    def renderer(self, encoding: Name) -> messages.Render:
        """Its schema is registered, where it has one; again is fine."""
        if encoding not in REGISTERED:
            return renderer(encoding)
        assert self.registry is not None, "it was asked for"
        kind, schema = REGISTERED[encoding]
        return renderer(encoding, self.registry.register(f"bench-{encoding}", schema, kind))

    def create(self, table: str) -> None:
        """An empty table, the same for every side."""
        self.catalog.create_namespace_if_not_exists(NAMESPACE)
        properties = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
        self.catalog.create_table(
            f"{NAMESPACE}.{table}", Schema(*columns(messages.SCHEMA)), properties=properties
        )

    def drop(self, table: str) -> None:
        tables.drop(self.catalog, f"{NAMESPACE}.{table}")

    def examine(self, table: str, rows: int) -> Landed:
        """Compare the files of the current snapshot with what was produced, row by row."""
        found = self.catalog.load_table(f"{NAMESPACE}.{table}")
        files = _files(found)
        times = np.zeros(rows, dtype=np.int64)
        total = wrong = 0
        for path in files:
            for batch in pq.ParquetFile(path).iter_batches(_BATCH):
                ids = batch["id"].to_numpy()
                strange = (ids < 0) | (ids >= rows)
                wrong += int((strange | messages.wrong(batch)).sum())
                times += np.bincount(ids[~strange], minlength=rows)
                total += len(ids)
        wrong += int((times == 0).sum()) + int(np.maximum(times - 1, 0).sum())
        size = sum(path.stat().st_size for path in files)
        return Landed(total, wrong, len(files), size, len(found.snapshots()))


@contextmanager
def place(*, registry: bool) -> Iterator[Place]:
    with ExitStack() as stack:
        kafka, server = stack.enter_context(Kafka()), stack.enter_context(FrazilServer())
        yield Place(kafka, server, stack.enter_context(SchemaRegistry()) if registry else None)


def _files(table: Table) -> list[Path]:
    return [local(task.file.file_path) for task in table.scan().plan_files()]
