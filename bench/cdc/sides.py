"""Those that are compared. Each gets a table and a topic of its own, is warmed, measured and stopped."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import httpx

from bench.cdc import drivers
from bench.cdc.drivers import Work
from bench.cdc.place import NAMESPACE, Place
from bench.cdc.rows import SCHEMA
from bench.driver_process import DriverProcess, serve
from bench.meter import spark_processes
from bench.processes import Process, tree
from frazil.devstack.flink import Flink

_FLINK_TYPES = {
    "long": "BIGINT",
    "string": "STRING",
    "double": "DOUBLE",
    "int": "INT",
    "timestamptz": "TIMESTAMP_LTZ(3)",
}
_FLINK_KINDS = ("jobmanager", "taskmanager", "gateway")
_POLL_SECONDS = 0.1
#: How long Flink reads before a checkpoint, and commits behind it; what was not read then needs another one.
_READ_SECONDS, _COMMIT_SECONDS = 1.0, 5.0
#: For one batch.
_LATEST_SECONDS = 300.0


class Side(ABC):
    """One way to bring the changes of a topic into a table, batch by batch."""

    name: ClassVar[str]
    label: ClassVar[str]
    format_version: ClassVar[int]
    #: Whether it cuts a backlog into batches itself; otherwise it gets a batch when it has done the last one.
    cuts: ClassVar[bool] = True

    def __init__(self, place: Place, topic: str, table: str, batch: int) -> None:
        self.place, self.topic, self.table, self.batch = place, topic, table, batch

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def land(self, changes: int, rows: int) -> None:
        """Return when so many more changes are in the table; `rows` of them are no deletes."""

    @abstractmethod
    def processes(self) -> Mapping[Process, str]:
        """Its processes, each with its kind."""

    @abstractmethod
    def close(self) -> None: ...


class SparkSide(Side):
    """A PySpark driver in a process of its own, so that its tree is the side."""

    driver: ClassVar[str]

    def start(self) -> None:
        servers, catalog = self.place.kafka.bootstrap_servers, self.place.server.catalog_uri
        work = Work(servers, catalog, self.topic, f"{NAMESPACE}.{self.table}", self.batch)
        self._process = DriverProcess(serve, drivers.start, self.driver, work)

    def land(self, changes: int, rows: int) -> None:
        self._process.call((changes,))

    def processes(self) -> Mapping[Process, str]:
        return spark_processes(self._process.pid)

    def close(self) -> None:
        self._process.close()


class Ours2(SparkSide):
    name, label, format_version = "frazil2", "frazil, format 2", 2
    driver = "ours"


class Ours3(SparkSide):
    name, label, format_version = "frazil3", "frazil, format 3", 3
    driver = "ours"


class Merge2(SparkSide):
    name, label, format_version = "merge2", "Spark MERGE, format 2", 2
    driver = "merge"


class Merge3(SparkSide):
    name, label, format_version = "merge3", "Spark MERGE, format 3", 3
    driver = "merge"


class FlinkUpsert(Side):
    """Flink SQL with Iceberg's v2 sink, which writes equality deletes."""

    name, label, format_version = "flink", "Flink upsert, format 2", 2
    #: It commits when there is a checkpoint.
    cuts = False

    def __init__(self, place: Place, topic: str, table: str, batch: int) -> None:
        super().__init__(place, topic, table, batch)
        self._flink = Flink()

    def start(self) -> None:
        self._flink.start()
        self._flink.execute("SET 'table.exec.iceberg.use-v2-sink'='true'")
        # The batches decide, not the clock: one that two checkpoints share would cost twice.
        self._flink.execute("SET 'execution.checkpointing.interval'='1 h'")
        self._flink.execute(
            "CREATE CATALOG ice WITH ('type'='iceberg','catalog-type'='rest','cache-enabled'='false',"
            f"'uri'='{self.place.server.catalog_uri}')"
        )
        columns = ", ".join(f"`{name}` {_FLINK_TYPES[kind]}" for name, kind in SCHEMA.items())
        self._flink.execute(
            f"CREATE TEMPORARY TABLE default_catalog.default_database.changes ({columns}, "
            "PRIMARY KEY (`id`) NOT ENFORCED) WITH ('connector'='kafka',"
            f"'topic'='{self.topic}','properties.bootstrap.servers'='{self.place.kafka.bootstrap_servers}',"
            "'scan.startup.mode'='earliest-offset','format'='debezium-json',"
            "'debezium-json.timestamp-format.standard'='ISO-8601')"
        )
        ((self._job,),) = self._flink.execute(
            f"INSERT INTO ice.{NAMESPACE}.{self.table} /*+ OPTIONS('upsert-enabled'='true') */ "
            "SELECT * FROM default_catalog.default_database.changes"
        )
        self._known = {snapshot["snapshot-id"] for snapshot in self.place.snapshots(self.table)}
        self._expected = 0

    def land(self, changes: int, rows: int) -> None:
        self._expected += rows
        deadline = time.monotonic() + _LATEST_SECONDS
        while self._landed() < self._expected:
            if time.monotonic() > deadline:
                raise RuntimeError(f"Flink did not write {self._expected} rows: {self._flink.log_tail()}")
            time.sleep(_READ_SECONDS)
            self._checkpoint()
            committed = time.monotonic() + _COMMIT_SECONDS
            while self._landed() < self._expected and time.monotonic() < committed:
                time.sleep(_POLL_SECONDS)

    def _checkpoint(self) -> None:
        """Returns when it is complete."""
        address = f"http://127.0.0.1:{self._flink.port}/v1/jobs/{self._job}/checkpoints"
        with httpx.Client(trust_env=False) as client:
            answer = client.post(address, json={"checkpointType": "FULL"}).raise_for_status()
            watched = f"{address}/{answer.json()['request-id']}"
            while client.get(watched).raise_for_status().json()["status"]["id"] != "COMPLETED":
                time.sleep(_POLL_SECONDS)

    def _landed(self) -> int:
        """Rows that were added; a delete is committed with the row behind it in its partition."""
        return sum(
            int(snapshot["summary"].get("added-records", 0))
            for snapshot in self.place.snapshots(self.table)
            if snapshot["snapshot-id"] not in self._known
        )

    def processes(self) -> Mapping[Process, str]:
        return {
            process: kind
            for pid, kind in zip(self._flink.pids, _FLINK_KINDS, strict=True)
            for process in tree(pid)
        }

    def close(self) -> None:
        self._flink.close()


SIDES: dict[str, type[Side]] = {side.name: side for side in (Ours2, Ours3, Merge2, Merge3, FlinkUpsert)}
OURS, MERGES = ("frazil2", "frazil3"), ("merge2", "merge3")
