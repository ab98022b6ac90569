"""One stateful pipeline at work: Structured Streaming runs the batches, each lands as a round.

The batch is planned in the checkpoint, then it runs, then it is committed to the table with its number, then
the checkpoint notes its end. A batch that is run again although the table has it writes nothing.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from frazil.core.errors import BadRecord, FrazilError, InvalidConfig, Outcome
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.lake.schemas import schema_of
from frazil.lake.session import use_catalog
from frazil.stream.bootstrap.feed import HistoryFeed
from frazil.stream.bootstrap.place import pending
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.columns import with_columns
from frazil.stream.config.model import KafkaSource, PipelineConfig, StatefulConfig
from frazil.stream.decoding import Reading
from frazil.stream.events import CaughtUp, Claimed, RoundRetried
from frazil.stream.frames import apply_transform, merged_reports, require_query
from frazil.stream.jobs import Jobs, translated
from frazil.stream.pipeline import PipelineLoop, Work
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.iceberg import IcebergSink
from frazil.stream.sinks.sink import Batch
from frazil.stream.source import Feed
from frazil.stream.stateful.checkpoint import (
    Checkpoint,
    First,
    LoggedBatch,
    Offset,
    least,
    most,
    require_agreement,
)
from frazil.stream.stateful.jobs import BatchJob
from frazil.stream.stateful.plans import is_complete, keeps_state
from frazil.stream.stateful.source import (
    Planning,
    between,
    probe_frame,
    slice_source,
    stream_feed,
    stream_frame,
)

if TYPE_CHECKING:
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from frazil.core.stamp import Stamp
    from frazil.lake.catalog import Lake
    from frazil.stream.frames import Reports
    from frazil.stream.jobs import JobResult
    from frazil.stream.sinks.sink import Landed, Turn

_logger = logging.getLogger(__name__)
_STEP_SECONDS = 0.2
#: How often Spark asks for new records; batches come as often as `freshness` says.
_ASK_SECONDS = 0.5
_THOUSAND = 1000
#: The keys for the files of a history are sent when the query starts, and are good for twice as long.
_RENEW_SECONDS = 900.0


class StatefulSink(IcebergSink):
    """Its commits name the batch that they are of."""

    batch: Batch | None = None

    def commit(
        self, turn: Turn, plan: RoundPlan, result: JobResult, ledger: Any, batch: Batch | None = None
    ) -> Landed:
        return super().commit(turn, plan, result, ledger, batch or self.batch)


@dataclass(frozen=True)
class _Query:
    """What the batches of a query are run with."""

    feed: Feed
    sink: StatefulSink
    jobs: Jobs
    checkpoint: Checkpoint
    #: Whether the watermark says what is complete.
    complete: bool


class StatefulLoop(PipelineLoop):
    """Runs one stateful pipeline in the thread that calls `run`; batches come in a thread of Spark's."""

    _error: FrazilError | None = None
    _landed = 0
    _ending = False

    def _run(self) -> None:
        self._in_hand = threading.Lock()
        opened = self._retrying(self._opened)
        if opened is None:
            return
        work = opened
        again = True
        while again and not self._stopping.is_set():
            again = bool(self._retrying(lambda: self._query(work)))

    def _opened(self) -> _Query:
        try:
            return self._begin()
        except (Py4JError, PySparkException) as error:
            raise translated(error) from None

    def _begin(self) -> _Query:
        """As of every pipeline, the claim comes last: a wrong setting changes nothing."""
        lake = self._connect()
        feed = stream_feed(self._config, _history(self._config, lake))
        self._config = config = with_columns(self._config, feed, lake)
        assert config.transform is not None, "the configuration asks for it"
        use_catalog(self._spark, self._catalog_name, lake.client)
        if config.transform.sql is not None:
            require_query(self._spark, config.transform.sql)
        probe = self._transformed(probe_frame(self._spark, config.source_schema.to_spark_ddl()))
        if not keeps_state(probe):
            raise InvalidConfig(
                f"pipeline '{self.name}': the transform keeps no state (no window, deduplication or join of "
                "streams): leave `stateful` out"
            )
        if self._once and self._goal is None:
            self._goal = feed.goal()
        sink = StatefulSink(config, self._spark, lake, schema_of(probe))
        jobs = Jobs(self._spark, config)
        checkpoint = Checkpoint(self._spark, _settings(config).checkpoint)
        before = sink.before()
        if before is not None:
            require_agreement(checkpoint, before)
            feed.plan(before, config.limits, jobs.parallelism)
        sink.claim(feed.first, self._patience)
        if before is None:
            require_agreement(checkpoint, sink.stamp)
        table = show(*config.home)
        self._observer.notify(Claimed(self.name, table, sink.stamp.epoch, sink.created, before is None))
        work = _Query(feed, sink, jobs, checkpoint, is_complete(probe))
        self._settle(work)
        return work

    def _transformed(self, frame: DataFrame) -> DataFrame:
        config, settings = self._config, _settings(self._config)
        assert config.transform is not None, "the configuration asks for it"
        if settings.lateness is not None:
            assert config.event_time is not None, "the configuration asks for it"
            try:
                delay = f"{round(settings.lateness * _THOUSAND)} milliseconds"
                frame = frame.withWatermark(config.event_time, delay)
            except AnalysisException as error:
                raise InvalidConfig(f"event_time: {str(error).splitlines()[0]}") from None
        made = apply_transform(config.transform, frame)
        if not made.isStreaming:
            raise InvalidConfig(f"pipeline '{self.name}': the transform does not read the stream `source`")
        return made

    def _query(self, work: _Query) -> bool:
        """Run the query until it ends; whether it shall be started again."""
        landed, self._error, self._ending = self._landed, None, False
        try:
            query = self._started(work)
            try:
                again = self._watch(query, work)
            finally:
                self._end(query)
            self._raise(query)
            self._settle(work)
        except (Py4JError, PySparkException) as error:
            failure: FrazilError = translated(error)  # type: ignore[assignment] # batches meet what is lacking
        except FrazilError as error:
            failure = error
        else:
            return again
        if isinstance(failure, BadRecord):
            failure = _in_words(failure)
        if failure.outcome is not Outcome.RETRY or self._landed == landed:
            raise failure
        # It worked until now, so this is a first attempt.
        self._observer.notify(RoundRetried(self.name, failure.message, 1, 1.0))
        return not self._stopping.wait(1.0)

    def _started(self, work: _Query) -> StreamingQuery:
        config, stamp, checkpoint, feed = self._config, work.sink.stamp, work.checkpoint, work.feed
        cuts, reader = None, None
        if isinstance(feed, HistoryFeed):
            # The last batch may have to be run again, also where it was the last one of the history.
            reader, feed.cuts = feed.replaying(stamp), self._cuts(feed, stamp)
            cuts = feed.cuts
        if stamp.batch is None and checkpoint.newest() is None:
            checkpoint.begin(First(self.name, Offset.of(stamp)))
        first = checkpoint.first()
        assert first is not None, "written before the first batch"
        newest = checkpoint.newest()
        logged = None if newest is None else checkpoint.batch(newest)
        at = stamp if logged is None else most(logged.ends).stamp(stamp)
        planning = Planning(
            functools.partial(stream_feed, replace(config, transform=None), cuts=cuts),
            first.begin,
            at,
            config.limits,
            work.jobs.parallelism,
            config.freshness,
            self._goal,
        )
        name = f"frazil-{self.name}"
        self._spark.dataSource.register(slice_source(name, planning))
        reading = work.jobs.sent(reader or feed.reader(stamp), work.sink.schema)
        reports: Accumulator[Reports] = merged_reports(self._spark)
        made = self._transformed(stream_frame(self._spark, name, reading, reports))
        writer = made.writeStream.outputMode("append").queryName(self.name)
        writer = writer.option("checkpointLocation", checkpoint.location)
        writer = writer.trigger(
            processingTime=f"{min(_ASK_SECONDS, config.freshness) * _THOUSAND:.0f} milliseconds"
        )

        def batch(frame: DataFrame, number: int) -> None:
            self._batch(work, reading, reports, frame, number)

        return writer.foreachBatch(batch).start()

    def _cuts(self, feed: HistoryFeed, stamp: Stamp) -> Sequence[int] | None:
        """Where batches of the history may end, so that none makes rows of a later one late."""
        place = pending(stamp.positions)
        if place is None:
            return None
        return feed.table.files(place).cuts(_settings(self._config).lateness or 0.0)

    def _settle(self, work: _Query) -> None:
        """The history need not be kept once no batch of it can be run again."""
        feed, batch, ended = work.feed, work.sink.stamp.batch, work.checkpoint.committed()
        whole = batch is None or (ended is not None and ended >= batch)
        if isinstance(feed, HistoryFeed) and whole:
            feed.settle(work.sink.stamp.positions)

    def _watch(self, query: StreamingQuery, work: _Query) -> bool:
        """Until the query ends, or shall; whether it shall be started again."""
        begun = time.monotonic()
        waiting: threading.Thread | None = None
        if self._goal is not None:
            waiting = threading.Thread(target=_until_idle, args=(query,), daemon=True)
            waiting.start()
        landed, since = self._landed, time.monotonic()
        while query.isActive and (waiting is None or waiting.is_alive()):
            if self._stopping.wait(_STEP_SECONDS):
                return False
            if pending(work.sink.stamp.positions) is not None and time.monotonic() - begun >= _RENEW_SECONDS:
                return True
            if time.monotonic() - since >= self._config.freshness:
                if landed == self._landed and not self._in_hand.locked():
                    self._observer.notify(CaughtUp(self.name))
                landed, since = self._landed, time.monotonic()
        return False

    def _end(self, query: StreamingQuery) -> None:
        """The batch in hand is finished first; Spark is not kept waiting for one that comes meanwhile."""
        with self._in_hand:
            self._ending = True
        with suppress(Py4JError, PySparkException):
            query.stop()

    def _raise(self, query: StreamingQuery) -> None:
        if self._error is not None:
            raise self._error
        failed = None if self._stopping.is_set() else query.exception()
        if failed is not None:
            raise failed

    def _batch(
        self,
        work: _Query,
        reading: Broadcast[Reading],
        reports: Accumulator[Reports],
        frame: DataFrame,
        number: int,
    ) -> None:
        """Called by Spark for each batch."""
        with self._in_hand:
            if self._ending:
                raise InterruptedError("the pipeline ends")
            try:
                logged = work.checkpoint.batch(number)
                assert logged is not None, "Spark plans a batch before it runs"
                end = least(logged.ends)
                slices = tuple(between(Offset.of(work.sink.stamp), end))
                job = BatchJob(frame, slices, reading, reports, work.jobs.parallelism)
                self._take(work, job, logged, end, number)
            except FrazilError as error:
                self._error = error
                raise
            finally:
                # PySpark keeps every accumulator for ever.
                reports.value = {}
        reach("batch.taken")

    def _take(self, work: _Query, job: BatchJob, logged: LoggedBatch, end: Offset, number: int) -> None:
        stamp, query = work.sink.stamp, work.checkpoint.query()
        # That Spark runs this batch means that it has ended the one before.
        if isinstance(work.feed, HistoryFeed) and stamp.batch is not None and number > stamp.batch:
            work.feed.settle(stamp.positions)
        if stamp.query == query and stamp.batch is not None and number <= stamp.batch:
            job.replay()
            return
        watermark = logged.watermark_ms * _THOUSAND if work.complete and logged.watermark_ms else None
        work.sink.batch = Batch(query or "", number, watermark)
        lags = self._lags(work.feed, end, work)
        plan = RoundPlan((), dict(end.positions), sum(map(len, job.slices)), lags)
        self._adapted(Work(work.feed, work.sink, job), plan)
        self._landed += 1
        work.sink.rest()

    def _lags(self, feed: Feed, end: Offset, work: _Query) -> dict[str, tuple[int, ...]]:
        """What is left behind the batch, to be shown; who plans the next one meets what is wrong."""
        with suppress(FrazilError):
            plan = feed.plan(end.stamp(work.sink.stamp), replace(self._config.limits, records_per_round=1), 1)
            left = between(end, Offset(end.source, plan.positions))
            lags = {topic: list(several) for topic, several in plan.lags.items()}
            for part in left:
                lags[part.topic][part.partition] += len(part)
            return {topic: tuple(several) for topic, several in lags.items()}
        return {}


def _settings(config: PipelineConfig) -> StatefulConfig:
    assert config.stateful is not None, "this is for stateful pipelines"
    return config.stateful


def _history(config: PipelineConfig, lake: Lake) -> HistoryTable | None:
    source = config.source
    if not isinstance(source, KafkaSource) or source.history is None:
        return None
    return HistoryTable(lake, source.history, config)


def _until_idle(query: StreamingQuery) -> None:
    """Batches without records, which only move the watermark, included."""
    with suppress(Py4JError, PySparkException):
        query.processAllAvailable()


def _in_words(error: BadRecord) -> BadRecord:
    """The batch is planned and will be run again as it is: no reset can leave the record out."""
    said = error.message.partition(". Everything before it")[0]
    return BadRecord.at(
        error.position,
        f"{said}. Nothing of its batch was written, and the pipeline stops. Correct the schema, or let bad "
        "records go to a dead-letter table (`dead_letters`), and start it again",
    )
