"""The Spark jobs of a round: all lanes in one."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from frazil.core.errors import FrazilError
from frazil.lake.keyed import Looked, LookupWork, look_up
from frazil.stream.cdc.feed import packed_tasks
from frazil.stream.cdc.lane import LaneTurn
from frazil.stream.cdc.result import LaneResult
from frazil.stream.cdc.tasks import Job, fetched, folded
from frazil.stream.jobs import translated
from frazil.stream.source import Reader
from frazil.stream.tasks import Failure

if TYPE_CHECKING:
    from pyspark import Broadcast, SparkContext

    from frazil.stream.outlets import Keys


class ChangeJobs:
    """Runs the rounds of one pipeline."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context

    @property
    def parallelism(self) -> int:
        return self._context.defaultParallelism

    def apply(self, reader: Reader, turns: Sequence[LaneTurn], keys: Keys) -> Mapping[str, LaneResult]:
        """Fetch, fold and write what the turns read; by topic."""
        slices = [part for turn in turns for task in turn.plan.tasks for part in task]
        tasks = packed_tasks(slices, self.parallelism)
        buckets = min(self.parallelism, sum(turn.work.buckets for turn in turns))
        first, lanes = 0, {}
        for turn in turns:
            lanes[turn.work.name] = replace(turn.work, first=first % buckets)
            first += turn.work.buckets
        job = self._context.broadcast(Job(reader, lanes, keys, buckets))
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

    def look_up(self, works: Sequence[LookupWork], keys: Keys) -> list[Looked]:
        """Find the rows that go, for all tables at once; in the order of `works`."""
        if not works:
            return []
        sent: Broadcast[Any] = self._context.broadcast((works, keys))
        try:
            numbers = self._context.parallelize(range(len(works)), min(len(works), 4 * self.parallelism))
            found = dict(numbers.mapPartitions(functools.partial(_looked_up, sent=sent)).collect())
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None
        finally:
            sent.destroy()
        for each in found.values():
            if isinstance(each, Failure):
                raise each.error()
        return [found[number] for number in range(len(works))]


def _bucket(number: int) -> int:
    return number


def _looked_up(numbers: Iterator[int], sent: Broadcast[Any]) -> Iterator[tuple[int, Looked | Failure]]:
    works, keys = sent.value
    for number in numbers:
        try:
            yield number, look_up(works[number], keys)
        except FrazilError as error:
            yield number, Failure.of(error)
