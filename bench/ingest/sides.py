"""Those that are compared. Each is started, warmed, measured and stopped in turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from bench.driver_process import DriverProcess, serve
from bench.ingest import drivers
from bench.ingest.drivers import Addresses
from bench.ingest.encodings import Name
from bench.ingest.messages import SCHEMA
from bench.ingest.place import NAMESPACE, Place
from bench.meter import spark_processes
from bench.processes import Process, tree
from frazil.devstack.flink import Flink

_FLINK_TYPES = {"long": "BIGINT", "string": "STRING", "double": "DOUBLE", "int": "INT"}
_FLINK_KINDS = ("jobmanager", "taskmanager", "gateway")


class Side(ABC):
    """One way to land a topic in a table."""

    name: ClassVar[str]
    label: ClassVar[str]
    #: Of the messages that it reads.
    encoding: ClassVar[Name] = "json"

    def __init__(self, place: Place) -> None:
        self.place = place

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def ingest(self, topic: str, table: str) -> None:
        """Land everything that is in the topic now."""

    @abstractmethod
    def processes(self) -> Mapping[Process, str]:
        """Its processes, each with its kind."""

    @abstractmethod
    def close(self) -> None: ...


class SparkSide(Side):
    """A PySpark driver in a process of its own, so that its tree is the side."""

    driver: ClassVar[str]

    def start(self) -> None:
        place = self.place
        registry = place.registry.url if place.registry is not None else None
        addresses = Addresses(place.kafka.bootstrap_servers, place.server.catalog_uri, registry)
        self._process = DriverProcess(serve, drivers.start, self.driver, addresses)

    def ingest(self, topic: str, table: str) -> None:
        self._process.call((topic, table))

    def processes(self) -> Mapping[Process, str]:
        return spark_processes(self._process.pid)

    def close(self) -> None:
        self._process.close()


class Fused(SparkSide):
    name = driver = "fused"
    label = "frazil, fused"


class FusedAvro(SparkSide):
    name = driver = encoding = "avro"
    label = "frazil, fused, Avro"


class FusedProtobuf(SparkSide):
    name = driver = encoding = "protobuf"
    label = "frazil, fused, Protobuf"


class SparkPath(SparkSide):
    name = driver = "sparkpath"
    label = "frazil, SQL transform"


class PlainSpark(SparkSide):
    name = driver = "spark"
    label = "Spark toTable"


class FlinkSide(Side):
    """Flink SQL with Iceberg's v2 sink."""

    name = "flink"
    label = "Flink Iceberg sink"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._flink = Flink()

    def start(self) -> None:
        self._flink.start()
        for setting in (
            # The default sink was seen to lose rows at the end of a bounded input.
            "'table.exec.iceberg.use-v2-sink'='true'",
            "'execution.checkpointing.interval'='10 s'",
        ):
            self._flink.execute(f"SET {setting}")
        self._flink.execute(
            # Without its cache: the same table is dropped and made again for each repetition.
            "CREATE CATALOG ice WITH ('type'='iceberg','catalog-type'='rest','cache-enabled'='false',"
            f"'uri'='{self.place.server.catalog_uri}')"
        )

    def ingest(self, topic: str, table: str) -> None:
        source = f"source_{table}"
        columns = ", ".join(f"`{name}` {_FLINK_TYPES.get(kind, 'BIGINT')}" for name, kind in SCHEMA.items())
        self._flink.execute(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS default_catalog.default_database.{source} ({columns}) "
            f"WITH ('connector'='kafka','topic'='{topic}','format'='json',"
            f"'properties.bootstrap.servers'='{self.place.kafka.bootstrap_servers}',"
            "'scan.startup.mode'='earliest-offset','scan.bounded.mode'='latest-offset')"
        )
        selected = ", ".join("TO_TIMESTAMP_LTZ(`ts`, 3)" if name == "ts" else f"`{name}`" for name in SCHEMA)
        self._flink.run(
            f"INSERT INTO ice.{NAMESPACE}.{table} "
            f"SELECT {selected} FROM default_catalog.default_database.{source}"
        )

    def processes(self) -> Mapping[Process, str]:
        return {
            process: kind
            for pid, kind in zip(self._flink.pids, _FLINK_KINDS, strict=True)
            for process in tree(pid)
        }

    def close(self) -> None:
        self._flink.close()


SIDES: dict[str, type[Side]] = {
    side.name: side for side in (Fused, FusedAvro, FusedProtobuf, PlainSpark, SparkPath, FlinkSide)
}
