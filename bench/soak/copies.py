"""A pipeline into tables of one format: `frazil run` as users start it, and what others see of its tables."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow.compute as pc
from pyiceberg.catalog.rest import RestCatalog

from bench.frazil_command import frazil_command
from bench.meter import spark_processes
from bench.processes import Process
from bench.soak.bank import ACCOUNTS, NAME, TABLES, Bank, topic_of
from bench.tables import Contents, Row, contents_of, differing
from frazil.client import Client
from frazil.core.errors import NoSuchTable
from frazil.core.stamp import Mirror, stamp_key
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command

FORMATS = (2, 3)
#: Else the JVM makes room for new objects as it likes, by hundreds of MB: what stays would be lost in that.
_JAVA = "-Xmn128m"


@dataclass(frozen=True)
class Files:
    """Of one table."""

    contents: Contents
    #: The document that every commit writes anew.
    metadata_kb: float


@dataclass(frozen=True)
class Read:
    """Of all rows of the accounts."""

    cpu: float
    seconds: float
    rows: int
    balance: int


class Copy(Service):
    """One `frazil run` with one pipeline, whose tables are in a namespace of its own."""

    name: ClassVar[str] = "frazil-run"
    start_seconds: ClassVar[float] = 180
    stop_seconds: ClassVar[float] = 90
    #: As Ctrl-C: the round in hand is finished.
    stop_signal: ClassVar[signal.Signals] = signal.SIGINT

    def __init__(self, kafka: Kafka, server: FrazilServer, version: int, settings: Mapping[str, Any]) -> None:
        """`settings` are those of the pipeline that are not about where it reads and writes."""
        super().__init__()
        self.version = version
        self.pipeline = self.namespace = f"{NAME}{version}"
        self._config = {
            "catalog": {"uri": server.uri},
            "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
            "spark": {"master": "local[2]"},
            "pipelines": {
                self.pipeline: {
                    "source": {"pattern": topic_of("pgbench_.*").replace(".", r"\.", 2)},
                    "format": "debezium",
                    "table": f"{self.namespace}.{{table}}",
                    "format_version": version,
                    **settings,
                }
            },
        }
        self._client = Client(server.uri)
        self._catalog = RestCatalog(self.pipeline, uri=server.catalog_uri)

    def command(self) -> Command:
        file = self.directory / "pipelines.yaml"
        file.write_text(json.dumps(self._config))
        return frazil_command(self.directory, "run", str(file), java=_JAVA)

    def healthy(self) -> bool:
        return '"claimed"' in self.log.read_text()

    def close(self) -> None:
        super().close()
        self._client.close()

    def require_running(self) -> None:
        if not self.running or '"table-stopped"' in self.log.read_text():
            raise RuntimeError(f"the pipeline into format {self.version} failed:\n{self.log_tail()}")

    def processes(self) -> Mapping[Process, str]:
        return spark_processes(self.pid)

    def behind(self, ends: Mapping[str, int]) -> int:
        """Records of the topics that are not in the tables."""
        return sum(end - self._landed(table) for table, end in ends.items())

    def files(self, table: str = ACCOUNTS) -> Files:
        metadata = self._client.tables.load((self.namespace,), table).metadata
        return Files(contents_of(metadata), len(json.dumps(metadata, separators=(",", ":"))) / 1000)

    def read(self) -> Read:
        """By PyIceberg, in this process: no JVM that is still warming up when the first figures are taken."""
        started, used = time.monotonic(), time.process_time()
        rows = self._catalog.load_table((self.namespace, ACCOUNTS)).scan().to_arrow()
        balance = pc.sum(rows["abalance"]).as_py()
        return Read(time.process_time() - used, time.monotonic() - started, len(rows), balance)

    def rows(self, table: str) -> list[Row]:
        columns = TABLES[table][0]
        scan = self._catalog.load_table((self.namespace, table)).scan(selected_fields=columns)
        found = scan.to_arrow()
        return list(zip(*(found[name].to_pylist() for name in columns), strict=True))

    def _landed(self, table: str) -> int:
        try:
            metadata = self._client.tables.load((self.namespace,), table).metadata
        except NoSuchTable:
            return 0
        text = metadata["properties"].get(stamp_key(self.pipeline))
        position = Mirror.decode(text).stamp.positions.get(topic_of(table)) if text else None
        return position.next[0] if position else 0


@dataclass(frozen=True)
class Comparison:
    """Every row of every table beside the database."""

    rows: int
    #: Missing, too many, or different.
    wrong: int
    #: How many of the four sums of balances are not those of the accounts.
    sums_wrong: int


def compare(bank: Bank, copy: Copy) -> Comparison:
    rows = wrong = 0
    sums = []
    for table, (columns, summed) in TABLES.items():
        found = copy.rows(table)
        rows += len(found)
        wrong += differing(bank.rows(table), found)
        at = columns.index(summed)
        sums.append(sum(row[at] for row in found))
    return Comparison(rows, wrong, sum(each != sums[0] for each in sums))
