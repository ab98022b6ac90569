"""One event to many observers."""

from __future__ import annotations

import logging

import pytest

from frazil.stream.events import CaughtUp, Event
from frazil.stream.observe import Observers


class _Broken:
    def notify(self, event: Event) -> None:
        raise RuntimeError("no display")


class _Seen:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def notify(self, event: Event) -> None:
        self.events.append(event)


def test_an_observer_that_fails_hurts_neither_the_pipeline_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = _Seen()
    with caplog.at_level(logging.ERROR):
        Observers([_Broken(), seen]).notify(CaughtUp("orders"))
    assert seen.events == [CaughtUp("orders")]
    assert "no display" in caplog.text
