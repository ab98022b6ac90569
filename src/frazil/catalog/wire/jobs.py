"""Which job wrote which table: frazil's own part of the API."""

from __future__ import annotations

from typing import Literal, TypeAlias

from frazil.catalog.wire.model import Count, Int64, Namespace, Wire

JobKind: TypeAlias = Literal["flink", "frazil", "spark"]


class JobWrites(Wire, kw_only=True):
    """How often a job committed to a table, and when: the timestamps of its first and last snapshot there."""

    commits: Count
    first_timestamp_ms: Int64
    last_timestamp_ms: Int64
    last_snapshot_id: Int64


class WrittenTable(JobWrites, kw_only=True):
    """A table under its present name, or under its last one if it was dropped."""

    namespace: Namespace
    name: str
    dropped_at_ms: Int64 | None = None


class WritingJob(JobWrites, kw_only=True):
    kind: JobKind
    id: str


class ListWrittenTablesResponse(Wire):
    tables: list[WrittenTable]
    next_page_token: str | None = None


class ListWritingJobsResponse(Wire):
    jobs: list[WritingJob]
    next_page_token: str | None = None
