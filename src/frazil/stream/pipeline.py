"""One pipeline at work: claim the table, then round after round until told to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.core.errors import BadRecord, FrazilError, HistoryChanged, Outcome, RoundFailed
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.lake.session import use_catalog
from frazil.stream.bootstrap.feed import HistoryFeed
from frazil.stream.columns import with_columns
from frazil.stream.events import (
    CaughtUp,
    Claimed,
    RoundCommitted,
    RoundStarted,
)
from frazil.stream.feeds import feed_of, ledger_of
from frazil.stream.jobs import JobResult, Jobs, rows_schema
from frazil.stream.loops import ADAPTATIONS, Loop
from frazil.stream.needs import Lacking
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.dataset import DatasetSink
from frazil.stream.sinks.iceberg import IcebergSink
from frazil.stream.sinks.sink import Sink, Turn
from frazil.stream.source import Feed, Goal

if TYPE_CHECKING:
    from pyspark import Broadcast

    from frazil.core.schema import Schema
    from frazil.core.stamp import Stamp
    from frazil.stream.outlets import Keys, Writing
    from frazil.stream.source import Reader, Slice

_logger = logging.getLogger(__name__)


class Runs(Protocol):
    """Runs what a round reads and writes, as `Jobs` does."""

    @property
    def parallelism(self) -> int: ...

    def run(
        self,
        tasks: tuple[tuple[Slice, ...], ...],
        reader: Reader,
        schema: Schema,
        keys: Broadcast[Keys],
        writing: Writing,
    ) -> JobResult: ...


@dataclass(frozen=True)
class Work:
    """What rounds are made with."""

    feed: Feed
    sink: Sink
    jobs: Runs


class PipelineLoop(Loop):
    """Runs a pipeline whose records become rows."""

    _goal: Goal | None = None
    #: Rounds whose files may still be there.
    _failed: Sequence[Turn] = ()

    def _run(self) -> None:
        opened = self._retrying(self._open)
        if opened is None:
            return
        work = opened
        while not self._stopping.is_set():
            started = time.monotonic()
            plan = self._retrying(lambda: self._round(work))
            if plan is None:
                return
            # Before the end as well: many a pipeline is run for a moment again and again.
            work.sink.rest()
            self._let_go()
            if self._goal is not None and self._goal(work.sink.stamp, plan):
                return
            if plan.lag:
                continue
            if not plan.tasks:
                self._observer.notify(CaughtUp(self.name))
            self._stopping.wait(max(0.0, started + self._config.freshness - time.monotonic()))

    def _open(self) -> Work:
        """Everything that a round needs; the claim comes last, so that a wrong setting changes nothing."""
        lake = self._connect()
        feed = feed_of(self._config, lake)
        self._config = config = with_columns(self._config, feed, lake)
        if config.transform is not None:
            use_catalog(self._spark, self._catalog_name, lake.client)
        rows = rows_schema(self._spark, config)
        if self._once and self._goal is None:
            self._goal = feed.goal()
        sink: DatasetSink | IcebergSink
        if config.dataset is not None:
            sink = DatasetSink(config, self._spark, lake.client, rows)
        else:
            sink = IcebergSink(config, self._spark, lake, rows, ledger_of(config))
        jobs = Jobs(self._spark, config)
        before = sink.before()
        if before is not None:
            _require_no_state(before)
            feed.plan(before, config.limits, jobs.parallelism)
        sink.claim(feed.first, self._patience)
        if isinstance(feed, HistoryFeed):
            feed.settle(sink.stamp.positions)
        table = show(*config.home)
        self._observer.notify(Claimed(self.name, table, sink.stamp.epoch, sink.created, before is None))
        return Work(feed, sink, jobs)

    def _round(self, work: Work) -> RoundPlan:
        """Plan, run, commit. With a bad record in it: what is before that record, then its error."""
        parallelism = min(work.jobs.parallelism, work.sink.most_tasks or work.jobs.parallelism)
        plan = work.feed.plan(work.sink.stamp, self._limits(work.sink.keys_end()), parallelism)
        bad: BadRecord | None = None
        while plan.tasks:
            try:
                self._adapted(work, plan)
                break
            except BadRecord as error:
                # Of a file, say: there is no place in it where the next round could go on.
                if error.position is None or error.position[0] not in plan.positions:
                    raise
                bad, plan = bad or error, plan.before(*error.position)
        if bad is not None:
            raise bad
        return plan

    def _adapted(self, work: Work, plan: RoundPlan) -> None:
        """Run the round until the tables have all that its rows need."""
        for _ in range(ADAPTATIONS):
            try:
                return self._land(work, plan)
            except Lacking as error:
                work.sink.adapt(error.needs)
        raise RoundFailed(
            f"pipeline '{self.name}': a round met new columns or tables {ADAPTATIONS} times in a row"
        )

    def _land(self, work: Work, plan: RoundPlan) -> None:
        """A round that fails leaves nothing behind."""
        started = time.monotonic()
        reach("round.planned")
        sink = work.sink
        turn = sink.begin(plan)
        self._observer.notify(RoundStarted(self.name, turn.round, plan.offsets, plan.lag, len(plan.tasks)))
        try:
            reader = work.feed.reader(sink.stamp)
            result = work.jobs.run(plan.tasks, reader, sink.schema, turn.keys, turn.writing)
            work.feed.confirm(sink.stamp, plan)
            reach("round.job-done")
            self._require_rate(result.read, result.bad, self._config.dead_letters)
            worked = time.monotonic()
            self._measure(plan.offsets, started)
            self._commit(work, turn, plan, result, started, worked)
        except (FrazilError, Lacking) as error:
            # While nobody knows whether a commit landed, its files may be the table's; if it did (and an
            # observer failed), they are.
            unknown = isinstance(error, FrazilError) and error.outcome is Outcome.UNKNOWN
            if not unknown and turn.token != sink.stamp.token:
                self._failed = [*self._failed, turn]
                self._discard(sink)
            raise
        # Once more: when a job fails, Spark lets its other tasks run to their end.
        self._failed = self._discard(sink)

    def _discard(self, sink: Sink) -> list[Turn]:
        """Remove the files of failed rounds; returns those whose turn comes again."""
        left = []
        for turn in self._failed:
            try:
                sink.discard(turn)
            except FrazilError as error:
                _logger.warning("pipeline %s: files of a failed round stay: %s", self.name, error.message)
                left.append(turn)
        return left

    def _commit(
        self, work: Work, turn: Turn, plan: RoundPlan, result: JobResult, started: float, worked: float
    ) -> None:
        landed = work.sink.commit(turn, plan, result, work.feed.ledger(plan))
        work.feed.landed(plan)
        ended = time.monotonic()
        self._observer.notify(
            RoundCommitted(
                pipeline=self.name,
                round=turn.round,
                snapshot_id=landed.snapshot_id,
                read=result.read,
                written=landed.written,
                bad=result.bad,
                files=landed.files,
                bytes=landed.bytes,
                seconds=ended - started,
                job_seconds=worked - started,
                commit_seconds=ended - worked,
                lag=plan.lag,
                total_read=landed.stamp.read,
                total_written=landed.stamp.written,
                lags=plan.lags,
            )
        )


def _require_no_state(before: Stamp) -> None:
    """What waits in the state of a query is behind the positions of its stamp."""
    if before.query is not None:
        raise HistoryChanged(
            f"pipeline {before.pipeline} kept state until now, and is started without `stateful`: records "
            "that wait in its state, in open windows say, would never land, so nothing was written. Give it "
            f"its `stateful` back, or say where to go on: `frazil reset pipelines.yaml {before.pipeline}` "
            "with --to-stamp leaves those records out, with --to-time or --to-offsets it reads them again"
        )
