"""What a runner tells about itself while it works; the terminal, the log and /metrics listen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True)
class Claimed:
    """The pipeline may write, from here on."""

    pipeline: str
    table: str
    epoch: int
    created_table: bool
    first_run: bool


@dataclass(frozen=True)
class RoundStarted:
    pipeline: str
    round: int
    #: Offsets to read in this round, and those left for later ones.
    offsets: int
    lag: int
    tasks: int


@dataclass(frozen=True)
class RoundCommitted:
    pipeline: str
    round: int
    #: None where there are no snapshots.
    snapshot_id: int | None
    #: Records read and rows written by this round.
    read: int
    written: int
    files: int
    bytes: int
    seconds: float
    #: Seconds of them spent in the Spark job, and in the commit.
    job_seconds: float
    commit_seconds: float
    #: Offsets still unread when the round was planned.
    lag: int
    #: Totals of the stamp.
    total_read: int
    total_written: int
    #: The lag by topic and partition.
    lags: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    #: Of the records read, those that became dead letters.
    bad: int = 0


@dataclass(frozen=True)
class CaughtUp:
    """Nothing to read at the moment."""

    pipeline: str


@dataclass(frozen=True)
class RoundRetried:
    """A round failed and will be tried again."""

    pipeline: str
    reason: str
    attempt: int
    wait_seconds: float


@dataclass(frozen=True)
class Stopped:
    """The pipeline ended: asked to, caught up (`once`), or by an error that needs somebody."""

    pipeline: str
    error: str | None = None


@dataclass(frozen=True)
class TableStopped:
    """One table of a pipeline does not go on; the others do."""

    pipeline: str
    table: str
    error: str


@dataclass(frozen=True)
class TableFreshness:
    """How a hot table is kept."""

    table: str
    #: Seconds: the age of the oldest record that is not in Iceberg; 0: all are.
    lag: float
    #: Seconds that were promised.
    freshness: float
    #: Offsets that are not in Iceberg.
    backlog: int
    #: How often the lag was beyond the freshness, since the service began.
    breaches: int = 0
    #: Of the last one, in a word: `starting`, `backlog`, `round`, `failing`, `catalog`, `kafka`.
    cause: str | None = None
    #: Why it does not go on, if so.
    trouble: str | None = None
    #: The event time that Iceberg has reached, microseconds since 1970; None: not known.
    watermark: int | None = None


@dataclass(frozen=True)
class FreshnessReported:
    """All hot tables at a moment, every few seconds."""

    pipeline: str
    tables: tuple[TableFreshness, ...]


@dataclass(frozen=True)
class FreshnessBroken:
    """The lag of a hot table is beyond what was promised."""

    pipeline: str
    table: str
    lag: float
    freshness: float
    cause: str


Event: TypeAlias = (
    Claimed
    | RoundStarted
    | RoundCommitted
    | CaughtUp
    | RoundRetried
    | TableStopped
    | Stopped
    | FreshnessReported
    | FreshnessBroken
)


class Observer(Protocol):
    """Called from the threads of the pipelines; must not block."""

    def notify(self, event: Event) -> None: ...
