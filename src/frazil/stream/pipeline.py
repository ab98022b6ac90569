"""One pipeline at work: claim the table, then round after round until told to stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from frazil.client import Client, Renewing
from frazil.core.errors import (
    AlreadyExists,
    BadRecord,
    FrazilError,
    InvalidConfig,
    NoSuchTable,
    Outcome,
    RoundFailed,
)
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.core.stamp import Position
from frazil.lake.authority import find_stamp
from frazil.lake.catalog import Lake
from frazil.lake.credentials import TaskKeys
from frazil.lake.delivery import Patience
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.session import use_catalog
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter, RoundTicket
from frazil.stream.config.model import Limits, PipelineConfig
from frazil.stream.events import (
    CaughtUp,
    Claimed,
    Observer,
    RoundCommitted,
    RoundRetried,
    RoundStarted,
    Stopped,
)
from frazil.stream.fit import problems
from frazil.stream.jobs import JobResult, Jobs, rows_schema
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.rounds import RoundPlan, confirm, plan_round, reached
from frazil.stream.tasks import Writing

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.client import VendedCredentials

T = TypeVar("T")
_logger = logging.getLogger(__name__)

#: A failed round is tried again after 1, 2, 4 … seconds, at most this many.
_LONGEST_WAIT = 30.0
#: What fails so often in a row will not mend itself.
_FAILED_ROUNDS = 5
#: A bounded run does not wait for ever for something that is down.
_ONCE_ATTEMPTS = 6
#: Keys in the hands of a task last at least this long, or half of their life.
_KEY_MARGIN = 600.0


class PipelineLoop:
    """Runs one pipeline in the thread that calls `run`."""

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        connect: Callable[[], Lake],
        catalog_name: str,
        observer: Observer,
        *,
        once: bool,
    ) -> None:
        self.name = config.name
        self.error: FrazilError | None = None
        self._config = config
        self._spark = spark.newSession()
        self._connect = connect
        self._catalog_name = catalog_name
        self._observer = observer
        self._once = once
        self._stopping = threading.Event()
        self._patience = Patience(waiting=self._waiting)
        self._log = KafkaLog(config.source)
        self._target: dict[str, tuple[int, ...]] | None = None
        #: The columns that land in the table.
        self._rows: Schema | None = None
        self._rate = 0.0
        self._failed: list[RoundTicket] = []

    def stop(self) -> None:
        """Finish the round in hand, then end."""
        self._stopping.set()

    def abort(self) -> None:
        """End also where a round waits for a catalog that does not answer."""
        self.stop()
        self._patience.stop.set()

    def run(self) -> None:
        """Until stopped, caught up (`once`), or an error that needs somebody; that is kept in `error`."""
        try:
            self._run()
        except FrazilError as error:
            self.error = error
        except Exception as error:
            # A bug must not end as a thread that is silently gone.
            _logger.exception("pipeline %s", self.name)
            self.error = FrazilError(
                f"pipeline '{self.name}' met an unexpected {type(error).__name__}: {error}"
            )
        self._observer.notify(Stopped(self.name, self.error.message if self.error else None))

    def _run(self) -> None:
        opened = self._retrying(self._open)
        if opened is None:
            return
        writer, jobs, keys = opened
        while not self._stopping.is_set():
            started = time.monotonic()
            plan = self._retrying(lambda: self._round(writer, jobs, keys))
            if plan is None or (self._target is not None and reached(self._target, writer.stamp, plan)):
                return
            if plan.lag:
                continue
            if not plan.tasks:
                self._observer.notify(CaughtUp(self.name))
            self._stopping.wait(max(0.0, started + self._config.freshness - time.monotonic()))

    def _open(self) -> tuple[PipelineWriter, Jobs, TaskKeys | None]:
        """Everything that a round needs; the claim comes last, so that a wrong setting changes nothing."""
        config, lake = self._config, self._connect()
        if config.transform is not None:
            use_catalog(self._spark, self._catalog_name, lake.client)
        rows = rows_schema(self._spark, config)
        if self._once and self._target is None:
            self._target = self._log.ends(self._log.topics())
        where = (config.table.namespace, config.table.name)
        try:
            table, created = lake.load(*where), False
        except NoSuchTable:
            table, created = self._created(lake, rows)
        self._rows = rows
        self._require_fit(table)
        keys, jobs = self._keys(lake.client, table), Jobs(self._spark, config)
        before = find_stamp(table, self.name)
        if before is not None:
            plan_round(before, self._log, config.limits, jobs.parallelism)
        writer = PipelineWriter.claim(lake, table, self.name, self._first, config.hash, self._patience)
        self._observer.notify(Claimed(self.name, show(*where), writer.stamp.epoch, created, before is None))
        self._sweep(writer)
        return writer, jobs, keys

    def _require_fit(self, table: LakeTable) -> None:
        assert self._rows is not None, "the columns of the rows are known before the table is"
        if wrong := problems(self._rows, table.schema):
            raise InvalidConfig(
                f"pipeline '{self.name}' does not fit the table {table}: {'; '.join(wrong)}. Change "
                "the pipeline's schema or the table's"
            )

    def _sweep(self, writer: PipelineWriter) -> None:
        """Files of writers that died are removed; if the store refuses just now, by the next claim."""
        try:
            swept = remove_leftovers(writer)
        except FrazilError as error:
            _logger.warning("pipeline %s: files of older writers stay: %s", self.name, error.message)
            return
        if swept.removed:
            _logger.info("pipeline %s: removed %d files of older writers", self.name, len(swept.removed))

    def _created(self, lake: Lake, rows: Schema) -> tuple[LakeTable, bool]:
        table = self._config.table
        try:
            return (
                lake.create(
                    table.namespace,
                    table.name,
                    rows,
                    table.partitioning,
                    table.properties,
                    table.format_version,
                ),
                True,
            )
        except AlreadyExists:
            # Another pipeline of the same table was faster.
            return lake.load(table.namespace, table.name), False

    def _first(self) -> tuple[str, dict[str, Position]]:
        return self._log.identity(), self._log.start(self._config.source.start)

    def _keys(self, client: Client, table: LakeTable) -> TaskKeys | None:
        place, where = table.data_location, (table.namespace, table.name)
        if place.startswith(("file:", "/")):
            return None
        # By place: a table with `write.data.path` has keys for several.
        keys = Renewing(lambda: client.tables.credentials(*where, location=place), margin=_KEY_MARGIN)
        return TaskKeys(self._spark, keys)

    def _round(self, writer: PipelineWriter, jobs: Jobs, keys: TaskKeys | None) -> RoundPlan:
        """Plan, run, commit. With a bad record in it: what is before that record, then its error."""
        sent = keys.broadcast() if keys is not None else None
        plan = plan_round(writer.stamp, self._log, self._limits(sent), jobs.parallelism)
        bad: BadRecord | None = None
        while plan.tasks:
            try:
                self._land(writer, jobs, plan, sent)
                break
            except BadRecord as error:
                if error.position is None:
                    raise
                bad, plan = bad or error, plan.before(*error.position)
        if bad is not None:
            raise bad
        return plan

    def _land(
        self,
        writer: PipelineWriter,
        jobs: Jobs,
        plan: RoundPlan,
        sent: Broadcast[VendedCredentials] | None,
    ) -> None:
        """A round that fails leaves nothing behind."""
        started = time.monotonic()
        reach("round.planned")
        ticket = writer.begin()
        # Somebody may have renamed or dropped a column: its values would be left out without a word.
        self._require_fit(writer.table)
        self._observer.notify(RoundStarted(self.name, ticket.round, plan.offsets, plan.lag, len(plan.tasks)))
        try:
            target = writer.table.write_target(self._config.table.files)
            result = jobs.run(plan.tasks, sent, Writing(target, ticket.prefix))
            confirm(writer.stamp, self._log, plan.positions)
            reach("round.job-done")
            worked = time.monotonic()
            self._rate = plan.offsets / max(worked - started, 0.001)
            self._commit(writer, ticket, plan, result, started, worked)
        except FrazilError as error:
            # While nobody knows whether a commit landed, its files may be the table's; if it did (and an
            # observer failed), they are.
            if error.outcome is not Outcome.UNKNOWN and ticket.token != writer.stamp.token:
                self._failed.append(ticket)
                self._discard(writer)
            raise
        # Once more: when a job fails, Spark lets its other tasks run to their end.
        self._failed = self._discard(writer)

    def _discard(self, writer: PipelineWriter) -> list[RoundTicket]:
        """Remove the files of failed rounds; returns those whose turn comes again."""
        left = []
        for ticket in self._failed:
            try:
                writer.discard(ticket)
            except FrazilError as error:
                _logger.warning("pipeline %s: files of a failed round stay: %s", self.name, error.message)
                left.append(ticket)
        return left

    def _commit(
        self,
        writer: PipelineWriter,
        ticket: RoundTicket,
        plan: RoundPlan,
        result: JobResult,
        started: float,
        worked: float,
    ) -> None:
        stamp = writer.commit(
            ticket,
            {str(writer.table): result.files},
            positions=plan.positions,
            read=result.read,
            written=result.written,
            watermark=result.watermark(writer.stamp.watermark),
        )
        ended = time.monotonic()
        self._observer.notify(
            RoundCommitted(
                pipeline=self.name,
                round=ticket.round,
                snapshot_id=writer.snapshot_id,
                read=result.read,
                written=result.written,
                files=len(result.files),
                bytes=result.bytes,
                seconds=ended - started,
                job_seconds=worked - started,
                commit_seconds=ended - worked,
                lag=plan.lag,
                total_read=stamp.read,
                total_written=stamp.written,
                lags=plan.lags,
            )
        )

    def _limits(self, keys: Broadcast[VendedCredentials] | None) -> Limits:
        """As configured, but no more than the tasks can do before their keys end."""
        limits = self._config.limits
        ends = keys.value.expires_at if keys is not None else None
        if ends is None or not self._rate:
            return limits
        seconds = max(ends.timestamp() - time.time(), 1.0) / 2
        return replace(
            limits, records_per_round=max(1, min(limits.records_per_round, int(self._rate * seconds)))
        )

    def _retrying(self, work: Callable[[], T]) -> T | None:
        """The result, after as many attempts as it makes sense to make; None when told to stop meanwhile."""
        attempt = 0
        while True:
            try:
                return work()
            except FrazilError as error:
                attempt += 1
                if error.outcome is not Outcome.RETRY or self._given_up(error, attempt):
                    raise
                wait = min(2.0 ** (attempt - 1), _LONGEST_WAIT)
                self._observer.notify(RoundRetried(self.name, error.message, attempt, wait))
            if self._stopping.wait(wait):
                return None

    def _waiting(self, reason: str) -> None:
        """The catalog does not answer; the writer asks again until it does."""
        self._observer.notify(RoundRetried(self.name, reason, 1, self._patience.longest_wait))

    def _given_up(self, error: FrazilError, attempt: int) -> bool:
        if isinstance(error, RoundFailed):
            return attempt >= _FAILED_ROUNDS
        return self._once and attempt >= _ONCE_ATTEMPTS
