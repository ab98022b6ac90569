"""Stateful queries that begin with the rows of a table."""

from __future__ import annotations

import shutil
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stream.bootstrap.test_begin import document, tags
from tests.stream.crash.runs import Run, frazil
from tests.stream.stateful.model import Windows
from tests.stream.stateful.test_windows import PER_WORD, SCHEMA, counted, shuffled, stamps, stateful
from tests.stream.world import World

from frazil.core.errors import HistoryChanged

pytestmark = pytest.mark.slow
#: Fewer than a commit of the history has: without regard to times, its rows would be late.
_LIMITS = {"records_per_round": 40, "records_per_task": 20}


def windows() -> Windows:
    return Windows(timedelta(hours=1), timedelta(minutes=10))


def filled(world: World, topic: str, raw: str, runs: int = 4) -> list[dict[str, Any]]:
    """The history: files of many commits, which by their paths are in the order of buckets, not of time."""
    found = []
    for number in range(runs):
        events = shuffled(number, number * 1000, (number * 100, number * 100 + 100), 90)
        world.produce(topic, events)
        world.run(world.pipeline(topic, raw, schema=SCHEMA, partitioning=["bucket(4, id)"]))
        found += events
    return found


def test_windows_over_history_and_log(world: World, tmp_path: Path) -> None:
    """The watermark makes no row of the history late, and the log goes on where that ends."""
    topic = world.topic()
    raw, name = f"raw-{topic}", f"hours-{topic}"
    model = windows()
    events = filled(world, topic, raw)
    more = shuffled(9, 9000, (400, 500), 60)
    world.produce(topic, more)
    settings = stateful(tmp_path / "state") | {"transform": PER_WORD, "limits": _LIMITS}
    hours = world.pipeline(topic, name, name=name, history=f"paths.{raw}", **settings)
    world.run(hours)
    model.run([*events, *more])
    assert model.late == 0
    assert counted(world, name) == model.closed
    stamped = stamps(world, name, name)
    taken = [stamp.positions[f"paths.{raw}/history"].next[0] for stamp in stamped]
    assert len(set(taken)) > 2, "the history was not divided"
    assert stamped[-1].read == len(events) + len(more)
    assert not tags(world, raw)
    last = shuffled(10, 10_000, (500, 640), 60)
    world.produce(topic, last)
    world.run(hours)
    model.run(last)
    assert counted(world, name) == model.closed
    file = document(world, name, topic, raw, **settings)
    # Its state is lost: it says what to do, and that works.
    shutil.rmtree(tmp_path / "state")
    with pytest.raises(HistoryChanged, match=r"source\.history.*--to-history"):
        world.run(hours)
    world.spark_sql(f"DELETE FROM {{}}.`{name}` WHERE true")
    done = frazil(file, "reset", name, "--to-history", "--yes")
    assert done.returncode == 0, done.stderr
    assert tags(world, raw)
    world.run(hours)
    assert counted(world, name) == model.closed
    assert not tags(world, raw)


@pytest.mark.parametrize("by", ["time", "offsets"])
def test_windows_over_a_history_of_then_or_with_given_offsets(world: World, tmp_path: Path, by: str) -> None:
    """The rest comes of the log, from the very record on: a window counts none twice, and lacks none."""
    topic = world.topic()
    raw, name = f"raw-{topic}", f"hours-{topic}"
    events = filled(world, topic, raw, 1)
    later = shuffled(1, 1000, (100, 200), 90)
    world.produce(topic, later)
    if by == "time":
        time.sleep(0.05)
        history: dict[str, Any] = {"table": f"paths.{raw}", "until": datetime.now(UTC).isoformat()}
        time.sleep(0.05)
        # The table of now has all of them, and its stamp is at the end of the log.
        world.run(world.pipeline(topic, raw, schema=SCHEMA))
    else:
        # A table without a stamp. Of each partition, 45 records are in it, and 5 or 7 are nobody's.
        world.spark_sql(f"CREATE TABLE {{0}}.`by-{raw}` USING iceberg AS SELECT * FROM {{0}}.`{raw}`")
        history = {"table": f"paths.by-{raw}", "offsets": {topic: [50, 52]}}
        later = [one for number, one in enumerate(later) if number // 2 >= (5, 7)[number % 2]]
    settings = stateful(tmp_path / "state") | {"transform": PER_WORD, "limits": _LIMITS}
    world.run(world.pipeline(topic, name, name=name, history=history, **settings))
    model = windows()
    model.run([*events, *later])
    assert model.late == 0
    assert counted(world, name) == model.closed
    (last,) = stamps(world, name, name)[-1:]
    (taken,) = [at for place, at in last.positions.items() if place.endswith("/history")]
    assert taken.next[0] == len(events)
    assert sum(last.positions[topic].next) == 180
    assert last.read == len(events) + len(later)


@pytest.mark.exhaustive
def test_a_history_is_kept_for_the_batch_that_is_run_again(world: World, tmp_path: Path) -> None:
    """kill -9 when the last rows of the history landed, and Spark does not know yet.

    The batch is run again for its state; meanwhile everything of the history but what is pinned is gone.
    """
    topic = world.topic()
    raw, name = f"raw-{topic}", f"hours-{topic}"
    model = windows()
    events = filled(world, topic, raw, 2)
    settings = stateful(tmp_path / "state") | {"transform": PER_WORD}
    config = document(world, name, topic, raw, **settings)
    with Run(config, "--once", failpoint="commit.after") as run:
        assert run.wait() == -signal.SIGKILL, run.story()
    (landed,) = stamps(world, name, name)
    assert landed.read == len(events)
    assert tags(world, raw)
    world.spark_sql(f"DELETE FROM {{}}.`{raw}` WHERE true")
    world.spark_sql(f"CALL world.system.expire_snapshots('paths.`{raw}`', now(), 1)")
    more = shuffled(9, 9000, (200, 400), 60)
    world.produce(topic, more)
    with Run(config, "--once") as run:
        assert run.wait() == 0, run.story()
    model.run([*events, *more])
    assert counted(world, name) == model.closed
    assert not tags(world, raw)
