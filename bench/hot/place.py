"""One broker, one catalog with its warehouse on the local disk, and the hot tables made there."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from bench.frazil_command import frazil_command
from bench.meter import spark_processes
from bench.processes import Process
from frazil.client import Client
from frazil.core.schema import Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.hot.create import create, drop
from frazil.hot.declared.declaration import Declaration
from frazil.hot.table import BUCKETS, FRESHNESS, HotTable

NAMESPACE = "hot"


@dataclass
class Place:
    """The addresses, and what is done with tables through the catalog."""

    kafka: Kafka
    server: FrazilServer
    directory: Path

    def __post_init__(self) -> None:
        self.client = Client(self.server.uri)

    def close(self) -> None:
        self.client.close()

    def create(
        self, name: str, columns: Schema, *, keyed: bool, buckets: int = 1, freshness: str = "30s"
    ) -> HotTable:
        """A hot table; the first column is its key."""
        key = (columns.fields[0].name,) if keyed else ()
        options = {BUCKETS: str(buckets), FRESHNESS: freshness}
        declared = Declaration((NAMESPACE,), name, columns, key=key, options=options)
        return create(declared, self.client, {"bootstrap.servers": self.kafka.bootstrap_servers}).table

    def drop(self, table: HotTable) -> None:
        """With its topic and its files: what one part leaves behind, the next one would tier."""
        drop(self.client, {}, table.namespace, table.name, topic=True, purge=True)


class Tier(Service):
    """`frazil tier` for all hot tables of a place."""

    name: ClassVar[str] = "frazil-tier"
    start_seconds: ClassVar[float] = 180
    stop_seconds: ClassVar[float] = 90
    #: As Ctrl-C: the round in hand is finished.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._config = {
            "catalog": {"uri": place.server.uri},
            "kafka": {"bootstrap.servers": place.kafka.bootstrap_servers},
            "spark": {"master": "local[2]"},
        }

    def command(self) -> Command:
        file = self.directory / "hot.yaml"
        file.write_text(json.dumps(self._config))
        return frazil_command(self.directory, "tier", "--config", str(file))

    def healthy(self) -> bool:
        return '"freshness-reported"' in self.log.read_text()

    def require_running(self) -> None:
        if not self.running or '"table-stopped"' in self.log.read_text():
            raise RuntimeError(f"tiering failed:\n{self.log_tail()}")

    def processes(self) -> Mapping[Process, str]:
        return spark_processes(self.pid)

    def broken(self) -> list[Broken]:
        """Promises that were, as the service reported it."""
        return broken(self.log.read_text())


@dataclass(frozen=True)
class Broken:
    """A promise that was."""

    #: Seconds since 1970.
    at: float
    table: str
    lag: float
    cause: str

    @property
    def since(self) -> float:
        """When the record came that was not tiered in time."""
        return self.at - self.lag


def broken(log: str) -> list[Broken]:
    """Those in the lines of `frazil tier --json`."""
    events = [json.loads(line) for line in log.splitlines() if '"freshness-broken"' in line]
    return [
        Broken(datetime.fromisoformat(one["at"]).timestamp(), one["table"], one["lag"], one["cause"])
        for one in events
    ]


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
