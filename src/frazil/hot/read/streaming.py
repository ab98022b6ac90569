"""`frazil.read_stream`: a hot table as a streaming DataFrame, history first and then its log.

A Python data source of Spark. Its offsets, which Spark keeps in the query's checkpoint, are a place in the
rows of one snapshot and offsets of the log. There is no other state: the row that a change replaces is looked
up again for each batch, in a snapshot that is no younger than the batch and in the log between the two. So a
batch that is run again gives the same rows, whatever was tiered meanwhile. Only who changes rows in Iceberg
by something else than the log changes what those lookups find.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from frazil.core.errors import Unsupported
from frazil.core.schema import Schema
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.spark import require_types
from frazil.hot.read.stream_plan import Following, Part, Planner, StreamOffset, stream_columns
from frazil.hot.table import hot_table, table_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_numbers = itertools.count(1)
#: Spark asks again and again while nothing comes: after so long it is worth a look.
_LOOK_SECONDS = 0.2


def read_stream(
    spark: SparkSession,
    name: str,
    *,
    records_per_batch: int = 1_000_000,
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
) -> DataFrame:
    """A hot table as a stream: the rows that are in Iceberg when the query first starts, then its log.

    The columns are those of the table now, and `_change_type`: INSERT, and of a keyed table UPDATE_BEFORE and
    UPDATE_AFTER, one behind the other, and DELETE. A query goes on from its checkpoint. `catalog` and `kafka`
    as for `frazil.read`; a batch has at most `records_per_batch` rows of history or records of the log.

    >>> changes = read_stream(spark, "shop.orders")  # doctest: +SKIP
    >>> changes.writeStream.option("checkpointLocation", "/state").toTable("audit.orders")  # doctest: +SKIP
    """
    with connected(catalog, spark) as client:
        namespace, table = table_name(name)
        metadata = client.tables.load(namespace, table).metadata
        if hot_table(namespace, table, metadata) is None:
            raise Unsupported(f"{name} is no hot table, it has no log: see `frazil changes` for its changes")
        following = Following(
            name,
            client.iceberg_properties(),
            dict(kafka or {}),
            int(metadata["current-schema-id"]),
            records_per_batch,
            spark.sparkContext.defaultParallelism,
        )
        schema = _schema(metadata, following.schema_id, name)
    require_types(schema, "frazil.hot.read.stream.follow")
    columns = stream_columns(schema)
    source = _source(f"frazil-stream-{next(_numbers)}", following, columns.to_spark_ddl())
    spark.dataSource.register(source)
    return spark.readStream.format(source.name()).load()


def _source(name: str, following: Following, ddl: str) -> type[DataSource]:
    """Made inside a function, it is sent with all that it holds."""

    class HotStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return ddl

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return HotStreamReader(following)

    return HotStream


class HotStreamReader(DataSourceStreamReader):
    """Plans batches beside the driver, and reads them in tasks."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._at = StreamOffset()
        self._planner: Planner | None = None
        #: When nothing was found.
        self._idle = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_planner": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return StreamOffset().encode()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the next batch ends, not where the log does: batches are bounded.

        Every answer is of a look: if it is the last one again, Spark takes it that all was processed.
        """
        time.sleep(max(0.0, self._idle + _LOOK_SECONDS - time.monotonic()))
        following = self._plans.after(self._at)
        if following == self._at:
            self._idle = time.monotonic()
        self._at = following
        return self._at.encode()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Spark also calls it when it goes on from a checkpoint, with the last place alone."""
        until = StreamOffset.decode(end)
        if not self._at.uuid:
            self._at = until
        return [InputPartition(part) for part in self._plans.parts(StreamOffset.decode(start), until)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        part: Part = partition.value
        return part.read()

    def commit(self, end: dict[str, Any]) -> None:
        """The checkpoint knows all there is to know."""

    @property
    def _plans(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._following)
        return self._planner


def _schema(metadata: Mapping[str, Any], schema_id: int, table: str) -> Schema:
    found = next(each for each in metadata["schemas"] if each["schema-id"] == schema_id)
    return Schema.from_json(found, table)
