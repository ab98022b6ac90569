"""The Spark jobs of a round: all lanes in one."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from frazil.core.errors import FrazilError
from frazil.lake.lookup import Found, Lookup, LookupTask, look_up
from frazil.lake.storage import FileStorage
from frazil.stream.cdc.feed import packed_tasks
from frazil.stream.cdc.lane import LaneTurn
from frazil.stream.cdc.result import LaneResult
from frazil.stream.cdc.tasks import fetched, folded
from frazil.stream.cdc.work import Job
from frazil.stream.jobs import translated
from frazil.stream.source import Reader
from frazil.stream.tasks import Failure
from frazil.stream.worker_costs import settle

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

    from frazil.client import VendedCredentials
    from frazil.stream.outlets import Keys


#: Fewer than this are not worth a task of their own.
_CHANGES_PER_TASK = 50_000


class ChangeJobs:
    """Runs the rounds of one pipeline."""

    def __init__(self, context: SparkContext, largest: int) -> None:
        """`largest`: bytes of a change above which it is bad."""
        self._context = context
        self._largest = largest

    @property
    def parallelism(self) -> int:
        return self._context.defaultParallelism

    def apply(self, reader: Reader, turns: Sequence[LaneTurn], keys: Keys) -> Mapping[str, LaneResult]:
        """Fetch, fold and write what the turns read; by topic."""
        slices = [part for turn in turns for task in turn.plan.tasks for part in task]
        width = max(1, min(self.parallelism, sum(map(len, slices)) // _CHANGES_PER_TASK))
        tasks = packed_tasks(slices, width)
        # What one task reads, it also folds: there is nothing to exchange.
        buckets = 1 if width == 1 else min(self.parallelism, sum(turn.work.buckets for turn in turns))
        first, lanes = 0, {}
        for turn in turns:
            lanes[turn.work.name] = replace(turn.work, first=first % buckets)
            first += turn.work.buckets
        job = self._context.broadcast(Job(reader, lanes, keys, buckets, self._largest))
        try:
            numbered = self._context.parallelize(list(enumerate(tasks)), len(tasks))
            handed = numbered.mapPartitions(functools.partial(fetched, job=job))
            if len(tasks) > 1 or buckets > 1:
                handed = handed.partitionBy(buckets, _bucket)
            reports = handed.mapPartitions(functools.partial(folded, job=job)).collect()
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None
        finally:
            job.destroy()
        results: dict[str, LaneResult] = defaultdict(LaneResult)
        for report in reports:
            results[report.lane].add(report)
        return results

    def look_up(
        self, lookup: Lookup, tasks: Sequence[LookupTask], credentials: VendedCredentials | None
    ) -> list[Found]:
        """Find the rows of one table that go; `credentials` are those of its place."""
        sent = self._context.broadcast((lookup, credentials))
        try:
            spread = self._context.parallelize(tasks, len(tasks))
            found = spread.mapPartitions(functools.partial(_looked_up, sent=sent)).collect()
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None
        finally:
            sent.destroy()
        for each in found:
            if isinstance(each, Failure):
                raise each.error()
        return [each for each in found if isinstance(each, Found)]


def _bucket(number: int) -> int:
    return number


def _looked_up(
    tasks: Iterator[LookupTask], sent: Broadcast[tuple[Lookup, VendedCredentials | None]]
) -> Iterator[Found | Failure]:
    settle()
    lookup, credentials = sent.value
    for task in tasks:
        try:
            yield look_up(task, lookup, FileStorage.of(lookup.target.location, credentials))
        except FrazilError as error:
            yield Failure.of(error)
