"""What a pipeline does for its tables between rounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Maintenance:
    """The defaults keep a day of history for a table that is committed to every 30 s."""

    #: Small files are merged after so many commits; None: never.
    merge_every: int | None = 100
    #: Snapshots older than this many seconds expire, but for what a stamp or ref needs; None: never.
    keep_snapshots: float | None = 24 * 3600.0
    #: So do younger ones beyond this number: each is about 1.2 kB of the metadata that every commit writes.
    most_snapshots: int = 3000
    #: Whatever these two say, all that main was within so many seconds stays: who pinned it reads it again.
    keep_all: float | None = None
