"""A session over a made-up database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.stream.postgres.test_source import source_of

from frazil.core.stamp import Stamp
from frazil.stream.postgres import session as module
from frazil.stream.postgres.database import Slot, SourceTable
from frazil.stream.postgres.log import READS, STREAM, Records, Schemas, TopicLog
from frazil.stream.postgres.records import COMPLETED, Batch
from frazil.stream.postgres.session import Session

TOPIC = "my-shop.public.a"


def session_of(**settings: Any) -> Session:
    """One that follows a table with nothing in it, by no engine."""
    database = SimpleNamespace(settled=lambda seconds: 900, log_end=lambda: 0)
    stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source="s", positions={})
    session = Session(source_of(), cast("Any", database), stamp, **settings)
    session._logs = {TOPIC: TopicLog("1", [0, 0], None, done=True)}
    return session


def changes(*commits: int, half: bool = False, topic: str = TOPIC) -> Batch:
    """By the commit before each."""
    values = [b'{"sequence":"[\\"%d\\",\\"%d\\"]"}' % (commit, commit + 5) for commit in commits]
    lsns = [commit + 5 for commit in commits]
    records = Records([None] * len(commits), values, Schemas(b"{}"), 0, commits, lsns, half)
    return Batch(((topic, records),), commits[-1], ())


def rows(count: int, *notices: str) -> Batch:
    return Batch(((TOPIC, Records([None] * count, [b"{}"] * count, Schemas(b"{}"), 0)),), 0, notices)


def test_the_slot_stays_for_a_table_that_failed_before_it_had_a_stamp() -> None:
    """Where the others begin with all rows, an old slot would be of no use to them."""
    for stopped, dropped in (((), 1), ((TOPIC,), 0)):
        told: list[str] = []
        found = [SourceTable("public", name, "1", True, True, True) for name in "ab"]
        database = SimpleNamespace(
            check=lambda: None,
            slot=lambda: Slot("pgoutput", "d", False, False, 70),
            tables=lambda found=found: found,
            publish=lambda fresh: None,
            drop_slot=lambda told=told: told.append("dropped"),
        )
        stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source="s", positions={})
        session = Session(source_of("public.*"), cast("Any", database), stamp, stopped=stopped)
        session.open()
        session.close()
        assert len(told) == dropped
        assert [table.name for table in session._waiting] == (["b"] if stopped else ["a", "b"])
        assert session._logs[TOPIC].stopped == bool(stopped)


@pytest.mark.parametrize("whole", [True, False])
def test_rows_are_read_in_the_middle_of_a_transaction(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream may never come to a moment without one, and it waits meanwhile."""
    monkeypatch.setattr(module, "Engine", lambda *_: SimpleNamespace(start=lambda: None))
    session = session_of(whole_transactions=whole)
    session._streamed(changes(70, 80, half=not whole))
    session._waiting = [SourceTable("public", "a", "1", True, True, True)]
    session._start_snapshot()
    assert session._reading == (TOPIC,)
    session._read(rows(3, COMPLETED))
    landed: list[tuple[int, int, int]] = []
    for more in (None, changes(80, 90), changes(90, 100)):
        if more is not None:
            session._streamed(more)
        for _ in range(3):
            parts, positions, _ = session.take(100)
            landed += [(part.partition, part.start, part.end) for part in parts]
            session.settle(positions)
    # What was over before the rows, and what was not behind them, in one piece.
    ends = [3, 5] if whole else [4, 6]
    assert landed == [(STREAM, 0, 1), (READS, 0, 3), (STREAM, 1, ends[0]), (STREAM, *ends)]
