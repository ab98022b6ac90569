"""The source as a stream of Spark: a Python data source plans slices, and tasks fetch and decode them.

What crosses from one to the other is a row for each task that names its slices. So the reader and its secrets
reach tasks by broadcast, as in every round, and the data source never meets a record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from frazil.core.errors import FrazilError, InvalidConfig
from frazil.core.stamp import Stamp
from frazil.stream.bootstrap.feed import HistoryFeed
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import KafkaSource, Limits, PipelineConfig, SensorSource
from frazil.stream.decoding import Reading, decoded
from frazil.stream.frames import TaskFailed
from frazil.stream.kafka.feed import KafkaFeed
from frazil.stream.needs import Lacking
from frazil.stream.rounds import cut
from frazil.stream.sensors.feed import SensorFeed
from frazil.stream.source import Feed, Goal, Slice
from frazil.stream.spark_types import to_spark
from frazil.stream.stateful.checkpoint import Offset
from frazil.stream.tasks import SliceCounter, TaskReport

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from frazil.stream.frames import Reports

_COLUMN = "slices"


@dataclass(frozen=True)
class Planning:
    """How batches are cut. Lives in a process of Spark's beside the driver."""

    #: Made there; holds the source's settings, which may be secrets: never an option, which plans show.
    feed: Callable[[], Feed] = field(repr=False)
    begin: Offset
    #: The newest that was planned; the pipeline's stamp in everything else.
    at: Stamp
    limits: Limits
    parallelism: int
    #: Seconds between batches, when there is nothing left from the one before.
    freshness: float
    #: Of a bounded run.
    goal: Goal | None = None


def stream_feed(
    config: PipelineConfig, history: HistoryTable | None = None, cuts: Sequence[int] | None = None
) -> Feed:
    """The source, where it is a log that can be read again at any place.

    `history`: of a source that begins with one, where more than planning is asked for; `cuts`: where batches
    of it may end.
    """
    source = config.source
    if isinstance(source, KafkaSource):
        log = KafkaFeed(source, config.metadata)
        return log if source.history is None else HistoryFeed(log, history, cuts, reruns=True)
    if isinstance(source, SensorSource) and not source.live:
        return SensorFeed(source)
    raise InvalidConfig(
        f"pipeline '{config.name}': a stateful transform reads Kafka topics, or sensors that are not live; "
        "leave `stateful` out, or bring the records into a topic first"
    )


class SliceReader(DataSourceStreamReader):
    """Plans batches. Spark asks for the end of what is there; it is told where the next batch ends."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._at = planning.at
        self._due = 0.0
        self._feed: Feed | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._planning.begin.encode()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if time.monotonic() >= self._due:
            try:
                self._advance()
            except FrazilError as error:
                raise TaskFailed(error) from None
        return Offset.of(self._at).encode()

    def _advance(self) -> None:
        planning = self._planning
        if self._feed is None:
            self._feed = planning.feed()
        plan = self._feed.plan(self._at, planning.limits, planning.parallelism)
        if not plan.tasks or (planning.goal is not None and planning.goal(self._at, plan)):
            return
        self._at = msgspec.structs.replace(self._at, positions=plan.positions)
        if planning.goal is None and not plan.lag:
            self._due = time.monotonic() + planning.freshness

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planning = self._planning
        slices = between(Offset.decode(start), Offset.decode(end))
        count = -(-sum(map(len, slices)) // planning.limits.records_per_task)
        tasks = cut(slices, max(1, min(planning.parallelism, count)))
        return [InputPartition(msgspec.json.encode(task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        yield (partition.value,)


def between(start: Offset, end: Offset) -> list[Slice]:
    """What lies from one place in the source to another."""
    found = []
    for topic, position in sorted(end.positions.items()):
        known = start.positions[topic].next if topic in start.positions else ()
        for partition, until in enumerate(position.next):
            begin = known[partition] if partition < len(known) else 0
            if until > begin:
                found.append(Slice(topic, partition, begin, until))
    return found


def slice_source(name: str, planning: Planning) -> type[DataSource]:
    """A data source of this name. Made inside a function, it is sent with all that it holds."""

    class SliceSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def schema(self) -> str:
            return f"{_COLUMN} binary"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return SliceReader(planning)

    return SliceSource


def stream_frame(
    spark: SparkSession, name: str, reading: Broadcast[Reading], reports: Accumulator[Reports]
) -> DataFrame:
    """The decoded records as a streaming DataFrame; reading a batch of it fills `reports`."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                slices = msgspec.json.decode(text, type=tuple[Slice, ...])
                yield from _read(slices, reading.value, reports)

    slices = spark.readStream.format(name).load()
    return slices.mapInArrow(read, reading.value.columns.to_spark_ddl())


def probe_frame(spark: SparkSession, ddl: str) -> DataFrame:
    """Streaming, with the right columns, and never run: to ask a transform what it makes of them."""
    return spark.readStream.format("rate").load().mapInArrow(_nothing, ddl)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from ()


def _read(
    slices: tuple[Slice, ...], reading: Reading, reports: Accumulator[Reports]
) -> Iterator[pa.RecordBatch]:
    """Bad records are counted here; they are written when the batch is."""
    counter = SliceCounter(slices, None)
    try:
        for rows in decoded(reading, slices):
            counter.add(rows, len(rows.bad))
            yield to_spark(rows.batch, reading.columns)
    except (FrazilError, Lacking) as error:
        raise TaskFailed(error) from None
    reports.add({slices: TaskReport(counter.reports())})
