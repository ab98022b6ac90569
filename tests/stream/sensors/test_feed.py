"""The log of readings: bounded by the clock, the same after an outage."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from frazil.core.errors import SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits, SensorSource
from frazil.stream.rounds import RoundPlan
from frazil.stream.sensors.feed import SensorFeed

BEGAN = datetime(2026, 11, 16, 10, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.at = BEGAN

    def __call__(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def stamped(feed: SensorFeed, plan: RoundPlan | None = None) -> Stamp:
    source, positions = feed.first()
    positions = plan.positions if plan else positions
    return Stamp(pipeline="iot", epoch=1, round=0, token="t", source=source, positions=positions)


def rows(feed: SensorFeed, stamp: Stamp, plan: RoundPlan) -> list[Any]:
    reader = pickle.loads(pickle.dumps(feed.reader(stamp)))
    found: list[Any] = []
    for task in plan.tasks:
        for batch in reader.read(task):
            assert batch.slice_start in {part.start for part in task}
            found += map(json.loads, batch.values.to_pylist())
            assert [row["reading"] for row in found[-len(batch) :]] == batch.offsets.to_pylist()
    return found


def test_as_many_as_the_clock_says(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=10), clock)
    stamp = stamped(feed)
    assert feed.plan(stamp, Limits(), 4).offsets == 0
    clock.sleep(2.55)
    plan = feed.plan(stamp, Limits(), 4)
    assert (plan.offsets, plan.lag, len(plan.tasks)) == (25, 0, 1)
    assert [row["reading"] for row in rows(feed, stamp, plan)] == list(range(25))
    stamp = stamped(feed, plan)
    assert feed.plan(stamp, Limits(), 4).offsets == 0
    clock.sleep(0.05)
    plan = feed.plan(stamp, Limits(), 4)
    assert [row["reading"] for row in rows(feed, stamp, plan)] == [25]


def test_rounds_and_tasks_are_bounded(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=1e6), clock)
    stamp = stamped(feed)
    clock.sleep(1)
    limits = Limits(records_per_round=300_000, records_per_task=100_000)
    plan = feed.plan(stamp, limits, 2)
    assert plan.offsets == 300_000
    assert plan.lags == {"sensors": (700_000,)}
    assert [sum(map(len, task)) for task in plan.tasks] == [150_000, 150_000]
    assert len(feed.plan(stamp, limits, 8).tasks) == 3
    assert plan.positions["sensors"] == Position(BEGAN.isoformat(), (300_000,))


def test_an_outage_is_caught_up_with(clock: Clock) -> None:
    source = SensorSource(rate=7, seed=3)
    steady, other = SensorFeed(source, clock), SensorFeed(source, clock)
    start = stamp = stamped(steady)
    seen: list[Any] = []
    for _ in range(40):
        clock.sleep(1.3)
        plan = steady.plan(stamp, Limits(), 1)
        seen += rows(steady, stamp, plan)
        stamp = stamped(steady, plan)
    again = rows(other, start, other.plan(start, Limits(), 3))
    assert again == seen
    assert len(seen) == int(40 * 1.3 * 7)


def test_a_clock_that_was_set_back(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=10), clock)
    stamp = stamped(feed)
    clock.sleep(5)
    stamp = stamped(feed, feed.plan(stamp, Limits(), 1))
    clock.sleep(-60)
    plan = feed.plan(stamp, Limits(), 1)
    assert (plan.offsets, plan.lag, plan.tasks) == (0, 0, ())
    assert plan.positions == stamp.positions


def test_so_many_in_all(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=10, records=12), clock)
    stamp = stamped(feed)
    goal = feed.goal()
    clock.sleep(1)
    plan = feed.plan(stamp, Limits(), 1)
    assert plan.offsets == 10
    stamp = stamped(feed, plan)
    assert not goal(stamp, plan)
    clock.sleep(1000)
    plan = feed.plan(stamp, Limits(), 1)
    assert plan.offsets == 2
    assert goal(stamped(feed, plan), plan)


def test_a_bounded_run_of_an_endless_source(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=10), clock)
    stamp = stamped(feed)
    clock.sleep(3)
    goal = feed.goal()
    clock.sleep(3)
    plan = feed.plan(stamp, Limits(records_per_round=29), 1)
    stamp = stamped(feed, plan)
    assert not goal(stamp, plan)
    plan = feed.plan(stamp, Limits(records_per_round=1), 1)
    assert goal(stamped(feed, plan), plan)


@pytest.mark.parametrize(
    "changed", [SensorSource(seed=1), SensorSource(sensors=6), SensorSource(rate=10.000001)]
)
def test_other_readings_are_refused(clock: Clock, changed: SensorSource) -> None:
    stamp = stamped(SensorFeed(SensorSource(), clock))
    with pytest.raises(SourceChanged, match="put the settings of the source back"):
        SensorFeed(changed, clock).plan(stamp, Limits(), 1)
    clock.sleep(100)
    assert SensorFeed(SensorSource(records=5), clock).plan(stamp, Limits(), 1).offsets == 5


def test_whole_batches(clock: Clock) -> None:
    feed = SensorFeed(SensorSource(rate=10, records=25, batch=10), clock)
    first = stamp = stamped(feed)
    sizes = []
    for seconds in (0.95, 0.1, 0.9, 0.1, 0.4, 0.1):
        clock.sleep(seconds)
        plan = feed.plan(stamp, Limits(records_per_round=3), 4)
        sizes.append((plan.offsets, plan.lag))
        stamp = stamped(feed, plan)
    # A limit that is smaller than a batch, as keys that end soon make it, does not cut one.
    assert sizes == [(0, 0), (10, 0), (0, 0), (10, 0), (0, 0), (5, 0)]
    late = feed.plan(first, Limits(records_per_round=19), 4)
    assert (late.offsets, late.lag) == (10, 15)


def test_live_sensors_rest_while_nobody_listens(clock: Clock) -> None:
    source = SensorSource(rate=10, live=True)
    feed = SensorFeed(source, clock)
    stamp = stamped(feed)
    assert feed.plan(stamp, Limits(), 1).offsets == 0
    clock.sleep(2)
    plan = feed.plan(stamp, Limits(), 1)
    before = rows(feed, stamp, plan)
    stamp = stamped(feed, plan)
    clock.sleep(3600)
    # One that runs on catches up, one that was started does not.
    assert feed.plan(stamp, Limits(), 1).offsets == 36_000
    again = SensorFeed(source, clock)
    assert again.plan(stamp, Limits(), 1).offsets == 0
    clock.sleep(1)
    plan = again.plan(stamp, Limits(), 1)
    after = rows(again, stamp, plan)
    assert [row["reading"] for row in before + after] == list(range(30))
    assert after[0]["event_time"] > before[-1]["event_time"]
    assert after[0]["event_time"] == (BEGAN + timedelta(seconds=3602)).isoformat(
        timespec="microseconds"
    ).replace("+00:00", "Z")
    # Positions carry the new beginning along.
    assert rows(again, stamped(feed, plan), again.plan(stamped(feed, plan), Limits(), 1)) == []
