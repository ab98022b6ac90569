"""A REST catalog as Spark's JVM sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from frazil.client import Client
from frazil.core.errors import AlreadyExists, Unsupported
from frazil.core.names import show
from frazil.core.partitioning import PartitionField, bind
from frazil.core.schema import Schema
from frazil.lake.java import java_errors
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "type": "rest",
    "header.X-Iceberg-Access-Delegation": "vended-credentials",
    # Reports would be sent for what is staged, before it is known to land.
    "rest-metrics-reporting-enabled": "false",
    # The least there is: whoever waits for a commit wants to say so, and to be stopped.
    "rest.client.max-retries": "1",
    "rest.client.connection-timeout-ms": "10000",
    "rest.client.socket-timeout-ms": "60000",
}
_TRANSACTIONS = "POST /v1/{prefix}/transactions/commit"
#: For metadata on the local disk: no checksum files, each of which would cost a process (chmod) more.
#: Iceberg's readers and writers in Spark do not get on with it.
LOCAL_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # Else it would be the one that Spark has open already.
    "fs.file.impl.disable.cache": "true",
}


class Lake:
    """Tables of the client's warehouse.

    The JVM's catalog is made from the client's address and proof of identity, not from Spark's settings: the
    Spark UI, event logs and plans show those.
    """

    def __init__(
        self, spark: SparkSession, client: Client, *, settings: Mapping[str, str] | None = None
    ) -> None:
        self.spark = spark
        self.client = client
        context = spark.sparkContext
        jvm: Any = context._jvm  # noqa: SLF001
        self._gateway: Any = context._gateway  # noqa: SLF001
        self._wanted = {**_SETTINGS, **client.iceberg_properties(), **(settings or {})}
        with java_errors(f"connecting Spark to the catalog at {client.uri}"):
            self.iceberg = iceberg = jvm.org.apache.iceberg
            # Each step of such a path is a call: the ones of every commit are taken once.
            self.json = iceberg.util.JsonUtil.mapper()
            self.schemas, self.specs = iceberg.SchemaParser, iceberg.PartitionSpecParser
            self.files = iceberg.ContentFileParser
            self._lists = jvm.java.util.ArrayList
            self._list_class = jvm.java.lang.Class.forName("java.util.ArrayList")
            #: As a filter.
            self.every_row = iceberg.expressions.Expressions.alwaysTrue()
            self._catalog = self.connect(self._wanted, LOCAL_FILES)

    @cached_property
    def _for_jobs(self) -> Any:
        return self.connect(self._wanted, {})

    def load(self, namespace: tuple[str, ...], name: str) -> LakeTable:
        """The table as it is now; NoSuchTable."""
        with java_errors(f"loading the table {show(namespace, name)}"):
            loaded = self._catalog.loadTable(self.identifier(namespace, name))
            return LakeTable(self, namespace, name, loaded)

    def load_for_jobs(self, namespace: tuple[str, ...], name: str) -> LakeTable:
        """The same for Iceberg's own Spark jobs, to which the table is sent with its keys."""
        with java_errors(f"loading the table {show(namespace, name)}"):
            return LakeTable(
                self, namespace, name, self._for_jobs.loadTable(self.identifier(namespace, name))
            )

    def create(
        self,
        namespace: tuple[str, ...],
        name: str,
        schema: Schema,
        partitioning: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        format_version: int = 2,
        key: Sequence[str] = (),
    ) -> LakeTable:
        """Make a table, and its namespace if there is none; AlreadyExists.

        `key`: required columns that tell its rows apart (Iceberg's identifier fields).
        """
        numbered = schema.with_fresh_ids()
        identifiers = {"identifier-field-ids": [numbered.field(name).id for name in key]}
        spec = bind(partitioning, numbered)
        with suppress(AlreadyExists):
            if not self.client.namespaces.exists(namespace):
                self.client.namespaces.create(namespace, parents=True)
        with java_errors(f"creating the table {show(namespace, name)}"):
            columns = self.schemas.fromJson(_text(numbered.to_json() | identifiers))
            layout = self.specs.fromJson(columns, _text(spec.to_json()))
            builder = self._catalog.buildTable(self.identifier(namespace, name), columns)
            builder = builder.withPartitionSpec(layout)
            for key, value in {**(properties or {}), "format-version": str(format_version)}.items():
                builder = builder.withProperty(key, value)
            return LakeTable(self, namespace, name, builder.create())

    def require_transactions(self) -> None:
        """Unsupported, if the catalog cannot commit to several tables at once."""
        offered = self.client.catalog.config().endpoints
        # A catalog that lists none is taken to have what the first version of the REST protocol had.
        if offered and _TRANSACTIONS not in offered:
            raise Unsupported(
                f"the catalog at {self.client.uri} cannot commit to several tables at once (it does not "
                f"offer `{_TRANSACTIONS}`): let the pipeline write one table only, without dead letters and "
                "routes, or use a catalog that can"
            )

    def commit_together(self, changes: Sequence[tuple[LakeTable, Any, Any]]) -> None:
        """One request: each table from its first metadata to its second, all or none."""
        commits = self._lists()
        for table, start, updated in changes:
            name = self.identifier(table.namespace, table.name)
            commits.add(self.iceberg.catalog.TableCommit.create(name, start, updated))
        self._catalog.commitTransaction(commits)

    def texts(self, values: Iterable[str]) -> Any:
        """A Java list of them, in one call."""
        return self.json.readValue(msgspec.json.encode(list(values)).decode(), self._list_class)

    def close(self) -> None:
        """Close the JVM's connections."""
        with java_errors("closing the catalog"):
            self._catalog.close()
            if "_for_jobs" in self.__dict__:
                self._for_jobs.close()

    def __repr__(self) -> str:
        return f"Lake({self.client!r})"

    def connect(self, properties: Mapping[str, str], hadoop: Mapping[str, str]) -> Any:
        """Another of Java's catalogs, with settings of Iceberg's and of Hadoop's."""
        context = self.spark.sparkContext
        wanted = self._gateway.jvm.java.util.HashMap()
        for key, value in properties.items():
            wanted.put(key, value)
        settings = self._gateway.jvm.org.apache.hadoop.conf.Configuration(
            context._jsc.hadoopConfiguration()  # noqa: SLF001
        )
        for key, value in hadoop.items():
            settings.set(key, value)
        return self.iceberg.CatalogUtil.buildIcebergCatalog("frazil", wanted, settings)

    def identifier(self, namespace: tuple[str, ...], name: str) -> Any:
        """Java's name of a table."""
        levels = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(namespace))
        for number, level in enumerate(namespace):
            levels[number] = level
        return self.iceberg.catalog.TableIdentifier.of(self.iceberg.catalog.Namespace.of(levels), name)


def _text(document: object) -> str:
    return msgspec.json.encode(document).decode()
