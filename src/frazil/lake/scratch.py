"""Iceberg tables on the local disk of the driver that live as long as a frame of them does."""

from __future__ import annotations

import math
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from frazil.client import Client
from frazil.lake.catalog import LOCAL_FILES, Lake
from frazil.lake.own_folder import own_folder
from frazil.lake.storage import is_local

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMESPACE = "union"
#: Of a catalog that renews keys, whatever the store; with others, access to a store is used for so long.
_RENEWS = "refresh-credentials-endpoint"
_KEPT_SECONDS = 600.0
_LOCAL = b""
#: For so long files stay that no frame has any more.
LEFT_SECONDS = 900.0


@dataclass(frozen=True)
class Catalogs:
    """Iceberg's own of the directory, for those who write here and for Spark's jobs."""

    lake: Lake
    here: Any
    for_jobs: Any
    #: By the monotonic clock.
    until: float = math.inf

    def load(self, place: Path, *, for_jobs: bool = False) -> Any:
        """The Java table."""
        catalog = self.for_jobs if for_jobs else self.here
        return catalog.loadTable(self.lake.identifier((_NAMESPACE,), place.name))


class Scratch:
    """A directory for such tables, one for each context of Spark."""

    _all: ClassVar[dict[Any, Scratch]] = {}

    def __init__(self, lake: Lake) -> None:
        #: For Java's classes: no table of its catalog is asked for.
        self.lake = lake
        self._root = own_folder("frazil-union-")
        (self._root / _NAMESPACE).mkdir()
        self._lock = threading.Lock()
        #: With Java's weak references to the tables; and since when nobody has them, by the monotonic clock.
        self._used: dict[Path, Any] = {}
        self._left: dict[Path, float] = {}
        self._catalogs: dict[bytes, Catalogs] = {}
        # Each step of such a path is a call.
        jvm: Any = lake.spark.sparkContext._jvm  # noqa: SLF001
        self._none = jvm.scala.Option.empty()
        self._references = jvm.java.lang.ref.WeakReference
        self._tables = lake.iceberg.spark.source.SparkTable
        sql = jvm.org.apache.spark.sql
        self._relations = sql.execution.datasources.v2.DataSourceV2Relation
        self._datasets = sql.classic.Dataset

    @classmethod
    def of(cls, spark: SparkSession, client: Client) -> Self:
        context = spark.sparkContext
        if context not in cls._all:
            # What one that was stopped had is of no use to anybody.
            cls._all.clear()
            cls._all[context] = cls(Lake(spark, client))
        found = cls._all[context]
        assert isinstance(found, cls), "there are no others"
        return found

    def new(self) -> Path:
        """A directory for one table."""
        made = self._root / _NAMESPACE / f"t{uuid.uuid4().hex}"
        made.mkdir()
        return made

    def catalogs(
        self, client: Client, namespace: tuple[str, ...], name: str, metadata: Mapping[str, Any]
    ) -> Catalogs:
        """For tables that are built on this one, whose files they read with the same keys as others do."""
        key = _LOCAL
        if not is_local(str(metadata["location"])):
            key = msgspec.json.encode([metadata["table-uuid"], client.iceberg_properties()], order="sorted")
        found = self._catalogs.get(key)
        if found is not None and time.monotonic() < found.until:
            return found
        given: dict[str, str] = {}
        until = math.inf
        if key != _LOCAL:
            lake = Lake(self.lake.spark, client)
            given = dict(lake.load_for_jobs(namespace, name).java.io().properties())
            given["io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
            lake.close()
            if not any(name.endswith(_RENEWS) for name in given):
                until = time.monotonic() + _KEPT_SECONDS
        given |= {"type": "hadoop", "warehouse": self._root.as_uri()}
        here, for_jobs = (self.lake.connect(given, hadoop) for hadoop in (LOCAL_FILES, {}))
        self._catalogs[key] = made = Catalogs(self.lake, here, for_jobs, until)
        return made

    def frame(self, spark: SparkSession, catalogs: Catalogs, place: Path) -> DataFrame:
        """The table as it is now."""
        from pyspark.sql.classic.dataframe import DataFrame

        session: Any = spark
        table = self._tables(catalogs.load(place, for_jobs=True))
        plan = self._relations.create(table, self._none, self._none)
        with self._lock:
            self._used[place] = self._references(table)
        return DataFrame(self._datasets.ofRows(session._jsparkSession, plan), session)  # noqa: SLF001

    def sweep(self) -> None:
        """Remove what no frame has had for a while, as far as Java's collector knows.

        Not at once: a job that runs, an RDD or an iterator may outlive the frame that it was made from.
        """
        with self._lock:
            for place in [place for place, table in self._used.items() if table.get() is None]:
                del self._used[place]
                self._left[place] = time.monotonic()
            gone = [place for place, since in self._left.items() if time.monotonic() >= since + LEFT_SECONDS]
            for place in gone:
                del self._left[place]
        for place in gone:
            shutil.rmtree(place, ignore_errors=True)
