"""Namespaces in the database."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from uuid import UUID

import msgspec

from frazil.catalog.db import Connection, ForeignKeyViolation, Row, UniqueViolation
from frazil.core.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace
from frazil.core.names import LEVEL_SEPARATOR, namespace_key, show

_FIND = (
    "SELECT namespace_id, path, properties, version FROM namespace WHERE warehouse_id = $1 AND path_key = $2"
)
_TOP = (
    "SELECT path_key, path FROM namespace WHERE warehouse_id = $1 AND parent_id IS NULL AND path_key > $2 "
    "ORDER BY path_key LIMIT $3"
)
_BELOW = (
    "SELECT path_key, path FROM namespace WHERE warehouse_id = $1 AND parent_id = $4 AND path_key > $2 "
    "ORDER BY path_key LIMIT $3"
)


@dataclass(frozen=True, slots=True)
class Namespace:
    namespace_id: str
    levels: tuple[str, ...]
    properties: dict[str, str]
    version: int


async def find(connection: Connection, warehouse_id: str, levels: tuple[str, ...]) -> Namespace | None:
    row = await connection.fetchrow(_FIND, warehouse_id, namespace_key(levels))
    return _namespace(row) if row else None


async def get(connection: Connection, warehouse_id: str, levels: tuple[str, ...]) -> Namespace:
    found = await find(connection, warehouse_id, levels)
    if found is None:
        raise NoSuchNamespace(f"Namespace does not exist: {show(levels)}")
    return found


async def ids(connection: Connection, warehouse_id: str, levels: tuple[str, ...]) -> list[UUID]:
    """The ids of a namespace and of those above it, outermost first."""
    paths = [levels[:depth] for depth in range(1, len(levels) + 1)]
    return [UUID((await get(connection, warehouse_id, path)).namespace_id) for path in paths]


async def children(
    connection: Connection, warehouse_id: str, parent_id: str | None, after: str, limit: int
) -> list[tuple[str, tuple[str, ...]]]:
    """Key and levels of the namespaces directly below `parent_id` (None: the warehouse), in key order."""
    if parent_id is None:
        rows = await connection.fetch(_TOP, warehouse_id, after, limit)
    else:
        rows = await connection.fetch(_BELOW, warehouse_id, after, limit, parent_id)
    return [(row[0], tuple(row[1].split(LEVEL_SEPARATOR))) for row in rows]


async def create(
    connection: Connection,
    warehouse_id: str,
    levels: tuple[str, ...],
    properties: dict[str, str],
    now_ms: int,
) -> None:
    """A nested namespace needs its parent, so that no namespace can be left without one."""
    parent_id = None
    if len(levels) > 1:
        parent_id = (await get(connection, warehouse_id, levels[:-1])).namespace_id
    try:
        await connection.execute(
            "INSERT INTO namespace "
            "(namespace_id, warehouse_id, parent_id, path, path_key, properties, created_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            str(uuid.uuid4()),
            warehouse_id,
            parent_id,
            LEVEL_SEPARATOR.join(levels),
            namespace_key(levels),
            msgspec.json.encode(properties).decode(),
            now_ms,
        )
    except UniqueViolation as error:
        raise AlreadyExists(f"Namespace already exists: {show(levels)}") from error
    except ForeignKeyViolation as error:
        raise NoSuchNamespace(f"Namespace does not exist: {show(levels[:-1])}") from error


async def set_properties(
    connection: Connection, namespace: Namespace, properties: dict[str, str], now_ms: int
) -> bool:
    """False when the namespace changed or went away since it was read."""
    touched = await connection.execute(
        "UPDATE namespace SET properties = $3, version = version + 1, updated_at = $4 "
        "WHERE namespace_id = $1 AND version = $2",
        namespace.namespace_id,
        namespace.version,
        msgspec.json.encode(properties).decode(),
        now_ms,
    )
    return touched == 1


async def drop(connection: Connection, warehouse_id: str, levels: tuple[str, ...]) -> None:
    try:
        touched = await connection.execute(
            "DELETE FROM namespace WHERE warehouse_id = $1 AND path_key = $2",
            warehouse_id,
            namespace_key(levels),
        )
    except ForeignKeyViolation as error:
        raise NamespaceNotEmpty(
            f"Namespace is not empty: {show(levels)}; drop its tables, views and namespaces first"
        ) from error
    if not touched:
        raise NoSuchNamespace(f"Namespace does not exist: {show(levels)}")


def _namespace(row: Row) -> Namespace:
    properties = msgspec.json.decode(row["properties"], type=dict[str, str])
    return Namespace(
        row["namespace_id"], tuple(row["path"].split(LEVEL_SEPARATOR)), properties, row["version"]
    )
