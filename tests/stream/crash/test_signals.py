"""Ctrl-C, typed in a terminal: the kernel sends it to the JVM as well."""

from __future__ import annotations

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import config

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]
_CTRL_C = b"\x03"


def test_ctrl_c_twice_then_once(local_shelf: Shelf, make_line: MakeLine) -> None:
    """A round that never ends is left by the second one; after that, one finishes the round in hand."""
    line = make_line(local_shelf, "typed")
    line.feed.produce(300)
    with Run(config(line), trap=("task.written", "stop"), terminal=True) as run:
        run.until(lambda: run.trapped, "the trap")
        run.press(_CTRL_C)
        run.until(lambda: "Ctrl-C again stops at once" in run.shown, "an answer to the first one")
        assert run.process.poll() is None
        run.press(_CTRL_C)
        run.until(lambda: run.process.poll() is not None, "the second one ends it")
        assert run.process.returncode == 130, run.shown
        run.wake()
        run.wait()
        assert "will be read again by the next run" in run.shown
        # The cursor is back.
        assert run.shown.rindex("\x1b[?25h") > run.shown.rindex("\x1b[?25l")
    line.check(complete=False)
    assert sum(line.next_offsets()) == 0

    with Run(config(line), trap=("task.fetched", "nap"), terminal=True) as run:
        run.until(lambda: run.trapped, "the trap")
        run.press(_CTRL_C)
        assert run.wait() == 0, run.shown
        assert "nothing in flight" in run.shown
        # Spark's own messages do not tear the picture.
        assert "WARN" not in run.shown
    assert sum(line.next_offsets()) > 0
    line.check(complete=False)
    line.check_storage()
