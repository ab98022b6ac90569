"""kill -9 of the driver while batches land: before the commit, behind it, before the checkpoint knows."""

from __future__ import annotations

import itertools
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stream.crash.runs import Run
from tests.stream.stateful.model import Windows, event
from tests.stream.stateful.test_windows import PER_WORD, SCHEMA, counted, shuffled, stamps
from tests.stream.world import World

pytestmark = pytest.mark.slow

#: Where each run is killed, and how many records come before it. The first batch lands, and has to be run
#: again from where it began; the last one too, and nothing else moves the watermark then.
RUNS = (("commit.after", 90), ("commit.before", 90), ("batch.taken@2", 40), (None, 0))
#: Batches with records, batches that only move the watermark, and those that were killed before.
MORE = (
    ("round.planned", 90),
    ("round.job-done", 90),
    ("commit.after@2", 90),
    ("batch.taken@3", 90),
    ("commit.before@2", 90),
    (None, 90),
    ("batch.taken@2", 40),
    (None, 0),
)


Event = dict[str, Any]
SINGLE = """
def single(df):
    return df.dropDuplicatesWithinWatermark(["id"])
"""


@dataclass(frozen=True)
class Query:
    """One that keeps records for the sake of later ones: its rows are the same wherever batches end."""

    transform: str | dict[str, str]
    #: As many as that, in an order that is wrong by less than the lateness.
    events: Callable[[int], list[Event]]
    #: What must come of them.
    rows: Callable[[list[Event]], list[Any]]


def pairs(count: int) -> list[Event]:
    chance = random.Random(count)
    found = []
    for number in range(count // 2):
        minute = chance.uniform(0, 300)
        found += [event(number, minute, "click"), event(number, minute + chance.uniform(-20, 50), "buy")]
    return ordered(found)


def joined(events: list[Event]) -> list[Any]:
    times = {(one["id"], one["word"]): datetime.fromisoformat(one["at"]) for one in events}
    both = [(times[number, "click"], times[number, "buy"]) for number in {number for number, _ in times}]
    return sorted((at, later) for at, later in both if at <= later <= at + timedelta(minutes=30))


def repeated(count: int) -> list[Event]:
    chance = random.Random(count)
    found = [event(number, chance.uniform(0, 300), "a") for number in range(count * 2 // 3)]
    return ordered([*found, *found[: count - len(found)]])


def ordered(events: list[Event]) -> list[Event]:
    chance = random.Random(len(events))
    moved = [datetime.fromisoformat(one["at"]) + timedelta(minutes=chance.uniform(0, 9)) for one in events]
    return [one for _, one in sorted(zip(moved, events, strict=True), key=lambda both: both[0])]


JOIN = Query(
    """
    SELECT c.at, o.at AS later FROM source c JOIN source o
    ON c.id = o.id AND o.at BETWEEN c.at AND c.at + INTERVAL 30 MINUTES
    WHERE c.word = 'click' AND o.word = 'buy'
    """,
    pairs,
    joined,
)
ONCE = Query(
    {"python": "single:single"},
    repeated,
    lambda events: sorted((one["id"],) for one in {one["id"]: one for one in events}.values()),
)


@pytest.mark.parametrize(
    "runs", [RUNS, pytest.param(MORE, marks=pytest.mark.exhaustive)], ids=["first", "more"]
)
def test_windows_survive_the_driver(
    world: World, tmp_path: Path, runs: tuple[tuple[str | None, int], ...]
) -> None:
    """One after the other, so that each start is also the recovery from the death before.

    Records are produced before each run, and none is late, so that the windows are the same wherever batches
    end.
    """
    topic = world.topic()
    name = f"kills-{topic}"
    config = _config(world, name, topic, tmp_path / "state", PER_WORD)
    model = Windows(timedelta(hours=1), timedelta(minutes=10))
    for number, (point, count) in enumerate(runs):
        events = shuffled(number, number * 1000, (number * 100, number * 100 + 100), count)
        world.produce(topic, events)
        model.run(events)
        with Run(config, "--once", failpoint=point) as run:
            assert run.wait() == (0 if point is None else -signal.SIGKILL), run.story()
    assert counted(world, name) == model.closed
    stamped = stamps(world, name, name)
    assert [stamp.batch for stamp in stamped] == list(range(len(stamped)))
    assert stamped[-1].read == sum(count for _, count in runs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("query", [JOIN, ONCE], ids=["join", "once"])
def test_records_that_are_kept_survive_the_driver(world: World, tmp_path: Path, query: Query) -> None:
    topic = world.topic()
    name = f"kept-{topic}"
    config = _config(world, name, topic, tmp_path / "state", query.transform)
    events = query.events(sum(count for _, count in MORE))
    left = iter(events)
    for point, count in MORE:
        world.produce(topic, itertools.islice(left, count))
        with Run(config, "--once", failpoint=point, modules={"single.py": SINGLE}) as run:
            assert run.wait() == (0 if point is None else -signal.SIGKILL), run.story()
    expected = query.rows(events)
    columns = ("at", "later") if query is JOIN else ("id",)
    assert [tuple(row[column] for column in columns) for row in world.rows(name, columns)] == expected
    assert len(events) // 6 < len(expected) < len(events) * 5 // 6
    stamped = stamps(world, name, name)
    assert [stamp.batch for stamp in stamped] == list(range(len(stamped)))
    assert stamped[-1].read == len(events)


def _config(world: World, name: str, topic: str, state: Path, transform: object) -> dict[str, Any]:
    return {
        "catalog": {"uri": world.server.uri},
        "kafka": {"bootstrap.servers": world.kafka.bootstrap_servers},
        "spark": {"master": "local[2]"},
        "pipelines": {
            name: {
                "source": {"topics": [topic]},
                "schema": SCHEMA,
                "table": f"paths.{name}",
                "event_time": "at",
                "transform": transform,
                "stateful": {"checkpoint": str(state), "lateness": "10m"},
                "freshness": "200ms",
                "limits": {"records_per_round": 50, "records_per_task": 25},
            }
        },
    }
