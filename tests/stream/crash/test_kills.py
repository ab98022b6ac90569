"""kill -9 of the driver, of a Python worker and of the JVM, at every step."""

from __future__ import annotations

import json
import signal
from itertools import product

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.points import IN_DRIVER, IN_TASKS
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, config, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def _ways(first: tuple[str, bool]) -> list[object]:
    """Storage and path: one of them always, all in the long version."""
    names = {True: "spark", False: "fused"}
    return [
        pytest.param(
            storage,
            path,
            id=f"{storage}-{names[path]}",
            marks=() if (storage, path) == first else pytest.mark.exhaustive,
        )
        for storage, path in product(("s3", "local"), (False, True))
    ]


def _finish(line: Line) -> None:
    run_once(line).close()
    line.check()
    line.check_storage()


@pytest.mark.parametrize(("shelf", "through_spark"), _ways(("s3", False)), indirect=["shelf"])
def test_the_driver_is_killed_at_every_step(shelf: Shelf, through_spark: bool, make_line: MakeLine) -> None:
    """One after the other, so that each start is also the recovery from the death before.

    Everything local is deleted between them.
    """
    line = make_line(shelf, "driver", through_spark=through_spark)
    for point in IN_DRIVER:
        line.feed.produce(240)
        with Run(config(line), "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        line.check(complete=False)
    line.feed.produce(240)
    _finish(line)


@pytest.mark.parametrize(("shelf", "through_spark"), _ways(("s3", False)), indirect=["shelf"])
@pytest.mark.parametrize(
    "routed", [True, pytest.param(False, marks=pytest.mark.exhaustive)], ids=["many", "one"]
)
def test_commits_to_several_tables_survive_the_driver(
    shelf: Shelf, through_spark: bool, routed: bool, make_line: MakeLine
) -> None:
    """Bad records, and rows for several tables: all of a round lands, or nothing of it."""
    line = make_line(shelf, "several", through_spark=through_spark, routed=routed)
    for number, point in enumerate(IN_DRIVER):
        line.feed.produce(120)
        for partition in range(line.feed.partitions):
            line.feed.put(json.dumps({"bad": [number, partition]}).encode(), partition)
        # The claim comes once; a round that meets new tables is run twice.
        again = "@2" if point.startswith("round") and number % 2 else ""
        with Run(config(line), "--once", failpoint=point + again) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        line.check(complete=False)
    line.feed.produce(120)
    _finish(line)


@pytest.mark.parametrize(("shelf", "through_spark"), _ways(("local", False)), indirect=["shelf"])
def test_workers_are_killed_and_the_round_is_run_again(
    shelf: Shelf, through_spark: bool, make_line: MakeLine
) -> None:
    line = make_line(shelf, "worker", through_spark=through_spark)
    line.feed.produce(900)
    with Run(config(line), "--once", trap=(",".join(IN_TASKS), "kill")) as run:
        assert run.wait() == 0, run.story()
        assert run.trapped == set(IN_TASKS)
        assert run.events("round-retried"), run.story()
    line.check()
    line.check_storage()


@pytest.mark.parametrize(("shelf", "through_spark"), _ways(("local", True)), indirect=["shelf"])
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point == "task.written" else pytest.mark.exhaustive)
        for point in (*IN_TASKS, *IN_DRIVER)
    ],
)
def test_the_jvm_is_killed(shelf: Shelf, through_spark: bool, point: str, make_line: MakeLine) -> None:
    line = make_line(shelf, "jvm", through_spark=through_spark)
    line.feed.produce(600)
    with Run(config(line), "--once", trap=(point, "kill-jvm")) as run:
        assert run.wait() == 1, run.story()
        assert run.trapped
        assert "Spark" in run.errors, run.story()
        assert "Traceback" not in run.errors, run.errors
    line.check(complete=False)
    _finish(line)
