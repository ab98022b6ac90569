"""Events as log lines and as JSON."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields

from tests.stream.observe.story import claimed, committed, started

from frazil.stream.events import CaughtUp, Event, RoundRetried, Stopped
from frazil.stream.observe import JsonLines, PlainLines

_ALL: list[Event] = [
    claimed(),
    started(),
    committed(),
    CaughtUp("orders"),
    RoundRetried("orders", "no\nanswer", attempt=2, wait_seconds=4),
    Stopped("orders", "a record cannot be decoded"),
]


def _plain(*events: Event) -> list[str]:
    out = io.StringIO()
    lines = PlainLines(out)
    for event in events:
        lines.notify(event)
    return out.getvalue().splitlines()


def test_a_line_for_each_commit_with_time_and_pipeline() -> None:
    lines = _plain(*_ALL)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z orders ", line) for line in lines)
    texts = [line.split(" ", 2)[2] for line in lines]
    assert texts == [
        "claimed shop.orders (created, first run, epoch 3)",
        (
            "committed round 1: 90 rows of 100 records in 2 files (12.3 kB), 2.5s (job 2.0s, commit 500ms), "
            "lag 40, total 90 rows, snapshot 77"
        ),
        "caught up",
        "retry 2 in 4.0s: no | answer",
        "FAILED: a record cannot be decoded",
    ]


def test_caught_up_is_said_once_until_there_are_rows() -> None:
    idle = CaughtUp("orders")
    lines = _plain(idle, idle, CaughtUp("clicks"), committed(), idle, idle)
    assert [line.split(" ", 1)[1][:17] for line in lines] == [
        "orders caught up",
        "clicks caught up",
        "orders committed ",
        "orders caught up",
    ]


def test_nothing_that_steers_a_terminal_gets_into_a_line() -> None:
    (line,) = _plain(Stopped("orders", "bad \x1b[2J value\r\nsecond"))
    assert line.endswith("FAILED: bad ?[2J value | second")


def test_json_has_every_field_of_every_event() -> None:
    out = io.StringIO()
    lines = JsonLines(out)
    for event in _ALL:
        lines.notify(event)
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    kinds = ["claimed", "round-started", "round-committed", "caught-up", "round-retried", "stopped"]
    assert [document["event"] for document in found] == kinds
    for event, document in zip(_ALL, found, strict=True):
        values = json.loads(json.dumps({spec.name: getattr(event, spec.name) for spec in fields(event)}))
        assert {key: value for key, value in document.items() if key not in ("event", "at")} == values
