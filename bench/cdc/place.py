"""Where all sides read from and write to: one broker, one catalog with its warehouse on the local disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema

from bench import tables
from bench.cdc import reader
from bench.cdc.changes import ABSENT, PARTITIONS, Workload
from bench.cdc.reader import Sums
from bench.cdc.rows import SCHEMA, differs, table_of
from bench.driver_process import DriverProcess, serve
from bench.meter import Meter, spark_processes
from bench.tables import Contents, columns, contents_of
from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

NAMESPACE = "cdc"
_CHUNK = 500_000


@dataclass
class Place:
    """The addresses that a side needs, and what the benchmark does with the tables."""

    kafka: Kafka
    server: FrazilServer
    directory: Path
    #: Rows of Parquet files that tables begin with.
    bases: dict[int, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._catalog = RestCatalog("cdc", uri=self.server.catalog_uri)
        self._client = Client(self.server.uri)
        self._reader = DriverProcess(serve, reader.start, self.server.catalog_uri)

    def close(self) -> None:
        self._reader.close()
        self._client.close()

    def topic(self, name: str) -> str:
        return self.kafka.create_topic(name, partitions=PARTITIONS)

    def create(self, table: str, rows: int, format_version: int) -> None:
        """A table with the first rows, the same for every side."""
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("merge", "update", "delete")}
        self._catalog.create_table(
            f"{NAMESPACE}.{table}",
            Schema(*columns(SCHEMA, "id"), identifier_field_ids=[1]),
            properties={
                "format-version": str(format_version),
                "write.parquet.compression-codec": "zstd",
                **modes,
            },
        )
        self._reader.call(("load", _name(table), str(self._base(rows))))

    def drop(self, table: str) -> None:
        tables.drop(self._catalog, _name(table))

    def snapshots(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._metadata(table)["snapshots"]
        return found

    def contents(self, table: str) -> Contents:
        return contents_of(self._metadata(table))

    def read(self, table: str) -> tuple[float, Sums]:
        """CPU-seconds of a query over all columns of all rows, and what it found."""
        with Meter(lambda: spark_processes(self._reader.pid)) as meter:
            sums = self._reader.call(("read", _name(table)))
        return meter.usage.cpu_seconds, sums

    def compact(self, table: str) -> None:
        self._reader.call(("compact", _name(table)))

    def wrong(self, table: str, workload: Workload) -> int:
        """Rows that are missing, too many, or have another content than the workload left."""
        with tempfile.TemporaryDirectory(dir=self.directory) as scratch:
            self._reader.call(("export", _name(table), f"{scratch}/rows"))
            return wrong_rows(Path(scratch, "rows"), workload)

    def _metadata(self, table: str) -> dict[str, Any]:
        return self._client.tables.load((NAMESPACE,), table).metadata

    def _base(self, rows: int) -> Path:
        """Made once."""
        if rows not in self.bases:
            self.bases[rows] = write_base(self.directory / f"base-{rows}", rows)
        return self.bases[rows]


@contextmanager
def place() -> Iterator[Place]:
    with (
        Kafka() as kafka,
        FrazilServer() as server,
        tempfile.TemporaryDirectory(prefix="frazil-bench-") as directory,
    ):
        found = Place(kafka, server, Path(directory))
        try:
            yield found
        finally:
            found.close()


def write_base(path: Path, rows: int) -> Path:
    """Files of some 10 MB, which Spark packs into larger ones."""
    path.mkdir()
    for start in range(0, rows, _CHUNK):
        ids = np.arange(start, min(rows, start + _CHUNK), dtype=np.int64)
        pq.write_table(table_of(ids, np.zeros_like(ids)), path / f"{start:010d}.parquet")
    return path


def wrong_rows(exported: Path, workload: Workload) -> int:
    """Of Parquet files: rows that are missing, too many, or have another content than the workload left."""
    expected = workload.versions
    times = np.zeros(len(expected), np.int64)
    wrong = 0
    for path in exported.glob("*.parquet"):
        for batch in pq.ParquetFile(path).iter_batches(_CHUNK):
            ids = batch["id"].to_numpy()
            known = (ids >= 0) & (ids < len(expected))
            versions = np.where(known, expected[np.where(known, ids, 0)], ABSENT)
            wrong += int((differs(batch) | (versions != batch["version"].to_numpy())).sum())
            times += np.bincount(ids[known], minlength=len(expected))
    there = expected != ABSENT
    return wrong + int((there & (times == 0)).sum()) + int(np.maximum(times[there] - 1, 0).sum())


def sums_of(workload: Workload) -> Sums:
    """What a query finds in a table that is as it should be."""
    total = [0] * len(SCHEMA)
    alive = workload.alive
    for start in range(0, len(alive), _CHUNK):
        ids = alive[start : start + _CHUNK]
        found = reader.sums(table_of(ids, workload.versions[ids]))
        total = [a + b for a, b in zip(total, found, strict=True)]
    return (len(alive), *total)


def _name(table: str) -> str:
    return f"{NAMESPACE}.{table}"
