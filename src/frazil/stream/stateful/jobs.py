"""One batch of a stateful query as the job of a round: its rows, and the bad records beside them."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from frazil.core.errors import FrazilError
from frazil.core.schema import Schema
from frazil.lake.files import DataFile
from frazil.stream.dead_letters import DECODE
from frazil.stream.decoding import Reading, decoded
from frazil.stream.frames import written
from frazil.stream.jobs import JobResult, raise_failures, translated
from frazil.stream.needs import Lacking
from frazil.stream.outlets import Outlet, Writing
from frazil.stream.rounds import cut
from frazil.stream.source import Reader, Slice
from frazil.stream.tasks import Failure, SliceReport, TaskReport, open_outlet

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame

    from frazil.stream.frames import Reports
    from frazil.stream.outlets import Keys

#: Tasks number their files; those of dead letters begin here.
_LETTERS = 50_000


@dataclass(frozen=True)
class BatchJob:
    """Runs what Spark gives for one batch."""

    frame: DataFrame
    #: What the batch takes from the source.
    slices: tuple[Slice, ...]
    reading: Broadcast[Reading]
    #: Filled by the tasks that read. When the batch is run again, Spark may have their rows still, and they
    #: do not run: what they told is kept until the batch has ended.
    reports: Accumulator[Reports]
    parallelism: int = 1

    def run(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        reader: Reader,
        schema: Schema,
        keys: Broadcast[Keys],
        writing: Writing,
    ) -> JobResult:
        """Write the rows; if there were bad records, read their range again and set them aside.

        Only what the stamp will cover is set aside, so that each is once, also where the batch is run again
        or two readers of the source are not at the same place.
        """
        try:
            made = [*written(self.frame, keys, writing)]
            taken = [report for task in self.reports.value.values() for report in task.slices]
            letters = self._letters(keys, writing) if any(report.bad for report in taken) else []
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None
        raise_failures([*made, *letters])
        files: dict[str, tuple[DataFile, ...]] = defaultdict(tuple)
        for task in (*made, *letters):
            for table, several in task.files.items():
                files[table] += several
        bad = sum(report.bad for task in letters for report in task.slices)
        # Two readers of the source count twice.
        read = min(sum(report.records for report in taken), sum(map(len, self.slices)))
        whole = Slice("", 0, 0, 0)
        return JobResult((SliceReport(whole, read, bad),), files)

    def replay(self) -> None:
        """Rebuild state and watermark of a batch whose rows are in the table; nothing is written."""
        try:
            self.frame.write.format("noop").mode("overwrite").save()
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None

    def _letters(self, keys: Broadcast[Keys], writing: Writing) -> list[TaskReport]:
        tasks = cut(self.slices, self.parallelism)
        context = self.frame.sparkSession.sparkContext
        numbered = context.parallelize(list(enumerate(tasks, _LETTERS)), max(1, len(tasks)))
        work = functools.partial(_set_aside, reading=self.reading, keys=keys, writing=writing)
        return numbered.mapPartitions(work).collect()


def _set_aside(
    tasks: Iterator[tuple[int, tuple[Slice, ...]]],
    reading: Broadcast[Reading],
    keys: Broadcast[Keys],
    writing: Writing,
) -> Iterator[TaskReport]:
    for number, slices in tasks:
        outlet = open_outlet(number, keys, writing)
        try:
            yield _letters_of(slices, reading.value, outlet)
        except (FrazilError, Lacking) as error:
            yield TaskReport(failure=Failure.of(error))


def _letters_of(slices: tuple[Slice, ...], reading: Reading, outlet: Outlet) -> TaskReport:
    bad = 0
    try:
        for rows in decoded(reading, slices):
            if rows.bad:
                bad += len(rows.bad)
                outlet.set_aside(rows.raw, rows.bad, DECODE)
        return TaskReport((SliceReport(slices[0], 0, bad),), outlet.close())
    except BaseException:
        outlet.abort()
        raise
