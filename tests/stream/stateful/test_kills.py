"""kill -9 of the driver while batches land: before the commit, behind it, before the checkpoint knows."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stream.crash.runs import Run
from tests.stream.stateful.model import Windows
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
    config = _config(world, name, topic, tmp_path / "state")
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


def _config(world: World, name: str, topic: str, state: Path) -> dict[str, Any]:
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
                "transform": PER_WORD,
                "stateful": {"checkpoint": str(state), "lateness": "10m"},
                "freshness": "200ms",
                "limits": {"records_per_round": 50, "records_per_task": 25},
            }
        },
    }
