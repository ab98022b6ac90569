"""Delete everything that a dropped table's metadata reaches, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.reachable import Phase, Skipped, reachable_files

_SAMPLE = 100


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


async def purge_files(
    storage: Storage, metadata: Mapping[str, Any], metadata_location: str | None = None
) -> PurgeReport:
    """Delete phase by phase. A phase with failures is finished and the next not begun.

    Call it only after the table's row is gone: from then on nobody can add a file to what is reachable.
    """
    report = PurgeReport()
    phase = Phase.FILES
    async for batch in reachable_files(storage, metadata, metadata_location):
        if batch.phase is not phase and report.failed:
            break
        phase = batch.phase
        failures = await storage.delete(batch.locations)
        report.deleted += len(batch.locations) - len(failures)
        report.failed += len(failures)
        report.skipped += len(batch.skipped)
        report.failures += failures[: _SAMPLE - len(report.failures)]
        report.skips += batch.skipped[: _SAMPLE - len(report.skips)]
    return report
