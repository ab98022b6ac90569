"""Which job wrote which table: rows that are kept in the transaction of the commit.

A row belongs to the table's id, so a rename does not touch it. The rows of a dropped table wait in case that
it is registered again; a purge takes them along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.db import Connection
from frazil.catalog.metadata import JobWrites
from frazil.catalog.wire import JobKind
from frazil.core.names import LEVEL_SEPARATOR

_COLUMNS = "tabular_id, kind, job_id, warehouse_id, first_at, last_at, last_snapshot_id, commits"
_ADD = (
    "ON CONFLICT (tabular_id, kind, job_id) DO UPDATE SET last_at = excluded.last_at, "
    "last_snapshot_id = excluded.last_snapshot_id, commits = job_table.commits + excluded.commits"
)
_WRITES = "j.first_at, j.last_at, j.last_snapshot_id, j.commits"
_OF_JOB = "j.warehouse_id = $1 AND j.kind = $2 AND j.job_id = $3 AND j.tabular_id > $4"
_LIVE = (
    f"SELECT j.tabular_id AS id, n.path, t.name, NULL AS dropped_at, {_WRITES} FROM job_table j "  # noqa: S608
    "JOIN tabular t ON t.tabular_id = j.tabular_id JOIN namespace n ON n.namespace_id = t.namespace_id "
    f"WHERE {_OF_JOB}"
)
_DROPPED = (
    f"SELECT j.tabular_id, d.path, d.name, d.dropped_at, {_WRITES} FROM job_table j "  # noqa: S608
    f"JOIN dropped_table d ON d.tabular_id = j.tabular_id WHERE {_OF_JOB}"
)
#: Rows of one statement: six parameters each, of which SQLite takes 32,766 in all.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table that a job wrote; pages follow the id."""

    tabular_id: str
    levels: tuple[str, ...]
    name: str
    dropped_at: int | None
    writes: JobWrites


@dataclass(frozen=True, slots=True)
class Written:
    """A table that has rows, and its name as it is written."""

    tabular_id: str
    warehouse_id: str
    path: str
    name: str


@dataclass(frozen=True, slots=True)
class Registered:
    """A table that came by its metadata file."""

    warehouse_id: str
    tabular_id: str
    table_uuid: str
    jobs: Sequence[JobWrites]


def noting(jobs: Sequence[JobWrites], first: int) -> tuple[str, list[object]]:
    """PostgreSQL's end of a statement that begins with `WITH swapped AS (…)`; parameters begin at `first`."""
    row = "${}::text, ${}::text, ${}::bigint, ${}::bigint, ${}::bigint, ${}::bigint"
    rows = [f"({row.format(*range(start, start + 6))})" for start in range(first, first + 6 * len(jobs), 6)]
    sql = (
        f"INSERT INTO job_table ({_COLUMNS}) SELECT s.tabular_id, v.kind, v.job_id, s.warehouse_id, "  # noqa: S608
        f"v.first_at, v.last_at, v.last_snapshot_id, v.commits FROM swapped s CROSS JOIN (VALUES "
        f"{', '.join(rows)}) AS v (kind, job_id, first_at, last_at, last_snapshot_id, commits) {_ADD}"
    )
    return sql, [value for job in jobs for value in _values(job)]


async def note(connection: Connection, tabular_id: str, warehouse_id: str, jobs: Sequence[JobWrites]) -> None:
    """Count what a commit brought; part of its transaction, after its swap."""
    await _insert(connection, tabular_id, warehouse_id, jobs, _ADD)


async def restore(connection: Connection, new: Registered) -> None:
    """Rows of a registered table: what was known of it before it was dropped, then what its file says."""
    rows = await connection.fetch(
        "SELECT tabular_id FROM dropped_table WHERE warehouse_id = $1 AND table_uuid = $2",
        new.warehouse_id,
        new.table_uuid,
    )
    for row in rows:
        await connection.execute(
            f"INSERT INTO job_table ({_COLUMNS}) SELECT $2, kind, job_id, warehouse_id, first_at, last_at, "  # noqa: S608
            "last_snapshot_id, commits FROM job_table WHERE tabular_id = $1 ON CONFLICT DO NOTHING",
            row[0],
            new.tabular_id,
        )
        await forget(connection, row[0])
        await connection.execute("DELETE FROM dropped_table WHERE tabular_id = $1", row[0])
    await _insert(connection, new.tabular_id, new.warehouse_id, new.jobs, "ON CONFLICT DO NOTHING")


async def forget(connection: Connection, tabular_id: str) -> None:
    """The table is gone for good."""
    await connection.execute("DELETE FROM job_table WHERE tabular_id = $1", tabular_id)


async def about_to_drop(connection: Connection, tabular_id: str) -> Written | None:
    """What will be needed once the table's row is gone; None of a table that no job wrote."""
    row = await connection.fetchrow(
        "SELECT t.warehouse_id, n.path, t.name FROM tabular t "
        "JOIN namespace n ON n.namespace_id = t.namespace_id WHERE t.tabular_id = $1 "
        "AND EXISTS (SELECT 1 FROM job_table j WHERE j.tabular_id = $1)",
        tabular_id,
    )
    return Written(tabular_id, row[0], row[1], row[2]) if row else None


async def keep_dropped(connection: Connection, table: Written, table_uuid: str, now_ms: int) -> None:
    """Part of the transaction that deletes the table's row."""
    await connection.execute(
        "INSERT INTO dropped_table (tabular_id, warehouse_id, path, name, table_uuid, dropped_at) "
        "VALUES ($1, $2, $3, $4, $5, $6)",
        table.tabular_id,
        table.warehouse_id,
        table.path,
        table.name,
        table_uuid,
        now_ms,
    )


async def tables_of(
    connection: Connection,
    warehouse_id: str,
    job: tuple[JobKind, str],
    after: str,
    limit: int,
    *,
    dropped: bool,
) -> list[WrittenTable]:
    """The tables of a warehouse that a job wrote, in the order of their ids."""
    looks = f"{_LIVE} UNION ALL {_DROPPED}" if dropped else _LIVE
    rows = await connection.fetch(f"{looks} ORDER BY id LIMIT $5", warehouse_id, *job, after, limit)
    return [
        WrittenTable(
            row[0],
            tuple(row[1].split(LEVEL_SEPARATOR)),
            row[2],
            row[3],
            JobWrites(*job, row[4], row[5], row[6], row[7]),
        )
        for row in rows
    ]


async def jobs_of(
    connection: Connection, tabular_id: str, after: tuple[str, str], limit: int
) -> list[JobWrites]:
    """The jobs that wrote a table, by kind and id."""
    rows = await connection.fetch(
        f"SELECT j.kind, j.job_id, {_WRITES} FROM job_table j WHERE j.tabular_id = $1 "  # noqa: S608
        "AND (j.kind, j.job_id) > ($2, $3) ORDER BY j.kind, j.job_id LIMIT $4",
        tabular_id,
        *after,
        limit,
    )
    return [JobWrites(row[0], row[1], row[2], row[3], row[4], row[5]) for row in rows]


async def _insert(
    connection: Connection, tabular_id: str, warehouse_id: str, jobs: Sequence[JobWrites], otherwise: str
) -> None:
    for begin in range(0, len(jobs), _BATCH):
        batch = jobs[begin : begin + _BATCH]
        starts = range(3, 3 + 6 * len(batch), 6)
        rows = [f"($1, ${at}, ${at + 1}, $2, ${at + 2}, ${at + 3}, ${at + 4}, ${at + 5})" for at in starts]
        await connection.execute(
            f"INSERT INTO job_table ({_COLUMNS}) VALUES {', '.join(rows)} {otherwise}",  # noqa: S608 (only $n)
            tabular_id,
            warehouse_id,
            *(value for job in batch for value in _values(job)),
        )


def _values(job: JobWrites) -> tuple[object, ...]:
    return (job.kind, job.job_id, job.first_ms, job.last_ms, job.last_snapshot_id, job.commits)
