"""The loop of tiering: rounds of those tables whose time has come, each with a commit of its own."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.core.errors import FrazilError, HistoryChanged, Superseded
from frazil.core.schema import Schema
from frazil.core.stamp import Stamp
from frazil.hot.find import Listing
from frazil.hot.rollback import rolled_back
from frazil.hot.table import TIERING, HotTable
from frazil.hot.tiering.care import Care
from frazil.hot.tiering.feed import HotFeed
from frazil.hot.tiering.history import TieringHistory
from frazil.hot.tiering.schedule import Bounds, Candidate, Costs, Measured, Round, choose, due_at
from frazil.hot.tiering.steward import Finder, Lookout
from frazil.hot.tiering.watch import Watch
from frazil.lake.delivery import Patience
from frazil.stream.cdc.feed import ChangeFeed
from frazil.stream.cdc.lane import Lane, LaneTurn
from frazil.stream.cdc.line import Done, Line
from frazil.stream.cdc.loop import ChangeLoop
from frazil.stream.cdc.neighbours import Neighbours
from frazil.stream.cdc.result import LaneResult
from frazil.stream.config.model import JsonFormat, KafkaSource, Limits, PipelineConfig, TableConfig
from frazil.stream.events import CaughtUp, TableStopped
from frazil.stream.loops import rested

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from frazil.client import Client
    from frazil.lake.catalog import Lake
    from frazil.stream.events import Observer

_logger = logging.getLogger(__name__)
#: The longest sleep: so late is met what changed.
_TICK_SECONDS = 0.25
#: A table that stopped is tried again after this time, then after twice that, and so on.
_FIRST_REST, _LONGEST_REST = 5.0, 300.0
#: Tries of a request that nobody answers, about 13 seconds.
_TRIES = 8


@dataclass(frozen=True)
class Service:
    """What all tables share."""

    kafka: Mapping[str, str] = field(repr=False)
    client: Callable[[], Client] = field(repr=False)
    #: The table that lags and breaches are written to; None: none is.
    history: tuple[tuple[str, ...], str] | None = None
    bounds: Bounds = field(default_factory=Bounds)

    @property
    def config(self) -> PipelineConfig:
        """For what a loop asks of a pipeline; each table has its own."""
        return PipelineConfig(
            TIERING, KafkaSource(dict(self.kafka)), JsonFormat(), Schema(()), TableConfig((), "")
        )


class TieringLoop(ChangeLoop):
    """Every enabled hot table of a cluster."""

    def __init__(
        self,
        service: Service,
        spark: SparkSession,
        connect: Callable[[], Lake],
        catalog_name: str,
        observer: Observer,
        *,
        once: bool,
    ) -> None:
        super().__init__(service.config, spark, connect, catalog_name, observer, once=once)
        # One table that the catalog does not answer for must not keep the others waiting for ever.
        self._patience = Patience(waiting=self._waiting, tries=_TRIES)
        self._service = service
        self._watch = Watch()
        self._costs = Costs()
        self._tables: dict[str, HotTable] = {}
        self._listing: Listing | None = None
        self._round = Round()
        self._measured = Measured(0.0, 0.0, 0, 0)
        self._superseded: Superseded | None = None
        #: Tables of a job that failed as a whole: each is tried alone.
        self._suspects: list[str] = []
        self._goals: dict[str, tuple[int, ...]] | None = None
        self._caught_up = False
        self._worked = False

    def _set_up(self) -> ChangeFeed:
        feed = super()._set_up()
        client = self._service.client()
        self._finder = Finder(client, self._service.kafka, self._watch)
        self._lookout = Lookout(self._service.kafka, self._watch, self._observer, self.name)
        self._care = Care(self._spark, self._lake)
        self._history = None
        if self._service.history is not None:
            self._history = TieringHistory(self._lake, *self._service.history, self._patience)
            self._history.check()
        return feed

    def _make_feed(self) -> HotFeed:
        self._logs = HotFeed(self._service.kafka)
        return self._logs

    def _take_rounds(self) -> None:
        self._finder.start()
        self._lookout.start()
        try:
            super()._take_rounds()
        finally:
            self._lookout.stop()
            self._finder.stop()
            self._write_history(last=True)

    def _take_round(self) -> Done:
        """A job that fails as a whole is the fault of one table: each of them is then tried alone."""
        self._round = Round()
        self._worked = False
        try:
            done = super()._take_round()
        except FrazilError as error:
            working = [name for name in self._round.tables if name in self._lines]
            if not self._worked or not working:
                raise
            if len(working) > 1:
                self._suspects = working
            else:
                self._guarded(self._lines[working[0]], functools.partial(_raise, error))
            return Done(again=True)
        if done.plans:
            self._caught_up = False
        return done

    def _find_lanes(self) -> None:
        listing = self._finder.newest
        if listing is not self._listing:
            self._adopt(listing)
            self._listing = listing
        for topic, line in list(self._lines.items()):
            if line.error is not None and line.rests_until <= time.monotonic() and not self._once:
                self._renew(topic, failures=line.failures)

    def _adopt(self, listing: Listing) -> None:
        """Tables that are new or are others now, that are gone, or of which something is new."""
        there = {table.topic: table for table in listing.tables if table.enabled}
        for topic in self._lines.keys() - there.keys():
            self._leave(topic)
        for topic in set(self._watch.topics()) - there.keys() - listing.problems.keys():
            self._watch.forget(topic)
        # The promise of one that cannot be told of any more stands.
        self._watch.unclear({topic: problem.message for topic, problem in listing.problems.items()})
        known, self._tables = self._tables, there
        self._logs.follow(there)
        for topic, table in there.items():
            before = known.get(topic)
            if topic not in self._lines or before is None or _self(before) != _self(table):
                self._watch.follow(table, anew=True)
                self._renew(topic)
                continue
            self._watch.follow(table)
            if self._lines[topic].error is not None and before != replace(
                table, properties=before.properties
            ):
                # Whoever changed it may have mended it.
                self._renew(topic)
        for name, problem in listing.problems.items():
            if name not in there and (self._listing is None or name not in self._listing.problems):
                self._observer.notify(TableStopped(self.name, name, problem.message))

    def _renew(self, topic: str, *, failures: int = 0) -> None:
        """Take the table over again, as a service does that was just started."""
        table = self._tables[topic]
        if topic in self._lines:
            self._forget_keys(self._lines[topic])
        first = functools.partial(self._feed.first, topic)
        # Who lists tables finds each once, with one topic.
        alone = Neighbours(())
        lane = Lane(table.pipeline(self._service.kafka), self._lake, self._keys, topic, first, alone)
        self._lines[topic] = Line(lane, failures=failures)

    def _leave(self, topic: str) -> None:
        self._forget_keys(self._lines.pop(topic))
        self._care.forget(topic)

    def _forget_keys(self, line: Line) -> None:
        """But for tables that others write to as well, as those of dead letters."""
        others = [one for one in self._lines.values() if one is not line]
        used = {str(table) for one in others for table in one.lane.tables}
        for table in line.lane.tables:
            if str(table) not in used:
                self._keys.drop(str(table))

    def _chosen(self) -> Sequence[Line]:
        if not self._once and not self._suspects and not self._due():
            return ()
        self._look()
        waiting, now = self._waiting_ones(), time.time()
        if self._suspects:
            first = self._suspects.pop(0)
            waiting = [one for one in waiting if one.name == first]
        elif self._once:
            # Nobody waits for a deadline.
            now = max((one.deadline for one in waiting), default=now)
        self._round = choose(waiting, self._costs, now, bounds=self._bounds())
        return self._claimed_ones([self._lines[name] for name in self._round.tables])

    def _look(self) -> None:
        """At all logs. A topic without a leader, or that is refused, is the trouble of its table alone."""
        first = self._once and self._goals is None
        view = self._logs.look(wait=first)
        self._watch.saw(view.ends, time.time())
        for topic, error in view.failed.items():
            line = self._lines[topic]
            if first:
                # It is not known what there is to do: the run cannot end as if that were done.
                self._give_up(line, error)
            elif line.ready:
                self._guarded(line, functools.partial(_raise, error))
                if line.error is error:
                    # The lookout tells of it while it lasts; a table without news would keep it for good.
                    self._watch.failing(topic, None)
        if first:
            self._goals = dict(view.ends)

    def _due(self) -> bool:
        """Whether a round has to begin, by what was last seen of the logs."""
        due = due_at(self._waiting_ones(), self._costs, bounds=self._bounds())
        return due is not None and due <= time.time()

    def _waiting_ones(self) -> list[Candidate]:
        ready = [topic for topic, line in self._lines.items() if line.ready]
        return self._watch.waiting(ready, [topic for topic in ready if self._lines[topic].opened])

    def _claimed_ones(self, lines: Sequence[Line]) -> list[Line]:
        """Those that are this writer's, after the new ones were taken over."""
        started, new = time.monotonic(), [line for line in lines if not line.opened]
        for line in new:
            self._guarded(line, functools.partial(self._open, line.lane))
            line.opened = line.lane.claimed
            if line.opened:
                topic, stamp = line.lane.topic, line.lane.stamp
                position = stamp.positions.get(topic)
                self._watch.claimed(topic, () if position is None else position.next, stamp.watermark)
        self._measured = Measured(0.0, 0.0, 0, 0, time.monotonic() - started, len(new))
        return [line for line in lines if line.opened and line.ready]

    def _turn(self, line: Line, limits: Limits) -> LaneTurn | None:
        """No more of it than its share: a backlog holds up nobody."""
        records = min(limits.records_per_round, self._round.records.get(line.lane.topic, 1))
        turn = super()._turn(line, replace(limits, records_per_round=max(1, records)))
        self._worked = self._worked or turn is not None
        return turn

    def _measure(self, records: int, started: float) -> None:
        super()._measure(records, started)
        self._measured = replace(self._measured, job=time.monotonic() - started, records=records)

    def _land(self, turns: Sequence[LaneTurn], results: Mapping[str, LaneResult], done: Done) -> None:
        started = time.monotonic()
        super()._land(turns, results, done)
        spent = time.monotonic() - started
        self._costs = self._costs.after(replace(self._measured, commits=spent, tables=len(turns)))
        for turn in turns:
            self._watch.served(turn.work.name, turn.plan.lag)

    def _commit(self, line: Line, turn: LaneTurn, result: LaneResult) -> bool:
        done = super()._commit(line, turn, result)
        topic = line.lane.topic
        self._watch.reached(topic, turn.plan.positions[topic].next, line.lane.stamp.watermark)
        self._watch.failing(topic, None)
        return done

    def _give_up(self, line: Line, error: FrazilError) -> None:
        """For now: it is tried again later, or when somebody changed the table."""
        if isinstance(error, Superseded):
            self._superseded = error
            self.stop()
        topic = line.lane.topic
        if isinstance(error, HistoryChanged):
            error = rolled_back(self._tables[topic], error)
        line.error, message = error, error.message
        line.rests_until = time.monotonic() + rested(line.failures, _FIRST_REST, _LONGEST_REST)
        self._watch.failing(topic, message)
        self._observer.notify(TableStopped(self.name, str(line.lane), message))

    def _take_care(self, lines: Sequence[Line]) -> None:
        for line in lines:
            self._care.committed(line.lane, self._tables.get(line.lane.topic))
        if lines:
            # Under load no round is idle. After one, deadlines are as far away as they get.
            self._care.work(self._left())
            self._write_history()

    def _idle(self) -> None:
        """There is time for what can wait."""
        left = self._left()
        self._care.work(left)
        if left > self._costs.commit * 3 + 1:
            self._write_history()
        if not self._watch.waiting(self._lines, self._lines) and not self._caught_up:
            self._caught_up = True
            self._observer.notify(CaughtUp(self.name))

    def _left(self) -> float:
        """Seconds until a round has to begin. Tables that rest have none to be in time for."""
        due = due_at(self._waiting_ones(), self._costs, bounds=self._bounds())
        return float("inf") if due is None else due - time.time()

    def _write_history(self, *, last: bool = False) -> None:
        if self._history is None:
            return
        try:
            if (table := self._history.write(self._watch.report(), last=last)) is not None:
                self._care.wrote(table)
        except FrazilError as error:
            _logger.warning("what was measured is not written to a table: %s", error.message)

    def _goes_on(self, done: Done) -> bool:
        return done.again or bool(self._suspects) or (self._once and bool(done.plans))

    def _pause(self) -> float:
        return _TICK_SECONDS

    def _let_go(self) -> None:
        if self._worked:
            super()._let_go()

    def _ended(self) -> bool:
        if not self._once:
            return False
        goals = self._goals or {}
        return all(
            line.error is not None or topic not in goals or self._watch.has(topic, goals[topic])
            for topic, line in self._lines.items()
        )

    def _raise_failures(self) -> None:
        if self._superseded is not None:
            raise self._superseded
        super()._raise_failures()
        if self._listing is not None:
            for problem in self._listing.problems.values():
                raise problem

    def _stamps(self) -> dict[str, Stamp]:
        return {topic: line.lane.stamp for topic, line in self._lines.items() if line.lane.claimed}

    def _bounds(self) -> Bounds:
        bounds = self._service.bounds
        return replace(bounds, strictest=self._watch.strictest(bounds.strictest))


def _self(table: HotTable) -> tuple[object, ...]:
    """What cannot change without another writer for the table."""
    return table.uuid, table.binding, table.key, table.letters, table.event_time


def _raise(error: FrazilError) -> None:
    raise error
