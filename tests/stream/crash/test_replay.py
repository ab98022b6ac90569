"""kill -9 of `frazil dlq replay`: every repaired letter comes back once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from typing import Any

import pytest
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, config, run_once

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

REPAIR = """
import json

def repair(value):
    number = json.loads(value)["bad"]
    at = "2026-01-01T00:00:00+00:00"
    return json.dumps({"id": -number, "part": 9, "seq": number, "at": at, "note": "repaired"}).encode()
"""
AT = 1_767_225_600_000_000


def dlq(line: Line, what: str, *arguments: str, failpoint: str | None = None) -> Run:
    return Run(
        config(line),
        line.name,
        *arguments,
        command=f"dlq {what}",
        failpoint=failpoint,
        modules={"fix.py": REPAIR},
    )


def answered(run: Run, code: int = 0) -> Any:
    with run:
        assert run.wait() == code, run.story()
        return run.document()


@pytest.mark.parametrize("shelf", ["local", pytest.param("s3", marks=pytest.mark.exhaustive)], indirect=True)
def test_a_replay_is_killed_and_done_again(shelf: Shelf, make_line: MakeLine) -> None:
    line = make_line(shelf, "replay")
    line.feed.produce(60)
    for number in (1, 2, 3):
        line.feed.put(json.dumps({"bad": number}).encode(), number % 2)
    run_once(line).close()
    repaired = Counter((-number, 9, number, AT, "repaired") for number in (1, 2, 3))
    how = ("--yes", "--repair", "fix:repair")
    for point, landed in (("commit.before", False), ("commit.after", True)):
        with dlq(line, "replay", *how, failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        line.check(extra=repaired if landed else None)
    assert answered(dlq(line, "replay", *how)) == {"letters": 0, "rows": 0, "still-bad": []}
    line.check(extra=repaired)
    line.check_storage()
