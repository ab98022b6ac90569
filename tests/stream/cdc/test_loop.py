"""What a loop makes of bad records, over a made-up log."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from frazil.core.errors import BadRecord, Unavailable
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.cdc.lane import Lane, LaneTurn
from frazil.stream.cdc.line import Line
from frazil.stream.cdc.loop import ChangeLoop
from frazil.stream.cdc.result import LaneResult
from frazil.stream.cdc.work import LaneWork
from frazil.stream.config.model import (
    DebeziumFormat,
    KafkaSource,
    Limits,
    PipelineConfig,
    TableConfig,
)
from frazil.stream.events import CaughtUp, RoundRetried
from frazil.stream.rounds import RoundPlan, share
from frazil.stream.source import Slice
from frazil.stream.tasks import Failure

TOPIC = "shop.orders"


@dataclass
class Events:
    """A topic with bad records, by partition and offset, and what was said of it."""

    ends: list[int]
    bad: set[tuple[int, int]]
    #: So many records a round, one after the other; the last for ever.
    rounds: list[int] = field(default_factory=lambda: [1000])
    #: So many more in every partition before each round.
    traffic: int = 0
    #: So many land together.
    whole: int = 1
    joint: bool = False
    begun: int = 0
    read: list[tuple[int, int, int]] = field(default_factory=list)
    told: list[object] = field(default_factory=list)

    def topics(self) -> list[str]:
        return [TOPIC]

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        self.begun += 1
        self.ends = [end + self.traffic for end in self.ends]

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        records = self.rounds.pop(0) if len(self.rounds) > 1 else self.rounds[0]
        following = stamp.positions[topic].next
        backlog = {(topic, n): end - following[n] for n, end in enumerate(self.ends)}
        shares = [share(backlog, records)[topic, n] for n in range(len(self.ends))]
        slices = [Slice(topic, n, following[n], following[n] + shares[n]) for n in range(len(shares))]
        self._offered = [part for part in slices if len(part)]
        return RoundPlan(
            tuple((part,) for part in self._offered),
            {topic: Position(id="1", next=tuple(part.end for part in slices))},
            sum(shares),
            {topic: tuple(end - part.end for end, part in zip(self.ends, slices, strict=True))},
        )

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        (part,) = [part for part in self._offered if part.partition == partition]
        assert part.start <= offset < part.end, "who asks has it from the plan"
        return topic, partition, max(offset - offset % self.whole, part.start)

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None: ...

    def landed(self, plans: Mapping[str, RoundPlan]) -> None: ...

    def reader(self) -> None: ...

    # What runs the rounds.
    parallelism = 1

    def apply(self, reader: None, turns: Sequence[LaneTurn], keys: object) -> dict[str, LaneResult]:
        (turn,) = turns
        result = LaneResult()
        for (part,) in turn.plan.tasks:
            self.read.append((part.partition, part.start, part.end))
            found = sorted(n for p, n in self.bad if p == part.partition and part.start <= n < part.end)
            if found:
                where = (part.topic, part.partition, found[0])
                failure = Failure.of(BadRecord.at(where, f"bad at {part.partition}:{found[0]}"))
                result.failure = result.failure or failure
        return {TOPIC: result}

    # Who hears of it, and the tables' keys: there are none.
    def notify(self, event: object) -> None:
        self.told.append(event)

    def current(self, tables: object) -> dict[str, str]:
        return {}

    def end(self, tables: object) -> None: ...


class MadeUpLane:
    """One whose table takes everything."""

    topic = TOPIC
    tables: Sequence[Any] = ()
    claimed = True
    #: So often its catalog does not answer.
    refused = 0
    config = SimpleNamespace(dead_letters=None)

    def __init__(self, partitions: int) -> None:
        position = Position(id="1", next=(0,) * partitions)
        self.stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source="s", positions={TOPIC: position})

    def open(self, patience: object) -> bool:
        if self.refused:
            self.refused -= 1
            raise Unavailable("no answer")
        return False

    def begin(self, plan: RoundPlan, parallelism: int, *, halves: bool) -> LaneTurn:
        work = LaneWork(TOPIC, "p", DebeziumFormat(), None, (), ())
        return LaneTurn(plan, work, cast("Any", object()))

    def lookup(self, *given: object) -> None: ...

    def discard(self, turn: LaneTurn) -> None: ...

    def commit(self, turn: LaneTurn, result: LaneResult, found: None) -> None:
        assert result.failure is None
        self.stamp = structs.replace(self.stamp, positions=turn.plan.positions)

    @property
    def next(self) -> tuple[int, ...]:
        return tuple(self.stamp.positions[TOPIC].next)


def loop_over(events: Any, lane: MadeUpLane) -> tuple[ChangeLoop, Line]:
    """One that takes no round by itself."""
    config = PipelineConfig("p", KafkaSource({}), DebeziumFormat(), Schema(()), TableConfig((), "t"))
    spark = SimpleNamespace(newSession=SimpleNamespace)
    loop = ChangeLoop(config, cast("Any", spark), cast("Any", None), "frazil", events, once=False)
    line = Line(cast("Lane", lane), opened=True)
    loop._lines = {TOPIC: line}
    loop._feed = loop._jobs = loop._keys = events
    return loop, line


def stopped(events: Events, rounds: int = 30) -> tuple[BadRecord, tuple[int, ...]]:
    """The error of its lane, and where that stopped."""
    lane = MadeUpLane(len(events.ends))
    loop, line = loop_over(events, lane)
    for _ in range(rounds):
        loop._take_round()
        assert all(lane.next[p] <= offset for p, offset in events.bad), "a bad one was passed"
        assert not any(isinstance(event, RoundRetried) for event in events.told), events.told
        if line.error is not None:
            assert isinstance(line.error, BadRecord)
            return line.error, lane.next
    raise AssertionError(f"it goes on and on: {events.read[-4:]}")


def test_bad_records_in_two_partitions() -> None:
    error, reached = stopped(Events([10, 10, 10], {(0, 3), (2, 5)}))
    assert (error.position, reached) == ((TOPIC, 0, 3), (3, 10, 5))


def test_a_table_stops_however_much_comes_in_its_other_partitions() -> None:
    error, reached = stopped(Events([10, 10], {(0, 0)}, traffic=7))
    assert error.position == (TOPIC, 0, 0)
    # What was read with it is there, as with every bad record.
    assert reached[1] > 0


def test_a_bad_record_behind_a_shorter_round_is_met_in_its_time() -> None:
    error, reached = stopped(Events([10], {(0, 8)}, rounds=[10, 5]))
    assert (error.position, reached) == ((TOPIC, 0, 8), (8,))
    # With its transaction, which the feed knows of as far as it was planned.
    error, reached = stopped(Events([10], {(0, 8)}, rounds=[10, 3, 10], whole=5))
    assert (error.position, reached) == ((TOPIC, 0, 8), (5,))


def test_tables_of_one_connection_wait_until_all_can_say_where_they_are() -> None:
    """Without a stamp a table is taken for a new one: its rows are read anew, and its changes from before
    are nowhere."""
    events, lane = Events([4, 4], set(), joint=True), MadeUpLane(2)
    loop, line = loop_over(events, lane)
    line.opened, lane.refused = False, 2
    for _ in range(2):
        loop._take_round()
        assert (events.begun, line.ready, line.opened) == (0, False, False)
        line.rests_until = 0.0
    loop._take_round()
    assert (events.begun, lane.next) == (1, (4, 4))


def test_a_table_that_is_not_opened_is_nowhere_yet() -> None:
    """Where it goes on only its stamp tells. Until then nothing is done or caught up, or begins anew."""
    events, lane = Events([4, 4], set()), MadeUpLane(2)
    loop, line = loop_over(events, lane)
    loop._goal = lambda stamps: all(stamp.positions[TOPIC].next == (4, 4) for stamp in stamps.values())
    line.opened, lane.refused = False, 1
    loop._take_round()
    loop._idle()
    assert (loop._stamps(), loop._ended()) == ({}, False)
    line.rests_until = 0.0
    loop._take_round()
    assert (lane.next, loop._ended()) == ((4, 4), True)
    assert not any(isinstance(event, CaughtUp) for event in events.told)
    line.rests_until = float("inf")
    loop._idle()
    assert not any(isinstance(event, CaughtUp) for event in events.told)
    line.rests_until = 0.0
    loop._idle()
    assert isinstance(events.told[-1], CaughtUp)


def test_a_round_that_was_to_end_earlier_and_is_shorter_anyway() -> None:
    events, lane = Events([10], set(), rounds=[5]), MadeUpLane(1)
    loop, line = loop_over(events, lane)
    line.cut = (TOPIC, 0, 8)
    loop._take_round()
    assert (lane.next, line.failures) == ((5,), 0)


@pytest.mark.parametrize("seed", range(50))
def test_every_lane_with_a_bad_record_stops_at_one(seed: int) -> None:
    rng = random.Random(seed)
    ends = [rng.randint(1, 30) for _ in range(rng.randint(1, 4))]
    places = [(partition, offset) for partition, end in enumerate(ends) for offset in range(end)]
    events = Events(
        ends,
        set(rng.sample(places, rng.randint(1, min(6, len(places))))),
        [rng.randint(1, 60) for _ in range(rng.randint(1, 20))],
        rng.choice([0, 0, 1, 9]),
        rng.choice([1, 1, 3]),
    )
    error, reached = stopped(events, 300)
    assert error.position is not None
    _, partition, offset = error.position
    assert offset - offset % events.whole <= reached[partition] <= offset
