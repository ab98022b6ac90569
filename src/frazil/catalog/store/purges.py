"""Purges: tables and generic tables that are gone and whose files are still to be deleted."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.db import Connection, Database
from frazil.catalog.documents import Document
from frazil.catalog.store.packing import pack, unpack
from frazil.catalog.store.tabulars import Kind, touches
from frazil.core.errors import Conflict

#: A purge that shows no progress for so long is taken up by whoever comes by.
LEASE_MS = 30_000


@dataclass(frozen=True, slots=True)
class Purge:
    purge_id: str
    warehouse_id: str
    name: str
    kind: Kind
    location: str
    metadata_location: str
    metadata: bytes
    attempts: int
    not_before: int


@dataclass(frozen=True, slots=True)
class NewPurge:
    """What is to be deleted: all below `location`, or of a table what its last document reaches."""

    warehouse_id: str
    name: str
    kind: Kind
    location: str
    document: Document


async def request(connection: Connection, new: NewPurge, now_ms: int, not_before: int) -> None:
    """Part of the transaction that deletes the table's row."""
    await connection.execute(
        "INSERT INTO purge (purge_id, warehouse_id, name, kind, location, metadata_location, metadata, "
        "not_before, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        str(uuid.uuid4()),
        new.warehouse_id,
        new.name,
        new.kind,
        new.location,
        new.document.metadata_location,
        pack(new.document.raw if new.kind == "table" else b""),
        not_before,
        now_ms,
    )


async def refuse_doomed(
    connection: Connection, warehouse_id: str, location: str, ancestors: Sequence[str], *, generic: bool
) -> None:
    """No tabular may come to lie where a purge still has everything to delete.

    A table's purge knows its files by name and no new table writes under those names; but a generic table
    may be made of the very files that are there, so it also keeps away from tables that are purged.
    Asked after the check for overlaps, in its transaction, as `refuse_purged`.
    """
    conditions, places = touches(location, ancestors, 3)
    mine = "warehouse_id = $1 AND (kind = 'generic-table' OR $2 = 1)"
    looks = [f"SELECT name FROM purge WHERE {mine} AND {condition}" for condition in conditions]  # noqa: S608 (only $n)
    row = await connection.fetchrow(
        f"{' UNION ALL '.join(looks)} LIMIT 1",
        warehouse_id,
        int(generic),
        *places,
    )
    if row is not None:
        raise Conflict(
            f"{row[0]} was dropped with purge and its files at, above or below {location} are still to be "
            "deleted; choose another location or try again later",
            kind="LocationAlreadyTaken",
        )


async def refuse_purged(
    connection: Connection, warehouse_id: str, location: str, metadata_location: str
) -> None:
    """A table that comes back by its metadata file must not be one whose files are about to be deleted.

    Asked after the check for overlaps, in its transaction: a table is in the way there until the
    transaction that drops it also shows its purge here.
    """
    folder = metadata_location.rpartition("/")[0]
    rows = await connection.fetch(
        "SELECT name, metadata_location FROM purge WHERE warehouse_id = $1 AND kind = 'table'", warehouse_id
    )
    for row in rows:
        name, doomed = str(row[0]), str(row[1])
        if doomed.startswith(f"{location}/") or doomed.rpartition("/")[0] == folder:
            raise Conflict(
                f"{metadata_location} is of {name}, which was dropped with purge: its files will be deleted",
                kind="TableIsPurged",
            )


async def next_due(connection: Connection, now_ms: int) -> Purge | None:
    row = await connection.fetchrow(
        "SELECT purge_id, warehouse_id, name, kind, location, metadata_location, metadata, attempts, "
        "not_before FROM purge WHERE not_before <= $1 ORDER BY not_before LIMIT 1",
        now_ms,
    )
    if row is None:
        return None
    return Purge(row[0], row[1], row[2], row[3], row[4], row[5], unpack(row[6]), row[7], row[8])


async def claim(database: Database, purge: Purge, now_ms: int) -> int | None:
    """Take a purge for the length of a lease: its end, or None when another process was quicker."""
    until = now_ms + LEASE_MS
    touched = await database.execute(
        "UPDATE purge SET not_before = $3, attempts = attempts + 1 WHERE purge_id = $1 AND not_before = $2",
        purge.purge_id,
        purge.not_before,
        until,
    )
    return until if touched else None


async def renew(database: Database, purge_id: str, lease: int, now_ms: int) -> int | None:
    """Hold a purge longer: the lease's new end, or None when it was lost."""
    until = now_ms + LEASE_MS
    touched = await database.execute(
        "UPDATE purge SET not_before = $3 WHERE purge_id = $1 AND not_before = $2", purge_id, lease, until
    )
    return until if touched else None


async def finish(database: Database, purge_id: str, lease: int) -> None:
    await database.execute("DELETE FROM purge WHERE purge_id = $1 AND not_before = $2", purge_id, lease)


async def postpone(database: Database, purge_id: str, lease: int, error: str, until_ms: int) -> None:
    """Like `finish`, only for the one that still holds the lease."""
    await database.execute(
        "UPDATE purge SET not_before = $3, last_error = $4 WHERE purge_id = $1 AND not_before = $2",
        purge_id,
        lease,
        until_ms,
        error,
    )


async def release_all(database: Database) -> None:
    """Only where no other process can be at work: the leases of a process that died end at once."""
    await database.execute("UPDATE purge SET not_before = 0 WHERE attempts > 0")


async def waiting(connection: Connection) -> int:
    row = await connection.fetchrow("SELECT count(*) FROM purge")
    return int(row[0]) if row else 0
