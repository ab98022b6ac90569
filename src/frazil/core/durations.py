"""Durations as people write them: `500ms`, `30s`, `5m` (or `5min`), `1h`, `2d`."""

from __future__ import annotations

import re

from frazil.core.errors import InvalidConfig

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|d)")


def parse_duration(text: str) -> float:
    """Seconds.

    >>> parse_duration("30s"), parse_duration("500ms"), parse_duration("1.5h")
    (30.0, 0.5, 5400.0)
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidConfig(
            f"'{text}' is no duration: write a number and a unit (ms, s, m, h, d), such as 30s"
        )
    return float(match[1]) * _SECONDS[match[2]]


def show_duration(seconds: float) -> str:
    """The same in the largest unit that keeps it readable.

    >>> show_duration(0.25), show_duration(30), show_duration(90), show_duration(7200)
    ('250ms', '30s', '1m 30s', '2h')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    whole = round(seconds)
    parts = []
    for unit in ("d", "h", "m", "s"):
        count, whole = divmod(whole, int(_SECONDS[unit]))
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
