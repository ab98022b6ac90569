"""kill -9 of the driver, of a Python worker and of the JVM, at every step."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from itertools import product

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.points import IN_DRIVER, IN_TASKS
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, config, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]
#: Where several tables are another thing than one.
OF_SEVERAL = ("round.job-done", "commit.before", "commit.after")
#: What waits by then is more than one round.
SECOND_TIME = tuple(f"{point}@2" if point == "round.job-done" else point for point in IN_DRIVER)


def _ways(first: tuple[str, bool], few: Sequence[str], every: Sequence[str]) -> list[object]:
    """Storage, path, and where to kill: one way and the few points always, all in the long version."""
    names = {True: "spark", False: "fused"}
    long = [
        pytest.param(
            storage,
            path,
            every,
            id=f"{storage}-{names[path]}-all",
            marks=() if (storage, path, few) == (*first, every) else pytest.mark.exhaustive,
        )
        for storage, path in product(("s3", "local"), (False, True))
    ]
    short = [] if few == every else [pytest.param(*first, few, id=f"{first[0]}-{names[first[1]]}")]
    return [*short, *long]


def _kills(first: tuple[str, bool], few: Sequence[str], every: Sequence[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("shelf", "through_spark", "points"), _ways(first, few, every), indirect=["shelf"]
    )


def _finish(line: Line) -> None:
    run_once(line).close()
    line.check()
    line.check_storage()


@_kills(("s3", False), IN_DRIVER, IN_DRIVER)
def test_the_driver_is_killed_at_every_step(
    shelf: Shelf, through_spark: bool, points: Sequence[str], make_line: MakeLine
) -> None:
    """One after the other, so that each start is also the recovery from the death before.

    Everything local is deleted between them.
    """
    line = make_line(shelf, "driver", through_spark=through_spark)
    for point in points:
        line.feed.produce(240)
        with Run(config(line), "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        line.check(complete=False)
    line.feed.produce(240)
    _finish(line)


@_kills(("s3", False), OF_SEVERAL, SECOND_TIME)
@pytest.mark.parametrize(
    "routed", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["many", "one"]
)
def test_commits_to_several_tables_survive_the_driver(
    shelf: Shelf, through_spark: bool, routed: bool, points: Sequence[str], make_line: MakeLine
) -> None:
    """Bad records, and rows for several tables: all of a round lands, or nothing of it."""
    line = make_line(shelf, "several", through_spark=through_spark, routed=routed)
    for number, point in enumerate(points):
        line.feed.produce(120)
        for partition in range(line.feed.partitions):
            line.feed.put(json.dumps({"bad": [number, partition]}).encode(), partition)
        with Run(config(line), "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        line.check(complete=False)
    line.feed.produce(120)
    _finish(line)


@_kills(("local", False), IN_TASKS, IN_TASKS)
def test_workers_are_killed_and_the_round_is_run_again(
    shelf: Shelf, through_spark: bool, points: Sequence[str], make_line: MakeLine
) -> None:
    line = make_line(shelf, "worker", through_spark=through_spark)
    line.feed.produce(900)
    with Run(config(line), "--once", trap=(",".join(points), "kill")) as run:
        assert run.wait() == 0, run.story()
        assert run.trapped == set(points)
        assert run.events("round-retried"), run.story()
    line.check()
    line.check_storage()


@_kills(("local", True), ("task.written",), (*IN_TASKS, *IN_DRIVER))
def test_the_jvm_is_killed(
    shelf: Shelf, through_spark: bool, points: Sequence[str], make_line: MakeLine
) -> None:
    line = make_line(shelf, "jvm", through_spark=through_spark)
    for point in points:
        line.feed.produce(600)
        with Run(config(line), "--once", trap=(point, "kill-jvm")) as run:
            assert run.wait() == 1, run.story()
            assert run.trapped
            assert "Spark" in run.errors, run.story()
            assert "Traceback" not in run.errors, run.errors
        line.check(complete=False)
    _finish(line)
