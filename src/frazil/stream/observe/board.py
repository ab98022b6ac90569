"""What is known about each pipeline at the moment, put together from its events."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from frazil.stream.events import (
    CaughtUp,
    Claimed,
    Event,
    FreshnessBroken,
    FreshnessReported,
    RoundCommitted,
    RoundRetried,
    RoundStarted,
    Stopped,
    TableStopped,
)

#: Commits of this long count for the speed shown.
_WINDOW_SECONDS = 60.0


class Phase(StrEnum):
    """What a pipeline does at the moment, as people read it."""

    STARTING = "starting"
    READING = "reading"
    WAITING = "waiting"
    CAUGHT_UP = "caught up"
    RETRYING = "retrying"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class Row:
    """One pipeline. Rows, bytes, files, commits and retries are counted since this process started."""

    pipeline: str
    phase: Phase = Phase.STARTING
    table: str | None = None
    epoch: int | None = None
    round: int | None = None
    read: int = 0
    written: int = 0
    #: Records that became dead letters.
    bad: int = 0
    bytes: int = 0
    files: int = 0
    commits: int = 0
    retries: int = 0
    #: Offsets not read yet; None: not known yet.
    lag: int | None = None
    #: Seconds that the last round took.
    round_seconds: float | None = None
    #: Wall clock (seconds since 1970) of the last commit.
    committed_at: float | None = None
    #: The reason of the last retry, or of the end.
    trouble: str | None = None


@dataclass
class _Speed:
    """Rows against time, over the commits of the last while."""

    began: float
    commits: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, now: float, rows: int) -> None:
        self.commits.append((now, rows))
        while len(self.commits) > 1 and self.commits[1][0] <= now - _WINDOW_SECONDS:
            self.began, _ = self.commits.popleft()

    def rows_per_second(self, now: float) -> float:
        if not self.commits or now - self.commits[-1][0] > _WINDOW_SECONDS:
            return 0.0
        elapsed = self.commits[-1][0] - self.began
        return sum(rows for _, rows in self.commits) / elapsed if elapsed > 0 else 0.0


class Board:
    """An observer that keeps the newest picture. Threads may read and write it."""

    def __init__(
        self,
        pipelines: Iterable[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._rows = {name: Row(name) for name in pipelines}
        self._speeds = {name: _Speed(clock()) for name in self._rows}

    def rows(self) -> list[Row]:
        with self._lock:
            return list(self._rows.values())

    def row(self, pipeline: str) -> Row:
        with self._lock:
            return self._rows[pipeline]

    def rows_per_second(self, pipeline: str) -> float:
        """Written rows, by the commits of the last minute."""
        with self._lock:
            return self._speeds[pipeline].rows_per_second(self._clock())

    def failures(self) -> dict[str, str]:
        """Pipelines that an error ended, and why."""
        return {row.pipeline: row.trouble or "" for row in self.rows() if row.phase is Phase.FAILED}

    def notify(self, event: Event) -> None:
        with self._lock:
            row = self._rows.get(event.pipeline, Row(event.pipeline))
            self._rows[event.pipeline] = self._after(row, event)

    def _after(self, row: Row, event: Event) -> Row:
        match event:
            case Claimed():
                self._speeds[event.pipeline] = _Speed(self._clock())
                return replace(row, phase=Phase.WAITING, table=event.table, epoch=event.epoch)
            case RoundStarted():
                lag = event.offsets + event.lag
                return replace(row, phase=Phase.READING, round=event.round, lag=lag)
            case RoundCommitted():
                return self._committed(row, event)
            case CaughtUp():
                return replace(row, phase=Phase.CAUGHT_UP, lag=0, trouble=None)
            case RoundRetried():
                return replace(row, phase=Phase.RETRYING, retries=row.retries + 1, trouble=event.reason)
            case TableStopped():
                return replace(row, trouble=f"{event.table} stopped: {event.error}")
            case FreshnessBroken():
                late = f"{event.table} is {event.lag:.0f} s behind, {event.freshness:g} s were promised"
                return replace(row, trouble=f"{late} ({event.cause})")
            case FreshnessReported():
                return row
            case Stopped():
                phase = Phase.STOPPED if event.error is None else Phase.FAILED
                return replace(row, phase=phase, trouble=event.error)

    def _committed(self, row: Row, event: RoundCommitted) -> Row:
        self._speeds[event.pipeline].add(self._clock(), event.written)
        return replace(
            row,
            phase=Phase.WAITING,
            round=event.round,
            read=row.read + event.read,
            written=row.written + event.written,
            bad=row.bad + event.bad,
            bytes=row.bytes + event.bytes,
            files=row.files + event.files,
            commits=row.commits + 1,
            lag=event.lag,
            round_seconds=event.seconds,
            committed_at=self._wall(),
            trouble=None,
        )
