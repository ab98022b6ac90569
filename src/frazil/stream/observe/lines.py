"""Events as lines: for people who read logs, and as JSON for programs."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TextIO

import msgspec

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
from frazil.stream.observe.texts import count, counted, seconds, size

_KINDS: dict[type, str] = {
    Claimed: "claimed",
    RoundStarted: "round-started",
    RoundCommitted: "round-committed",
    CaughtUp: "caught-up",
    RoundRetried: "round-retried",
    TableStopped: "table-stopped",
    Stopped: "stopped",
    FreshnessReported: "freshness-reported",
    FreshnessBroken: "freshness-broken",
}


class JsonLines:
    """One JSON object for each event: `event` is its kind, `at` the time, the rest its fields."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def notify(self, event: Event) -> None:
        document = {"event": _KINDS[type(event)], "at": _now(), **msgspec.to_builtins(event)}
        line = msgspec.json.encode(document).decode()
        with self._lock:
            print(line, file=self._out, flush=True)


class PlainLines:
    """One line for each commit, retry and change of state; the start of a round is not news."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._caught_up: set[str] = set()

    def notify(self, event: Event) -> None:
        with self._lock:
            text = self._text(event)
            if text is not None:
                print(f"{_now()} {event.pipeline} {one_line(text)}", file=self._out, flush=True)

    def _text(self, event: Event) -> str | None:
        already = event.pipeline in self._caught_up
        if isinstance(event, CaughtUp):
            # It is told at every look at the log; one line is enough until there are rows again.
            self._caught_up.add(event.pipeline)
            return None if already else "caught up"
        if isinstance(event, RoundCommitted):
            self._caught_up.discard(event.pipeline)
        return event_text(event)


def event_text(event: Event) -> str | None:
    """An event in words, without its pipeline."""
    match event:
        case Claimed():
            made = "created, " if event.created_table else ""
            first = "first run" if event.first_run else "goes on"
            return f"claimed {event.table} ({made}{first}, epoch {event.epoch})"
        case RoundStarted():
            return None
        case RoundCommitted():
            bad = f", {counted(event.bad, 'dead letter')}," if event.bad else ""
            snapshot = "" if event.snapshot_id is None else f", snapshot {event.snapshot_id}"
            return (
                f"committed round {event.round}: {counted(event.written, 'row')} of "
                f"{counted(event.read, 'record')}{bad} in {counted(event.files, 'file')} "
                f"({size(event.bytes)}), {seconds(event.seconds)} (job {seconds(event.job_seconds)}, "
                f"commit {seconds(event.commit_seconds)}), lag {count(event.lag)}, "
                f"total {counted(event.total_written, 'row')}{snapshot}"
            )
        case CaughtUp():
            return "caught up"
        case RoundRetried():
            return f"retry {event.attempt} in {seconds(event.wait_seconds)}: {event.reason}"
        case TableStopped():
            return f"the table {event.table} STOPPED, the others go on: {event.error}"
        case FreshnessReported():
            return None
        case FreshnessBroken():
            return (
                f"the table {event.table} is {event.lag:.1f} s behind, and {event.freshness:g} s were "
                f"promised (cause: {event.cause})"
            )
        case Stopped():
            return "stopped" if event.error is None else f"FAILED: {event.error}"


def one_line(text: str) -> str:
    """A log line stays one, whatever a reason holds."""
    parts = (part.strip() for part in text.splitlines())
    joined = " | ".join(part for part in parts if part)
    return "".join(char if char.isprintable() else "?" for char in joined)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
