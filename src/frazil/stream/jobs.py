"""One round as one Spark job, by the fused path or through Spark; both end in the same reports."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from frazil.core.errors import FrazilError, RoundFailed, ServiceError
from frazil.core.schema import Schema
from frazil.lake.files import DataFile
from frazil.stream.config.model import PipelineConfig
from frazil.stream.frames import apply_transform, failure_in, source_frame, written
from frazil.stream.source import Slice
from frazil.stream.tasks import Reading, SliceReport, Writing, ingest

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.client import VendedCredentials

_LINES = 3


@dataclass(frozen=True)
class JobResult:
    """What the tasks of a round did together."""

    slices: tuple[SliceReport, ...]
    files: tuple[DataFile, ...]

    @property
    def read(self) -> int:
        return sum(report.records for report in self.slices)

    @property
    def written(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def watermark(self, before: int | None) -> int | None:
        """The event time that every partition of the round has reached; it never goes back."""
        newest: dict[tuple[str, int], int] = {}
        for report in self.slices:
            if report.newest is not None:
                key = (report.slice.topic, report.slice.partition)
                newest[key] = max(report.newest, newest.get(key, report.newest))
        reached = [*newest.values()]
        if not reached:
            return before
        return min(reached) if before is None else max(before, min(reached))


class Jobs:
    """Runs the rounds of one pipeline on Spark."""

    def __init__(self, spark: SparkSession, config: PipelineConfig) -> None:
        self._spark = spark
        self._config = config
        reading = Reading(config.source.settings, config.schema, config.format, config.event_time)
        self._reading: Broadcast[Reading] = spark.sparkContext.broadcast(reading)

    @property
    def parallelism(self) -> int:
        return self._spark.sparkContext.defaultParallelism

    def run(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        keys: Broadcast[VendedCredentials] | None,
        writing: Writing,
    ) -> JobResult:
        """Read, decode and write; the error that a task met, as what it was."""
        try:
            if self._config.transform is None:
                return self._fused(tasks, keys, writing)
            return self._through_spark(tasks, keys, writing)
        except (Py4JError, PySparkException) as error:
            raise _translated(error) from None

    def _fused(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        keys: Broadcast[VendedCredentials] | None,
        writing: Writing,
    ) -> JobResult:
        # An RDD, not mapInArrow: no plan to make and no rows to exchange, so a round costs less.
        numbered = self._spark.sparkContext.parallelize(list(enumerate(tasks)), len(tasks))
        work = functools.partial(ingest, reading=self._reading, keys=keys, writing=writing)
        reports = numbered.mapPartitions(work).collect()
        for report in reports:
            if report.failure is not None:
                raise report.failure.error()
        return JobResult(
            tuple(found for report in reports for found in report.slices),
            _files(report.files for report in reports),
        )

    def _through_spark(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        keys: Broadcast[VendedCredentials] | None,
        writing: Writing,
    ) -> JobResult:
        assert self._config.transform is not None, "without a transform the fused path is taken"
        source = source_frame(self._spark, tasks, self._reading)
        reports = written(apply_transform(self._config.transform, source.frame), keys, writing)
        return JobResult(source.taken(), _files(report.files for report in reports))


def rows_schema(spark: SparkSession, config: PipelineConfig) -> Schema:
    """The columns that land in the table."""
    if config.transform is None:
        return config.schema
    from frazil.lake.schemas import schema_of
    from frazil.stream.frames import empty_frame, require_query

    if config.transform.sql is not None:
        require_query(spark, config.transform.sql)
    return schema_of(apply_transform(config.transform, empty_frame(spark, config.schema)))


def _files(parts: Iterable[tuple[DataFile, ...]]) -> tuple[DataFile, ...]:
    return tuple(file for part in parts for file in part)


def _translated(error: Exception) -> FrazilError:
    if isinstance(error, Py4JNetworkError):
        return ServiceError("Spark's JVM ended while a round was running. Nothing was lost: run it again")
    text = str(error)
    found = failure_in(text)
    if found is not None:
        return found
    lines = [line for line in text.splitlines() if line.strip()]
    return RoundFailed(f"Spark could not finish the round: {' | '.join(lines[:_LINES])[:1000]}")
