"""A pipeline of changes at work: one round for all of its topics, a commit for each."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from frazil.core.errors import BadRecord, FrazilError, Outcome, RoundFailed, Unavailable, Unsupported
from frazil.core.failpoints import reach
from frazil.core.stamp import Stamp
from frazil.maintenance import Caretaker
from frazil.stream.cdc.changes import Shape
from frazil.stream.cdc.feed import ChangeFeed, feed_of
from frazil.stream.cdc.jobs import ChangeJobs
from frazil.stream.cdc.lane import Lane, LaneTurn
from frazil.stream.cdc.line import Done, Line
from frazil.stream.cdc.neighbours import Neighbours
from frazil.stream.cdc.result import LaneResult
from frazil.stream.config.model import Limits
from frazil.stream.events import CaughtUp, Claimed, RoundCommitted, RoundRetried, RoundStarted, TableStopped
from frazil.stream.loops import ADAPTATIONS, FAILED_ROUNDS, Loop, rested
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.keys import TableKeys

if TYPE_CHECKING:
    from frazil.lake.keyed import KeyedRound
    from frazil.lake.lookup import Found, Lookup, LookupTask

T = TypeVar("T")
_logger = logging.getLogger(__name__)


#: So often a lane waits for the second half of a changed key; a connector that died may never send it. The
#: end of a transaction is waited for as long as it takes, but not in silence.
_WAITS = 5


class ChangeLoop(Loop):
    """Runs one pipeline of changes in the thread that calls `run`. A table that fails stops no other.

    Which lanes there are, who takes part in a round and when the next one comes is for subclasses to say
    otherwise.
    """

    def _run(self) -> None:
        feed = self._retrying(self._set_up)
        if feed is None:
            return
        try:
            self._take_rounds()
        finally:
            feed.close()
        self._raise_failures()

    def _take_rounds(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            done = self._retrying(self._take_round)
            if done is None:
                return
            self._take_care([line for topic, line in self._lines.items() if topic in done.plans])
            self._let_go()
            if self._ended():
                break
            if self._goes_on(done):
                continue
            if not done.plans:
                self._idle()
            self._stopping.wait(max(0.0, started + self._pause() - time.monotonic()))

    def _goes_on(self, done: Done) -> bool:
        """Whether the next round comes at once."""
        waiting = any(line.waiting for line in self._lines.values())
        return done.again or bool(done.plans and waiting)

    def _idle(self) -> None:
        """There was nothing to read. A table that rests may have something."""
        lines = self._lines.values()
        if not self._opening and all(line.ready for line in lines if line.error is None):
            self._observer.notify(CaughtUp(self.name))

    def _take_care(self, lines: Sequence[Line]) -> None:
        """Of the tables of lanes that were just committed."""
        for line in lines:
            for table in line.lane.tables:
                self._caretaker.committed(table)

    def _make_feed(self) -> ChangeFeed:
        return feed_of(self._config, self._lake)

    def _set_up(self) -> ChangeFeed:
        config = self._config
        self._lake = self._connect()
        self._feed: ChangeFeed = self._make_feed()
        self._lines: dict[str, Line] = {}
        self._neighbours = Neighbours(self._lines.keys())
        self._keys = TableKeys(self._spark.sparkContext)
        self._jobs = ChangeJobs(self._spark.sparkContext, config.limits.bytes_per_record)
        self._caretaker = Caretaker(
            self._spark, self._lake, config.maintenance, file_size=config.table.files.size
        )
        self._goal = self._feed.goal() if self._once else None
        return self._feed

    def _take_round(self) -> Done:
        """One round of all lanes that are ready."""
        started = time.monotonic()
        self._find_lanes()
        done = Done()
        turns = self._turns()
        if not turns:
            return done
        reach("round.planned")
        offsets = sum(turn.plan.offsets for turn in turns)
        lag = sum(turn.plan.lag for turn in turns)
        number = max(self._lines[turn.work.name].lane.stamp.round for turn in turns) + 1
        self._observer.notify(RoundStarted(self.name, number, offsets, lag, len(turns)))
        begun = time.monotonic()
        try:
            results = self._jobs.apply(
                self._feed.reader(), turns, self._keys.current(self._table_names(turns))
            )
        except FrazilError:
            for turn in turns:
                self._discard(turn)
            raise
        reach("round.job-done")
        worked = time.monotonic()
        self._measure(offsets, begun)
        self._land(turns, results, done)
        if done.plans:
            self._tell(done, number, started, worked)
        return done

    def _find_lanes(self) -> None:
        for topic in self._feed.topics():
            if topic not in self._lines:
                first = functools.partial(self._feed.first, topic)
                lane = Lane(self._config, self._lake, self._keys, topic, first, self._neighbours)
                self._lines[topic] = Line(lane)
        for line in self._lines.values():
            if line.ready and not line.opened:
                line.opened = bool(self._guarded(line, functools.partial(self._open, line.lane)))

    def _open(self, lane: Lane) -> bool:
        if lane.open(self._patience):
            self._claimed(lane)
        return True

    def _claimed(self, lane: Lane) -> None:
        first = lane.stamp.read == 0
        self._observer.notify(Claimed(self.name, str(lane), lane.stamp.epoch, lane.created, first))

    def _turns(self) -> list[LaneTurn]:
        turns: list[LaneTurn] = []
        if self._feed.joint and self._opening:
            return turns
        # A table whose keys cannot be had holds up nobody else.
        ready = [
            line for line in self._chosen() if self._guarded(line, functools.partial(self._unlock, line))
        ]
        keys_end = self._keys.end([str(table) for line in ready for table in line.lane.tables])
        stopped = {topic for topic, line in self._lines.items() if line.error is not None}
        self._feed.begin(self._stamps(), self._limits(keys_end), stopped)
        limits = self._limits(keys_end, len(ready) or 1)
        for line in ready:
            turn = self._guarded(line, functools.partial(self._turn, line, limits))
            if turn is not None:
                turns.append(turn)
        return turns

    def _chosen(self) -> Sequence[Line]:
        """Those that take part in the next round, in the order of their commits."""
        return [line for line in self._lines.values() if line.ready and line.opened]

    def _unlock(self, line: Line) -> bool:
        self._keys.current([str(table) for table in line.lane.tables])
        return True

    def _table_names(self, turns: Sequence[LaneTurn]) -> list[str]:
        return [str(table) for turn in turns for table in self._lines[turn.work.name].lane.tables]

    def _turn(self, line: Line, limits: Limits) -> LaneTurn | None:
        longer = replace(limits, records_per_round=limits.records_per_round * line.stretch)
        plan, bad = self._up_to_bad(line, self._feed.plan(line.lane.topic, line.lane.stamp, longer))
        cut, line.cut = line.cut, None
        if cut is not None and plan.reads(*cut):
            whole, plan = plan, plan.before(*cut)
            # Nothing came before it: either the round is too short for the rest, or that was not sent yet.
            if not plan.tasks and bad is not None:
                raise bad
            if not plan.tasks and whole.lag > 0:
                line.stretch *= 2
                return self._turn(line, limits)
            if not plan.tasks:
                self._wait(line)
                plan = whole if line.halves else plan
        line.lags = plan.lags.get(line.lane.topic, ())
        line.past = plan.lag - sum(line.lags)
        slots, line.alone = 1 if line.alone else self._jobs.parallelism, False
        return line.lane.begin(plan, slots, halves=line.halves) if plan.tasks else None

    def _up_to_bad(self, line: Line, plan: RoundPlan) -> tuple[RoundPlan, BadRecord | None]:
        """The round up to the bad records in it, and the first of these. BadRecord: one of them is next, and
        what was read with it has landed. A plan that is shorter than the one they were met in ends before
        them by itself."""
        first = None
        for place, error in sorted(line.bad.items()):
            if plan.reads(*place):
                plan, first = plan.before(*self._feed.beginning(*place)), first or error
                if line.went_on and not plan.reads(*place[:2]):
                    raise error
        if first is not None and not plan.tasks:
            raise first
        return plan, first

    def _wait(self, line: Line) -> None:
        """The rest of a change was not sent yet. Unavailable: and it is the end of a transaction."""
        line.waits += 1
        if line.waits <= _WAITS:
            return
        if line.unfinished:
            raise Unavailable(
                f"changes of {line.lane.topic} wait for the end of their transaction, which the connector "
                "has not sent: is it at work? They land with the rest; `changes.whole_transactions: false` "
                "lands them as they come"
            )
        line.halves = True

    def _land(self, turns: Sequence[LaneTurn], results: Mapping[str, LaneResult], done: Done) -> None:
        """Commit each lane that can; the others tell why not."""
        ready: list[tuple[Line, LaneTurn, LaneResult]] = []
        for turn in turns:
            line, result = self._lines[turn.work.name], results[turn.work.name]
            if self._guarded(line, functools.partial(self._usable, line, turn, result, done)):
                ready.append((line, turn, result))
            else:
                self._discard(turn)
        for line, turn, result in sorted(ready, key=lambda one: one[0].slowness):
            begun = time.monotonic()
            if self._guarded(line, functools.partial(self._commit, line, turn, result)):
                done.add(turn.work.name, turn.plan, result)
                line.landed()
            line.commit_seconds = time.monotonic() - begun
        if done.plans:
            self._feed.landed(done.plans)

    def _usable(self, line: Line, turn: LaneTurn, result: LaneResult, done: Done) -> bool:
        """Whether there is something to commit; if the table was lacking something, it has it now."""
        if result.failure is not None:
            error = result.failure.error()
            if not (isinstance(error, BadRecord) and error.position and turn.plan.reads(*error.position)):
                raise error
            line.bad[error.position], done.again = error, True
            return False
        if result.shape is not None:
            line.adaptations += 1
            if line.adaptations > ADAPTATIONS:
                raise RoundFailed(
                    f"pipeline '{self.name}': {line.lane} met new columns {ADAPTATIONS} times in a row, and "
                    f"still has no place for {', '.join(_lacking(turn, result.shape))}. If the source has a "
                    "column with the name of one that frazil adds (`changes.soft_delete`, or `_op` and the "
                    "like of all changes), give one of the two another name"
                )
            line.lane.adapt(result.shape, self._patience)
            if turn.ticket is None:
                self._claimed(line.lane)
            done.again = True
            return False
        unfinished = self._unfinished(line, result)
        cut = unfinished or result.cut
        if result.alone or cut is not None:
            line.cut, line.unfinished = cut, unfinished is not None
            line.alone, done.again = result.alone, True
            return False
        if line.halves and result.half is not None:
            self._warn_of_half(line, *result.half)
        self._require_rate(result.read, result.bad, line.lane.config.dead_letters)
        self._feed.confirm(line.lane.stamp, turn.plan)
        return turn.ticket is not None

    def _warn_of_half(self, line: Line, topic: str, partition: int, offset: int) -> None:
        _logger.warning(
            "pipeline %s: %s is without the rows that got another key in topic %s, partition %d, at "
            "offset %d, until the connector sends them under their new keys",
            self.name,
            line.lane,
            topic,
            partition,
            offset,
        )

    def _unfinished(self, line: Line, result: LaneResult) -> tuple[str, int, int] | None:
        """The first record of a transaction that is not there to its end."""
        position = line.lane.stamp.positions.get(line.lane.topic)
        if result.tails and position is not None and len(position.next) > 1:
            raise Unsupported(
                f"topic {line.lane.topic} has {len(position.next)} partitions, which share the changes of a "
                "transaction, so that nobody can tell when all are there: `changes.whole_transactions` needs "
                "topics of one partition"
            )
        for partition, tail in result.tails.items():
            if not self._feed.ended(line.lane.topic, tail, line.lane.stamp):
                return line.lane.topic, partition, tail.offset
        return None

    def _commit(self, line: Line, turn: LaneTurn, result: LaneResult) -> bool:
        found = self._found(line, turn, result)
        try:
            line.lane.commit(turn, result, found)
        except FrazilError as error:
            if error.outcome is not Outcome.UNKNOWN:
                self._discard(turn)
            raise
        if found is not None and found.unfound and turn.work.soft_delete is None:
            _logger.warning(
                "pipeline %s: %d rows of %s came without values that did not change, and the table does "
                "not have these rows: %s",
                self.name,
                len(found.unfound),
                line.lane,
                "they were changed before all rows were read, or removed by others, and are left out"
                if line.lane.complete
                else "the values are null",
            )
        return True

    def _found(self, line: Line, turn: LaneTurn, result: LaneResult) -> KeyedRound | None:
        def run(lookup: Lookup, tasks: Sequence[LookupTask]) -> list[Found]:
            keys = self._keys.current([str(line.lane)])
            return self._jobs.look_up(lookup, tasks, keys.get(str(line.lane)))

        return line.lane.lookup(turn, result, run, self._jobs.parallelism)

    def _guarded(self, line: Line, work: Callable[[], T]) -> T | None:
        """What `work` returns; None after an error, which is the lane's alone."""
        try:
            return work()
        except FrazilError as error:
            line.failures += 1
            given_up = isinstance(error, RoundFailed) or self._once
            if error.outcome is not Outcome.RETRY or (given_up and line.failures >= FAILED_ROUNDS):
                self._give_up(line, error)
                return None
            wait = rested(line.failures)
            line.rests_until = time.monotonic() + wait
            self._observer.notify(
                RoundRetried(self.name, f"{line.lane}: {error.message}", line.failures, wait)
            )
        return None

    def _give_up(self, line: Line, error: FrazilError) -> None:
        """Of a lane that will not mend itself."""
        line.error = error
        self._observer.notify(TableStopped(self.name, str(line.lane), error.message))

    def _discard(self, turn: LaneTurn) -> None:
        lane = self._lines[turn.work.name].lane
        try:
            lane.discard(turn)
        except FrazilError as error:
            _logger.warning("%s: files of a failed round stay: %s", lane, error.message)

    def _tell(self, done: Done, number: int, started: float, worked: float) -> None:
        ended = time.monotonic()
        stamps = [line.lane.stamp for line in self._lines.values() if line.lane.claimed]
        lags = {topic: line.lags for topic, line in self._lines.items()}
        self._observer.notify(
            RoundCommitted(
                pipeline=self.name,
                round=number,
                snapshot_id=None,
                read=done.read,
                written=done.written,
                bad=done.bad,
                files=done.files,
                bytes=done.bytes,
                seconds=ended - started,
                job_seconds=worked - started,
                commit_seconds=ended - worked,
                lag=sum(map(sum, lags.values())),
                total_read=sum(stamp.read for stamp in stamps),
                total_written=sum(stamp.written for stamp in stamps),
                lags=lags,
            )
        )

    def _ended(self) -> bool:
        """Whether a bounded run is done, or no table can go on."""
        if self._lines and all(line.error is not None for line in self._lines.values()):
            return True
        return self._goal is not None and not self._opening and self._goal(self._stamps())

    @property
    def _opening(self) -> bool:
        """Whether it is not known yet where some table goes on."""
        return any(line.error is None and not line.opened for line in self._lines.values())

    def _stamps(self) -> dict[str, Stamp]:
        """Of the lanes that go on, by topic. One that is not opened has none: a table that was written to
        would seem to be new."""
        lines = self._lines.items()
        return {topic: line.lane.stamp for topic, line in lines if line.error is None and line.opened}

    def _pause(self) -> float:
        """Until the next round is due, or a lane that rests is ready again."""
        now = time.monotonic()
        rests = [line.rests_until - now for line in self._lines.values() if line.error is None]
        soon = [wait for wait in rests if wait > 0]
        return min([self._config.freshness, *soon])

    def _raise_failures(self) -> None:
        failed = [line for line in self._lines.values() if line.error is not None]
        if not failed:
            return
        first = failed[0].error
        assert first is not None, "it was asked for"
        if len(failed) == 1:
            raise first
        names = ", ".join(str(line.lane) for line in failed)
        raise type(first)(f"{len(failed)} tables stopped ({names}). The first one: {first.message}")


def _lacking(turn: LaneTurn, shape: Shape) -> list[str]:
    """Columns that the records have and the rows did not, or not of their type."""
    there = {} if turn.work.schema is None else {field.name: field.type for field in turn.work.schema}
    return [field.name for field in shape.columns if there.get(field.name) != field.type]
