"""A REST catalog as Spark's JVM sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
_LOCAL_FILES = {
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
        wanted = {**_SETTINGS, **client.iceberg_properties(), **(settings or {})}
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
            properties = jvm.java.util.HashMap()
            for key, value in wanted.items():
                properties.put(key, value)
            self._properties = properties
            self._catalog = self._connected(_LOCAL_FILES)
            self._for_jobs: Any = None

    def load(self, namespace: tuple[str, ...], name: str) -> LakeTable:
        """The table as it is now; NoSuchTable."""
        with java_errors(f"loading the table {show(namespace, name)}"):
            loaded = self._catalog.loadTable(self._identifier(namespace, name))
            return LakeTable(self, namespace, name, loaded)

    def load_for_jobs(self, namespace: tuple[str, ...], name: str) -> LakeTable:
        """The same for Iceberg's own Spark jobs, to which the table is sent with its keys."""
        with java_errors(f"loading the table {show(namespace, name)}"):
            self._for_jobs = self._for_jobs or self._connected({})
            return LakeTable(
                self, namespace, name, self._for_jobs.loadTable(self._identifier(namespace, name))
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
            builder = self._catalog.buildTable(self._identifier(namespace, name), columns)
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
            name = self._identifier(table.namespace, table.name)
            commits.add(self.iceberg.catalog.TableCommit.create(name, start, updated))
        self._catalog.commitTransaction(commits)

    def texts(self, values: Iterable[str]) -> Any:
        """A Java list of them, in one call."""
        return self.json.readValue(msgspec.json.encode(list(values)).decode(), self._list_class)

    def close(self) -> None:
        """Close the JVM's connections."""
        with java_errors("closing the catalog"):
            self._catalog.close()
            if self._for_jobs is not None:
                self._for_jobs.close()

    def __repr__(self) -> str:
        return f"Lake({self.client!r})"

    def _connected(self, hadoop: Mapping[str, str]) -> Any:
        context = self.spark.sparkContext
        settings = self._gateway.jvm.org.apache.hadoop.conf.Configuration(
            context._jsc.hadoopConfiguration()  # noqa: SLF001
        )
        for key, value in hadoop.items():
            settings.set(key, value)
        return self.iceberg.CatalogUtil.buildIcebergCatalog("frazil", self._properties, settings)

    def _identifier(self, namespace: tuple[str, ...], name: str) -> Any:
        levels = self._gateway.new_array(self._gateway.jvm.java.lang.String, len(namespace))
        for number, level in enumerate(namespace):
            levels[number] = level
        return self.iceberg.catalog.TableIdentifier.of(self.iceberg.catalog.Namespace.of(levels), name)


def _text(document: object) -> str:
    return msgspec.json.encode(document).decode()
