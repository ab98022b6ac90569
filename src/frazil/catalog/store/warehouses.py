"""Warehouses in the database, as the management API sees them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from frazil.catalog.db import Connection, Database, ForeignKeyViolation, Row, UniqueViolation
from frazil.catalog.storage import Profile, encode_profile, parse_profile
from frazil.catalog.store import projects
from frazil.core.errors import AlreadyExists, Conflict, NoSuchWarehouse, PurgeUnfinished
from frazil.core.names import name_key

_decode = msgspec.json.decode
#: What is due later than that is nothing to wait for.
_SOON_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class WarehouseRow:
    """Everything about a warehouse; `sealed` is its credential as it is stored."""

    warehouse_id: str
    project_id: str
    name: str
    status: str
    protected: bool
    managed_by: str
    profile: Profile
    sealed: bytes | None
    delete_profile: dict[str, Any]
    allowed_format_versions: list[int]
    default_format_version: int | None
    version: int = 1
    updated_at: int | None = None


async def get(connection: Connection, warehouse_id: str) -> WarehouseRow:
    row = await connection.fetchrow("SELECT * FROM warehouse WHERE warehouse_id = $1", warehouse_id)
    if row is None:
        raise no_such(warehouse_id)
    return _warehouse(row)


async def list_project(
    connection: Connection, project_id: str, statuses: Sequence[str]
) -> list[WarehouseRow]:
    """The warehouses of a project in the order of their names."""
    rows = await connection.fetch(
        "SELECT * FROM warehouse WHERE project_id = $1 ORDER BY name_key", project_id
    )
    return [warehouse for row in rows if (warehouse := _warehouse(row)).status in statuses]


async def profiles(connection: Connection) -> list[tuple[str, str, Profile]]:
    """Id, name and profile of every warehouse of every project."""
    rows = await connection.fetch("SELECT warehouse_id, name, storage_profile FROM warehouse")
    return [(row[0], row[1], parse_profile(_decode(row[2]))) for row in rows]


async def lock_places(database: Database, connection: Connection) -> None:
    """Until the transaction ends, nobody else places a warehouse. SQLite has one writer anyway."""
    if database.dialect == "postgresql":
        await connection.fetchrow("SELECT pg_advisory_xact_lock(hashtextextended('frazil warehouses', 0))")


async def refuse_taken_name(connection: Connection, project_id: str, name: str) -> None:
    """Said before the storage is tried; the unique index has the last word."""
    row = await connection.fetchrow(
        "SELECT 1 FROM warehouse WHERE project_id = $1 AND name_key = $2", project_id, name_key(name)
    )
    if row is not None:
        raise _already_exists(name)


async def insert(connection: Connection, new: WarehouseRow, now_ms: int) -> None:
    try:
        await connection.execute(
            "INSERT INTO warehouse (warehouse_id, project_id, name, name_key, status, protected, managed_by, "
            "storage_profile, storage_credential, delete_profile, allowed_format_versions, "
            "default_format_version, created_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
            new.warehouse_id,
            new.project_id,
            new.name,
            name_key(new.name),
            new.status,
            int(new.protected),
            new.managed_by,
            encode_profile(new.profile).decode(),
            new.sealed,
            _json(new.delete_profile),
            _json(new.allowed_format_versions),
            new.default_format_version,
            now_ms,
        )
    except UniqueViolation as error:
        raise _already_exists(new.name) from error
    except ForeignKeyViolation as error:
        raise projects.no_such(new.project_id) from error


async def rename(connection: Connection, warehouse_id: str, name: str, now_ms: int) -> None:
    try:
        await change(connection, warehouse_id, {"name": name, "name_key": name_key(name)}, now_ms)
    except UniqueViolation as error:
        raise _already_exists(name) from error


async def change(
    connection: Connection,
    warehouse_id: str,
    columns: Mapping[str, object],
    now_ms: int,
    *,
    version: int | None = None,
) -> None:
    """Set columns (their names are ours, never a caller's); with `version`, only if nothing changed since."""
    sets = ", ".join(f"{name} = ${index}" for index, name in enumerate(columns, start=4))
    touched = await connection.execute(
        f"UPDATE warehouse SET {sets}, version = version + 1, updated_at = $2 "  # noqa: S608 (our own names)
        "WHERE warehouse_id = $1 AND (version = $3 OR $3 = 0)",
        warehouse_id,
        now_ms,
        version or 0,
        *columns.values(),
    )
    if touched:
        return
    await get(connection, warehouse_id)
    raise Conflict(
        f"Warehouse {warehouse_id} was changed by another request meanwhile; load it and try again",
        kind="ConcurrentUpdateError",
    )


async def set_storage(
    connection: Connection, before: WarehouseRow, profile: Profile, sealed: bytes | None, now_ms: int
) -> None:
    """Replace profile and credential together, if both are still those that were judged."""
    columns = {"storage_profile": encode_profile(profile).decode(), "storage_credential": sealed}
    await change(connection, before.warehouse_id, columns, now_ms, version=before.version)


async def set_json(
    connection: Connection, warehouse_id: str, column: str, value: object, now_ms: int
) -> None:
    await change(connection, warehouse_id, {column: _json(value)}, now_ms)


async def set_format_versions(
    connection: Connection, warehouse_id: str, allowed: list[int], default: int | None, now_ms: int
) -> None:
    columns = {"allowed_format_versions": _json(allowed), "default_format_version": default}
    await change(connection, warehouse_id, columns, now_ms)


async def delete(database: Database, warehouse_id: str, *, force: bool) -> None:
    """`force` overrides protection, never content."""
    try:
        touched = await database.execute(
            "DELETE FROM warehouse WHERE warehouse_id = $1 AND (protected = 0 OR $2 = 1)",
            warehouse_id,
            int(force),
        )
    except ForeignKeyViolation as error:
        raise await _why_not_empty(database, warehouse_id) from error
    if not touched:
        warehouse = await get(database, warehouse_id)
        raise Conflict(
            f"Warehouse {warehouse.name!r} is protected; take the protection off or use force=true",
            kind="WarehouseProtected",
        )


async def count(connection: Connection, warehouse_id: str) -> dict[str, int]:
    """How many tables and views there are."""
    rows = await connection.fetch(
        "SELECT kind, count(*) FROM tabular WHERE warehouse_id = $1 GROUP BY kind", warehouse_id
    )
    return {row[0]: row[1] for row in rows}


def no_such(warehouse_id: str) -> NoSuchWarehouse:
    return NoSuchWarehouse(f"Warehouse does not exist: {warehouse_id}")


async def _why_not_empty(connection: Connection, warehouse_id: str) -> Conflict:
    row = await connection.fetchrow("SELECT 1 FROM namespace WHERE warehouse_id = $1 LIMIT 1", warehouse_id)
    if row is None:
        return await _unfinished(connection, warehouse_id)
    return Conflict(
        f"Warehouse {warehouse_id} is not empty; drop its namespaces first", kind="WarehouseNotEmpty"
    )


async def _unfinished(connection: Connection, warehouse_id: str) -> Conflict:
    """PurgeUnfinished if it is worth waiting; files that the delete profile keeps for longer are content."""
    # Of a purge that was begun, the moment is that of its lease or of the next try.
    row = await connection.fetchrow(
        "SELECT max(not_before) FROM purge WHERE warehouse_id = $1 AND attempts = 0", warehouse_id
    )
    now_ms, due_ms = int(time.time() * 1000), int(row[0] or 0) if row else 0
    said = f"Warehouse {warehouse_id} still has files of dropped tables to delete"
    if due_ms <= now_ms:
        return PurgeUnfinished(f"{said}; try again later")
    when = datetime.fromtimestamp(due_ms // 1000 + 1, UTC).isoformat()
    said = f"{said}, some of them not before {when}, as its delete profile asks; try again then"
    return PurgeUnfinished(said) if due_ms <= now_ms + _SOON_MS else Conflict(said, kind="WarehouseNotEmpty")


def _warehouse(row: Row) -> WarehouseRow:
    return WarehouseRow(
        warehouse_id=row["warehouse_id"],
        project_id=row["project_id"],
        name=row["name"],
        status=row["status"],
        protected=bool(row["protected"]),
        managed_by=row["managed_by"],
        profile=parse_profile(_decode(row["storage_profile"])),
        sealed=row["storage_credential"],
        delete_profile=_decode(row["delete_profile"]),
        allowed_format_versions=_decode(row["allowed_format_versions"]),
        default_format_version=row["default_format_version"],
        version=row["version"],
        updated_at=row["updated_at"],
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _already_exists(name: str) -> AlreadyExists:
    return AlreadyExists(
        f"warehouse-name: a warehouse {name!r} exists already in this project (case does not count)",
        kind="WarehouseAlreadyExists",
    )
