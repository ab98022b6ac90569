"""kill -9 from the pin of a history to the log behind it: nothing is lost, nothing comes twice."""

from __future__ import annotations

import signal

import pytest
from tests.stream.bootstrap.test_begin import document, ids, records, tags
from tests.stream.crash.runs import Run
from tests.stream.world import SCHEMA, World

pytestmark = pytest.mark.slow

#: Three rounds of the history and two of the log, with a death at each step between them. Each run is also
#: the recovery from the one before.
RUNS = (
    "history.pinned",
    "commit.after",
    "commit.before",
    "commit.after@2",
    "commit.before",
    "history.taken",
    None,
)
#: The last round of the history, before and behind its commit, by driver and task; then the rounds of the
#: log, behind which it is let go.
MORE = (
    "claim.before",
    "history.pinned",
    "claim.after",
    "round.planned",
    "task.fetched",
    "task.written",
    "commit.after",
    "round.job-done@2",
    "commit.before",
    "commit.after",
    "round.planned",
    "commit.after",
    "history.taken",
    None,
)


@pytest.mark.parametrize(
    "runs", [RUNS, pytest.param(MORE, marks=pytest.mark.exhaustive)], ids=["first", "more"]
)
def test_from_history_to_log(world: World, runs: tuple[str | None, ...]) -> None:
    topic = world.topic(records(0, 24))
    raw, name = f"raw-{topic}", f"copy-{topic}"
    world.run(world.pipeline(topic, raw))
    world.produce(topic, records(24, 32))
    limits = {"records_per_round": 8, "records_per_task": 4}
    config = document(world, name, topic, raw, schema=SCHEMA, limits=limits)
    for number, point in enumerate(runs):
        with Run(config, "--once", failpoint=point) as run:
            code = run.wait()
            assert code == _end(point), run.story()
        if point == "history.pinned":
            # It is taken from the newest snapshot at last, wherever the first attempt began.
            world.produce(topic, records(100 * number + 100, 100 * number + 103))
        if number > 0 and point is not None:
            # Until the log was caught up with, and nobody was killed before that was said.
            assert tags(world, raw)
    expected = [*range(32), *(100 * runs.index("history.pinned") + n for n in (100, 101, 102))]
    assert ids(world, name) == expected
    assert not tags(world, raw)


def _end(point: str | None) -> int:
    """How a run ends. Tasks die at their point whenever they are tried, until the driver gives up."""
    if point is None:
        return 0
    return 1 if point.startswith("task.") else -signal.SIGKILL
