"""One round as one Spark job, by the fused path or through Spark; both end in the same reports."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from frazil.core.errors import FrazilError, RoundFailed, ServiceError
from frazil.core.schema import Schema
from frazil.lake.files import DataFile
from frazil.stream.config.model import AvroFormat, FileSource, Format, ParquetFormat, PipelineConfig
from frazil.stream.decoding import Reading
from frazil.stream.frames import apply_transform, failure_in, source_frame, written
from frazil.stream.needs import Lacking, Needs
from frazil.stream.outlets import Writing
from frazil.stream.source import Reader, Slice
from frazil.stream.tasks import SliceReport, TaskReport, ingest, watermark

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.stream.outlets import Keys

_LINES = 3


@dataclass(frozen=True)
class JobResult:
    """What the tasks of a round did together."""

    slices: tuple[SliceReport, ...]
    #: By table.
    files: Mapping[str, tuple[DataFile, ...]]

    @property
    def read(self) -> int:
        return sum(report.records for report in self.slices)

    @property
    def bad(self) -> int:
        """Records that became no row."""
        return sum(report.bad for report in self.slices)

    def watermark(self, before: int | None) -> int | None:
        """The event time up to which the table is after the round."""
        return watermark(self.slices, before)


class Jobs:
    """Runs the rounds of one pipeline on Spark."""

    def __init__(self, spark: SparkSession, config: PipelineConfig) -> None:
        self._spark = spark
        self._config = config
        self._reading: tuple[Reading, Broadcast[Reading]] | None = None

    @property
    def parallelism(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    def run(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        reader: Reader,
        schema: Schema,
        keys: Broadcast[Keys],
        writing: Writing,
    ) -> JobResult:
        """Read, decode and write; `schema` has the columns of values, which a contract may let grow.

        The error that a task met is raised as what it was. Lacking: the sink must adapt first.
        """
        reading = self.sent(reader, schema)
        try:
            if self._config.transform is None:
                reports = self._fused(tasks, reading, keys, writing)
            else:
                reports = self._through_spark(tasks, reading, keys, writing)
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None
        raise_failures(reports)
        files: dict[str, tuple[DataFile, ...]] = defaultdict(tuple)
        for report in reports:
            for table, written_files in report.files.items():
                files[table] += written_files
        return JobResult(tuple(found for report in reports for found in report.slices), files)

    def _fused(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        reading: Broadcast[Reading],
        keys: Broadcast[Keys],
        writing: Writing,
    ) -> list[TaskReport]:
        # An RDD, not mapInArrow: no plan to make and no rows to exchange, so a round costs less.
        numbered = self._spark.sparkContext.parallelize(list(enumerate(tasks)), len(tasks))
        work = functools.partial(ingest, reading=reading, keys=keys, writing=writing)
        return numbered.mapPartitions(work).collect()

    def _through_spark(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        reading: Broadcast[Reading],
        keys: Broadcast[Keys],
        writing: Writing,
    ) -> list[TaskReport]:
        assert self._config.transform is not None, "without a transform the fused path is taken"
        source = source_frame(self._spark, tasks, reading, keys, writing)
        reports = written(apply_transform(self._config.transform, source.frame), keys, writing)
        taken = source.taken()
        seen = {tuple(found.slice for found in report.slices) for report in taken}
        unread = tuple(task for task in tasks if task not in seen)
        # Spark leaves out what gives no rows (a LIMIT, a join with an empty table), and with it bad records.
        # The file of a dataset is there already, and has no place for them.
        if unread and not writing.single:
            rest = source_frame(self._spark, unread, reading, keys, writing)
            rest.frame.write.format("noop").mode("overwrite").save()
            taken += rest.taken()
        return [*taken, *reports]

    def sent(self, reader: Reader, schema: Schema) -> Broadcast[Reading]:
        """Once for many rounds: the reader of most sources and the schema seldom change."""
        config = self._config
        wanted = Reading(
            reader,
            decoded_format(config),
            schema,
            config.metadata,
            config.contract,
            config.event_time,
            config.dead_letters is not None,
            config.limits.bytes_per_record,
        )
        if self._reading is None or self._reading[0] != wanted:
            self._reading = wanted, self._spark.sparkContext.broadcast(wanted)
        return self._reading[1]


def decoded_format(config: PipelineConfig) -> Format:
    """What a decoder gets to see: of files of Avro, rows."""
    if isinstance(config.source, FileSource) and isinstance(config.format, AvroFormat):
        return ParquetFormat()
    return config.format


def rows_schema(spark: SparkSession, config: PipelineConfig) -> Schema:
    """The columns that land in the table."""
    if config.transform is None:
        return config.source_schema
    from frazil.lake.schemas import schema_of
    from frazil.stream.frames import empty_frame, require_query

    if config.transform.sql is not None:
        require_query(spark, config.transform.sql)
    return schema_of(apply_transform(config.transform, empty_frame(spark, config.source_schema)))


def raise_failures(reports: Iterable[TaskReport]) -> None:
    """An error first: what is lacking may be for nothing then."""
    failures = [report.failure for report in reports if report.failure is not None]
    needs = Needs()
    for failure in failures:
        if not failure.needs:
            raise failure.error()
        needs |= failure.needs
    if needs:
        raise Lacking(needs)


def translated(error: Exception) -> FrazilError | Lacking:
    """What a task raised, out of what Spark and its bridge made of it."""
    if isinstance(error, Py4JNetworkError):
        return ServiceError("Spark's JVM ended while a round was running. Nothing was lost: run it again")
    text = str(error)
    found = failure_in(text)
    if found is not None:
        return found
    lines = [line for line in text.splitlines() if line.strip()]
    return RoundFailed(f"Spark could not finish the round: {' | '.join(lines[:_LINES])[:1000]}")
