"""The jobs that snapshots name in their summaries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

from frazil.catalog.wire import JobKind
from frazil.core.stamp import stamp_key

Json = dict[str, Any]
JOB_KINDS: tuple[JobKind, ...] = get_args(JobKind)

MAX_JOB_ID_LENGTH = 255
#: No honest snapshot names more; what a summary may cost the commit has an end.
MAX_JOBS_OF_SNAPSHOT = 16

_KEYS: tuple[tuple[str, JobKind], ...] = (("flink.job-id", "flink"), ("spark.app.id", "spark"))
#: The name of frazil's pipeline follows.
_STAMP = stamp_key("")


@dataclass(frozen=True, slots=True)
class JobWrites:
    """What one job committed to one table: how many snapshots, from when to when, and the last of them."""

    kind: JobKind
    job_id: str
    first_ms: int
    last_ms: int
    last_snapshot_id: int
    commits: int


def writes_of(snapshots: Iterable[Json]) -> tuple[JobWrites, ...]:
    """One entry for each job that the snapshots, given in their order, name."""
    found: dict[tuple[JobKind, str], JobWrites] = {}
    for snapshot in snapshots:
        when, snapshot_id = snapshot["timestamp-ms"], snapshot["snapshot-id"]
        for job in _named(snapshot.get("summary") or {}):
            before = found.get(job)
            first, commits = (when, 1) if before is None else (before.first_ms, before.commits + 1)
            found[job] = JobWrites(*job, first, when, snapshot_id, commits)
    return tuple(found.values())


def writes_of_updates(updates: Iterable[Json]) -> tuple[JobWrites, ...]:
    """The same for the snapshots that a commit adds."""
    return writes_of(update["snapshot"] for update in updates if update["action"] == "add-snapshot")


def is_job_id(text: str) -> bool:
    """Whether an id is kept. No commit is refused for a strange one: the database must take all others."""
    return 0 < len(text) <= MAX_JOB_ID_LENGTH and text.isprintable()


def _named(summary: dict[str, str]) -> list[tuple[JobKind, str]]:
    jobs = dict.fromkeys(job for job in _candidates(summary) if is_job_id(job[1]))
    return list(jobs)[:MAX_JOBS_OF_SNAPSHOT]


def _candidates(summary: dict[str, str]) -> Iterator[tuple[JobKind, str]]:
    for key, kind in _KEYS:
        if key in summary:
            yield kind, summary[key]
    # Spark's own procedures, such as a compaction, name their application in this way only.
    if summary.get("engine-name") == "spark" and "app-id" in summary:
        yield "spark", summary["app-id"]
    for key in summary:
        if key.startswith(_STAMP):
            yield "frazil", key.removeprefix(_STAMP)
