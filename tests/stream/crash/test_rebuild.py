"""kill -9 of `frazil rebuild`: the table is the old one or the new one, and the next rebuild cleans up."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, config, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

#: Where it dies, and whether it was swapped in by then.
STEPS = (
    ("rebuild.claimed", False),
    ("round.job-done@2", False),
    ("rebuild.built", False),
    ("commit.before", False),
    ("commit.after", True),
    ("rebuild.swapped", True),
)
FEW = (STEPS[1], STEPS[3], STEPS[4])


def rebuild(line: Line, *arguments: str, failpoint: str | None = None) -> Run:
    return Run(config(line), line.name, "--yes", *arguments, command="rebuild", failpoint=failpoint)


def swaps(line: Line) -> int:
    summaries = [found.summary for found in line.shelf.load(line.table).snapshots()]
    return sum("frazil.rebuild" in found.additional_properties for found in summaries if found is not None)


def answered(run: Run) -> Any:
    with run:
        assert run.wait() == 0, run.story()
        (document,) = run.document()
        return document


@pytest.mark.parametrize(
    ("shelf", "steps"),
    [("local", FEW), pytest.param("s3", STEPS, marks=pytest.mark.exhaustive)],
    indirect=["shelf"],
    ids=["local", "s3"],
)
def test_a_rebuild_is_killed_and_done_again(
    shelf: Shelf, make_line: MakeLine, steps: tuple[tuple[str, bool], ...]
) -> None:
    line = make_line(shelf, "rebuild")
    line.records_per_round = 100
    line.feed.produce(240)
    line.feed.put(json.dumps({"bad": 1}).encode(), 1)
    run_once(line).close()
    line.check()
    landed = 0
    for point, swapped in steps:
        with rebuild(line, failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        landed += swapped
        assert swaps(line) == landed
        line.check()
    # The pipeline goes on beside what is left of them.
    line.feed.produce(60)
    run_once(line).close()
    line.check()
    done = answered(rebuild(line))
    assert (done["rows-before"], done["rows-after"], done["bad"]) == (300, 300, 1)
    assert done["new-dead-letters"] == 0
    line.check()
    line.check_storage()
    assert not any(name.endswith("_rebuild") for name in line.shelf.load(line.table).refs())


@pytest.mark.exhaustive
def test_what_a_killed_rebuild_left_is_removed(local_shelf: Shelf, make_line: MakeLine) -> None:
    line = make_line(local_shelf, "abandoned")
    line.feed.produce(50)
    run_once(line).close()
    # Its own table has all that the log has.
    history = ("--history", line.table)
    with rebuild(line, *history, failpoint="rebuild.built") as run:
        assert run.wait() == -signal.SIGKILL, run.story()
    assert line.shelf.stray_files(line.table)
    left = {name for name in line.shelf.load(line.table).refs() if name.endswith("_rebuild")}
    assert f"frazil-history.{line.name}_rebuild" in left
    with rebuild(line, *history, "--abandon") as run:
        assert run.wait() == 0, run.story()
    line.check()
    line.check_storage()
    assert left.isdisjoint(line.shelf.load(line.table).refs())
