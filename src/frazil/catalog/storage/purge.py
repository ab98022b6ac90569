"""Delete the files of a dropped table and no other: what its metadata reaches, or all below a location."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.reachable import Phase, Skipped, reachable_files

_SAMPLE = 100
_MAX_WALKS = 5

#: Which of these files are another table's.
Foreign = Callable[[Sequence[str]], Awaitable[set[str]]]


@dataclass
class PurgeReport:
    """What a purge did. Not `complete` means: run it again."""

    deleted: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    skips: list[Skipped] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do; what was skipped will never be done."""
        return self.failed == 0

    def skip(self, skipped: Sequence[Skipped]) -> None:
        self.skipped += len(skipped)
        self.skips += skipped[: _SAMPLE - len(self.skips)]

    def count(self, tried: int, failures: list[tuple[str, str]]) -> None:
        self.deleted += tried - len(failures)
        self.failed += len(failures)
        self.failures += failures[: _SAMPLE - len(self.failures)]


async def _none(_: Sequence[str]) -> set[str]:
    return set()


async def purge_files(
    storage: Storage,
    metadata: Mapping[str, Any],
    metadata_location: str | None = None,
    foreign: Foreign = _none,
) -> PurgeReport:
    """Delete phase by phase. A phase with failures is finished and the next not begun.

    Call it only after the table's row is gone: from then on nobody can add a file to what is reachable.
    Metadata may name any files; those that are `foreign` are left.
    """
    report = PurgeReport()
    phase = Phase.FILES
    async for batch in reachable_files(storage, metadata, metadata_location):
        if batch.phase is not phase and report.failed:
            break
        phase = batch.phase
        others = await foreign(batch.locations)
        mine = [location for location in batch.locations if location not in others]
        report.count(len(mine), await storage.delete(mine))
        report.skip([Skipped(location, "lies in another table") for location in sorted(others)])
        report.skip(batch.skipped)
    return report


async def purge_location(
    storage: Storage, location: str, allowed: Callable[[], Awaitable[bool]]
) -> PurgeReport:
    """Delete every file below `location`, until a walk finds none.

    The location must be kept free for the whole time: `allowed` is asked before each batch, and the first
    no ends the purge as not complete. Whoever still has keys for the location may add files meanwhile;
    after a few walks that is left for another run. What is found again, deleted and yet unchanged, are
    the markers with which some writers pretend that an object store has directories: they are left.
    """
    report = PurgeReport()
    before = b""
    for _ in range(_MAX_WALKS):
        found = 0
        digest = hashlib.blake2b()
        async for batch in storage.walk(location):
            if not await allowed():
                report.count(1, [(location, "the purge was taken over by another process")])
                return report
            report.count(len(batch), await storage.delete(batch))
            found += len(batch)
            digest.update("\0".join(batch).encode())
            first = batch[0]
        if not found or report.failed:
            return report
        if digest.digest() == before:
            report.skipped = found
            report.skips = [Skipped(first, f"{found} names are listed here also after they were deleted")]
            return report
        before = digest.digest()
    report.count(1, [(first, "new files are found here time and again: somebody writes to a dropped table")])
    return report
