"""What the tests of the Flink reader share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts are counted as ever, and follow one another at once."""
    monkeypatch.setattr("frazil.client.exchange.Retry.wait", _at_once)


def _at_once(self: Any, attempt: int, asked: float | None) -> float | None:
    return None if attempt >= self.attempts else 0.0
