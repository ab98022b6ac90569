"""Which tables a job wrote, and which jobs wrote a table. The commits themselves keep the index."""

from __future__ import annotations

from typing import Any

from frazil.catalog import wire
from frazil.catalog.api.paging import Page, next_token
from frazil.catalog.http import Request, Response, Routes, json_response
from frazil.catalog.metadata import JOB_KINDS, JobWrites, is_job_id
from frazil.catalog.metadata.jobs import MAX_JOB_ID_LENGTH
from frazil.catalog.service import Catalog
from frazil.catalog.store import jobs
from frazil.core.errors import InvalidInput
from frazil.core.names import check_name, split_levels

routes = Routes("/frazil/v1/{prefix}", tag="Jobs")


class JobsQuery(Page, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The API is our own, so a parameter that it does not know is a mistake."""


class TablesQuery(JobsQuery, frozen=True, rename="camel", forbid_unknown_fields=True):
    dropped: bool = False


@routes.add("GET", "/jobs/{kind}/{job}/tables", query=TablesQuery, answer=wire.ListWrittenTablesResponse)
async def list_written_tables(catalog: Catalog, request: Request) -> Response:
    """The tables that a job wrote; with `dropped`, also those that are gone but may be registered again.

    A job that is not known here wrote none: the answer is an empty list.
    """
    job = _job(request)
    page = request.query(TablesQuery)
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    found = await jobs.tables_of(
        catalog.database, warehouse.warehouse_id, job, page.after, page.limit, dropped=page.dropped
    )
    token = next_token([table.tabular_id for table in found], page.limit)
    return json_response({"tables": [_table(table) for table in found], "next-page-token": token})


@routes.add(
    "GET",
    "/namespaces/{namespace}/tables/{table}/jobs",
    query=JobsQuery,
    answer=wire.ListWritingJobsResponse,
)
async def list_writing_jobs(catalog: Catalog, request: Request) -> Response:
    """The jobs that wrote a table, by kind and id."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = check_name(request.params["table"], "table")
    page = request.query(JobsQuery)
    kind, _, job_id = page.after.partition(" ")
    _, table = await catalog.load(request.params["prefix"], levels, name, "table")
    found = await jobs.jobs_of(catalog.database, table.tabular_id, (kind, job_id), page.limit)
    token = next_token([f"{job.kind} {job.job_id}" for job in found], page.limit)
    answer = [{"kind": job.kind, "id": job.job_id, **_writes(job)} for job in found]
    return json_response({"jobs": answer, "next-page-token": token})


def _job(request: Request) -> tuple[wire.JobKind, str]:
    kind, job_id = request.params["kind"], request.params["job"]
    known = next((legal for legal in JOB_KINDS if legal == kind), None)
    if known is None:
        raise InvalidInput(f"kind: {kind[:80]!a} is unknown. Legal: {', '.join(JOB_KINDS)}")
    if not is_job_id(job_id):
        raise InvalidInput(f"job: {job_id[:80]!a} is not 1 to {MAX_JOB_ID_LENGTH} printable characters")
    return known, job_id


def _table(table: jobs.WrittenTable) -> dict[str, Any]:
    answer = {"namespace": table.levels, "name": table.name, **_writes(table.writes)}
    return answer if table.dropped_at is None else {**answer, "dropped-at-ms": table.dropped_at}


def _writes(writes: JobWrites) -> dict[str, int]:
    return {
        "commits": writes.commits,
        "first-timestamp-ms": writes.first_ms,
        "last-timestamp-ms": writes.last_ms,
        "last-snapshot-id": writes.last_snapshot_id,
    }
