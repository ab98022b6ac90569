"""What a window over a watermark must give, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


def event(number: int, minute: float, word: str) -> dict[str, Any]:
    return {"id": number, "word": word, "at": (BEGIN + timedelta(minutes=minute)).isoformat()}


@dataclass
class Windows:
    """Counts by window and word. Runs are bounded: when one ends, its watermark has done its work."""

    width: timedelta
    lateness: timedelta
    watermark: datetime | None = None
    open: Counter[tuple[datetime, str]] = field(default_factory=Counter)
    closed: dict[tuple[datetime, str], int] = field(default_factory=dict)
    late: int = 0

    def run(self, events: Iterable[dict[str, Any]]) -> None:
        newest = self.watermark
        for one in events:
            at = datetime.fromisoformat(one["at"])
            start = BEGIN + (at - BEGIN) // self.width * self.width
            if self.watermark is not None and start + self.width <= self.watermark:
                self.late += 1
            else:
                self.open[start, one["word"]] += 1
            newest = at - self.lateness if newest is None else max(newest, at - self.lateness)
        self.watermark = newest
        if newest is None:
            return
        for key in [key for key in self.open if key[0] + self.width <= newest]:
            assert key not in self.closed, "a window closes once"
            self.closed[key] = self.open.pop(key)
