"""A topic, a table and the pipeline between them, and the question whether they agree."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.stream.crash.records import SCHEMA, Feed, Row, below
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf

_numbers = itertools.count(1)
NAMESPACE = "crash"
#: The same rows by the Spark path.
SAME = "SELECT id, part, seq, at, note FROM source"


@dataclass
class Line:
    """One pipeline with its own topic and table."""

    name: str
    shelf: Shelf
    feed: Feed
    through_spark: bool = False
    #: A few records a round, so that there are rounds before and after the one that is disturbed.
    records_per_round: int = 400
    records_per_task: int = 100
    partitioning: tuple[str, ...] = ("bucket(2, id)",)
    #: A table for each partition of the topic.
    routed: bool = False
    #: Bad records stop it.
    strict: bool = False
    #: Commits after which small files are merged.
    merge_every: int | None = None

    @property
    def table(self) -> str:
        return f"{NAMESPACE}.{self.name}"

    @property
    def letters(self) -> str:
        return f"{self.table}_dead_letters"

    @property
    def home(self) -> str:
        """Where the stamp is."""
        return self.letters if self.routed else self.table

    @property
    def tables(self) -> list[str]:
        """Those that have rows."""
        parts = range(self.feed.partitions)
        wanted = [f"{self.table}_{part}" for part in parts] if self.routed else [self.table]
        return [name for name in wanted if self.shelf.exists(name)]

    def config(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "source": {"topics": [self.feed.topic]},
            "schema": SCHEMA,
            "table": f"{self.table}_{{part}}" if self.routed else self.table,
            "event_time": "at",
            "freshness": "200ms",
            "limits": {
                "records_per_round": self.records_per_round,
                "records_per_task": self.records_per_task,
            },
        }
        if self.partitioning:
            found["partitioning"] = list(self.partitioning)
        if self.through_spark:
            found["transform"] = SAME
        if self.merge_every:
            found["maintenance"] = {"merge_every": self.merge_every}
        if self.strict:
            found["dead_letters"] = "stop"
        return found

    def next_offsets(self) -> list[int]:
        """Of the newest stamp; empty if there is none."""
        stamp = next(self.shelf.stamps(self.home, self.name), None)
        return [] if stamp is None else list(stamp["positions"][self.feed.topic]["next"])

    def check(self, *, complete: bool = True, extra: Counter[Row] | None = None) -> None:
        """The table has what the log has below the stamp, once; `complete`: and that is all of the log."""
        log = self.feed.log()
        rows = sum((self.shelf.rows(name) for name in self.tables), Counter[Row]())
        if self.shelf.exists(self.letters):
            rows += self.shelf.letters(self.letters)
        positions = self.next_offsets() if self.shelf.exists(self.home) else []
        expected = below(log, positions) + (extra or Counter())
        lost, twice = expected - rows, rows - expected
        assert not lost, f"{lost.total()} rows lost, such as {min(lost)}"
        assert not twice, f"{twice.total()} rows too many, such as {min(twice)}"
        if complete:
            assert below(log, positions) == Counter(log.values()), "not everything was read"

    def check_storage(self) -> None:
        """After a claim that followed, no file of a failed round is left."""
        places = [*self.tables, *([self.letters] if self.shelf.exists(self.letters) else [])]
        stray = {path for name in places for path in self.shelf.stray_files(name)}
        assert not stray, f"files that no snapshot refers to: {sorted(stray)}"


def config(*lines: Line) -> dict[str, Any]:
    """The file of these pipelines: one catalog, one Spark."""
    shelf, feed = lines[0].shelf, lines[0].feed
    catalog = {"uri": shelf.server.uri}
    if shelf.warehouse is not None:
        catalog["warehouse"] = shelf.warehouse
    return {
        "catalog": catalog,
        "kafka": {"bootstrap.servers": feed.bootstrap},
        "spark": {"master": "local[2]"},
        "pipelines": {line.name: line.config() for line in lines},
    }


def fresh(stem: str) -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}".replace("_", "-")


def run_once(*lines: Line, code: int = 0) -> Run:
    """A whole bounded run; its events are still there afterwards."""
    run = Run(config(*lines), "--once")
    try:
        found = run.wait()
        assert found == code, f"exit code {found}, not {code}\n{run.story()}"
    except BaseException:
        run.close()
        raise
    return run


def caught_up(run: Run, line: Line, *, extra: Counter[Row] | None = None) -> None:
    """Wait until all that is in the log now is in the table."""
    log = len(line.feed.log())

    def landed() -> bool:
        assert run.process.poll() is None, run.story()
        committed = run.events("round-committed", line.name)
        return bool(committed) and committed[-1]["total_read"] == log

    run.until(landed, f"the rows of {line.name} in the table")
    line.check(extra=extra)
