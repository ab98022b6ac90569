"""How the lanes of a loop fare, and what its rounds did."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

from frazil.core.errors import BadRecord, FrazilError
from frazil.stream.cdc.lane import Lane
from frazil.stream.cdc.result import LaneResult
from frazil.stream.rounds import RoundPlan


@dataclass
class Line:
    """A lane, and how it fares."""

    lane: Lane
    opened: bool = False
    #: Why it does not go on: nobody but the user can mend that.
    error: FrazilError | None = None
    failures: int = 0
    #: Rounds in a row after which the table had to change.
    adaptations: int = 0
    #: By the monotonic clock.
    rests_until: float = 0.0
    #: Bad records, by topic, partition and offset: the lane goes up to them and no further.
    bad: dict[tuple[str, int, int], BadRecord] = field(default_factory=dict)
    #: Since one was met, a round has landed.
    went_on: bool = False
    lags: tuple[int, ...] = ()
    #: Rows of its history that are left.
    past: int = 0
    #: The next round ends before this record, and is folded in one bucket.
    cut: tuple[str, int, int] | None = None
    alone: bool = False
    #: It ends there because of a transaction that is not there to its end, not of half a changed key.
    unfinished: bool = False
    #: Looks in a row at a log that ends where the rest of a change should be.
    waits: int = 0
    #: The other half of a changed key was waited for long enough: the next round takes what there is.
    halves: bool = False
    #: How many times the usual records a round takes, for a transaction that has more.
    stretch: int = 1
    #: What its last commit took, with the look-up; one that failed, too.
    commit_seconds: float = 0.0

    @property
    def ready(self) -> bool:
        return self.error is None and self.rests_until <= time.monotonic()

    @property
    def waiting(self) -> bool:
        """Whether there is more to read for it, as far as it knows; one that stopped waits for the user."""
        return self.ready and sum(self.lags) + self.past > 0

    @property
    def slowness(self) -> int:
        """Lines with less go first: who commits slowly is waited for by nobody. Of most it is the same."""
        return math.ceil(math.log2(max(1.0, self.commit_seconds)))

    def landed(self) -> None:
        """A round of it was committed: what went wrong before is over."""
        self.failures, self.adaptations, self.waits, self.stretch, self.halves = 0, 0, 0, 1, False
        self.went_on = bool(self.bad)


@dataclass
class Done:
    """What a round did, for those who watch."""

    plans: dict[str, RoundPlan] = field(default_factory=dict)
    read: int = 0
    written: int = 0
    bad: int = 0
    files: int = 0
    bytes: int = 0
    #: A table got what it was lacking, or the end of a round was moved: the next one comes at once.
    again: bool = False

    def add(self, topic: str, plan: RoundPlan, result: LaneResult) -> None:
        """One lane of it landed."""
        self.plans[topic] = plan
        self.read += result.read
        self.bad += result.bad
        self.written += result.upserted
        written = [file for several in result.files.values() for file in several]
        self.files += len(written)
        self.bytes += sum(file.size for file in written)
