"""Two writers of one pipeline: started together, and one that wakes after another took over."""

from __future__ import annotations

import signal

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import config, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def test_two_copies_started_at_once(local_shelf: Shelf, make_line: MakeLine) -> None:
    line = make_line(local_shelf, "twins")
    line.feed.produce(1500)
    with Run(config(line), "--once") as one, Run(config(line), "--once") as two:
        codes = {one.wait(), two.wait()}
        story = one.story() + two.story()
        # One of them wrote to the end. The other one ended before that, or noticed.
        assert codes in ({0}, {0, 1}), story
        if codes == {0, 1}:
            assert "took over" in one.errors + two.errors, story
    line.check()
    line.check_storage()


@pytest.mark.parametrize(
    "point",
    [
        "commit.before",
        *(
            pytest.param(point, marks=pytest.mark.exhaustive)
            for point in ("claim.after", "round.planned", "round.job-done", "commit.after")
        ),
    ],
)
def test_a_zombie_changes_nothing(local_shelf: Shelf, make_line: MakeLine, point: str) -> None:
    line = make_line(local_shelf, "zombie")
    line.feed.produce(600)
    with Run(config(line), "--once", trap=(point, "stop")) as zombie:
        zombie.until(lambda: zombie.trapped, "the trap")
        run_once(line).close()
        line.check()
        before = line.shelf.load(line.table).metadata
        # There is more to read, so that it would write if it could.
        line.feed.produce(300)
        zombie.signal(signal.SIGCONT)
        assert zombie.wait() == 1, zombie.story()
        assert "took over" in zombie.errors
    assert line.shelf.load(line.table).metadata == before
    line.check(complete=False)
    line.check_storage()


@pytest.mark.exhaustive
def test_a_worker_that_slept_through_a_takeover_writes_nothing_visible(
    local_shelf: Shelf, make_line: MakeLine
) -> None:
    line = make_line(local_shelf, "sleeper")
    line.feed.produce(600)
    with Run(config(line), "--once", trap=("task.fetched", "stop")) as zombie:
        zombie.until(lambda: zombie.trapped, "the trap")
        run_once(line).close()
        line.check()
        zombie.wake()
        assert zombie.wait() == 1, zombie.story()
        assert "took over" in zombie.errors
    line.check()
    line.check_storage()
