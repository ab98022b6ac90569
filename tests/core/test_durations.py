from __future__ import annotations

import pytest

from frazil.core.durations import parse_duration, show_duration
from frazil.core.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("30s", 30.0), ("1.5m", 90.0), ("2h", 7200.0), ("1d", 86400.0), (" 5 s ", 5.0)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "1w", "1s 2m", "1e3s", "\uff11s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="number and a unit"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "250ms"), (30, "30s"), (90, "1m 30s"), (7200, "2h"), (90061, "1d 1h")]
)
def test_durations_are_shown(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text
