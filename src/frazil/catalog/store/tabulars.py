"""Tables, views and generic tables in the database.

The row's `revision` is what a commit compares and raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from frazil.catalog.db import Connection, Database, Dialect, ForeignKeyViolation, UniqueViolation
from frazil.catalog.metadata import JobWrites
from frazil.catalog.store import jobs
from frazil.catalog.store.packing import pack, unpack
from frazil.core.errors import AlreadyExists, Conflict, NoSuchNamespace
from frazil.core.names import name_key, show

Kind = Literal["table", "view", "generic-table"]
_LABELS: dict[Kind, str] = {"table": "Table", "view": "View", "generic-table": "Generic table"}


@dataclass(frozen=True, slots=True)
class Found:
    """What one look-up by name says about warehouse, namespace and tabular together."""

    warehouse_version: int
    namespace_id: str | None
    tabular_id: str | None
    kind: Kind
    location: str
    metadata_location: str
    revision: int
    #: None when the caller already holds the document of this revision.
    metadata: bytes | None


@dataclass(frozen=True, slots=True)
class NewTabular:
    """A row to insert."""

    tabular_id: str
    warehouse_id: str
    namespace_id: str
    kind: Kind
    levels: tuple[str, ...]
    name: str
    #: Normalised, for the comparison with other tabulars' locations.
    location: str
    metadata_location: str
    metadata: bytes
    #: Only of generic tables.
    format: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list says about a tabular; pages follow the key."""

    key: str
    name: str
    tabular_id: str
    format: str | None


@dataclass(frozen=True, slots=True)
class Swap:
    """One compare-and-set: `revision` must still be current, and is raised."""

    tabular_id: str
    warehouse_id: str
    revision: int
    metadata_location: str
    metadata: bytes
    location: str
    #: Counted with the swap.
    jobs: Sequence[JobWrites] = ()


_SWAP = (
    "UPDATE tabular SET metadata_location = $3, metadata = $4, location = $5, updated_at = $6, "
    "revision = revision + 1 WHERE tabular_id = $1 AND revision = $2"
)
_FIND = (
    "SELECT w.version, n.namespace_id, t.tabular_id, t.kind, t.location, t.metadata_location, t.revision, "
    "CASE WHEN t.tabular_id = $4 AND t.revision = $5 THEN NULL ELSE t.metadata END "
    "FROM warehouse w "
    "LEFT JOIN namespace n ON n.warehouse_id = w.warehouse_id AND n.path_key = $2 "
    "LEFT JOIN tabular t ON t.namespace_id = n.namespace_id AND t.name_key = $3 "
    "WHERE w.warehouse_id = $1"
)


async def find(
    connection: Connection, warehouse_id: str, path_key: str, key: str, held: tuple[str, int] = ("", 0)
) -> Found | None:
    """One round trip for the whole path; None when there is no such warehouse.

    `held` is the tabular and revision whose document the caller has already.
    """
    row = await connection.fetchrow(_FIND, warehouse_id, path_key, key, *held)
    if row is None:
        return None
    metadata = None if row[7] is None else unpack(row[7])
    return Found(row[0], row[1], row[2], row[3], row[4], row[5], row[6], metadata)


async def document(connection: Connection, tabular_id: str) -> tuple[int, str, bytes] | None:
    """Revision, metadata location and metadata of a tabular, whatever its name is now."""
    row = await connection.fetchrow(
        "SELECT revision, metadata_location, metadata FROM tabular WHERE tabular_id = $1", tabular_id
    )
    return (row[0], row[1], unpack(row[2])) if row else None


async def list_kind(
    connection: Connection, namespace_id: str, kind: Kind, after: str, limit: int
) -> list[Listed]:
    """The tabulars of a namespace in key order."""
    rows = await connection.fetch(
        "SELECT name_key, name, tabular_id, format FROM tabular "
        "WHERE namespace_id = $1 AND kind = $2 AND name_key > $3 ORDER BY name_key LIMIT $4",
        namespace_id,
        kind,
        after,
        limit,
    )
    return [Listed(row[0], row[1], row[2], row[3]) for row in rows]


async def insert(connection: Connection, new: NewTabular, now_ms: int) -> None:
    try:
        await connection.execute(
            "INSERT INTO tabular (tabular_id, warehouse_id, namespace_id, kind, name, name_key, location, "
            "metadata_location, metadata, format, created_at, updated_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)",
            new.tabular_id,
            new.warehouse_id,
            new.namespace_id,
            new.kind,
            new.name,
            name_key(new.name),
            new.location,
            new.metadata_location,
            pack(new.metadata),
            new.format,
            now_ms,
        )
    except UniqueViolation as error:
        if error.constraint == "tabular.location":
            raise location_taken(new.location) from error
        raise already_exists(new.levels, new.name, new.kind, new.kind) from error
    except ForeignKeyViolation as error:
        raise NoSuchNamespace(f"Namespace does not exist: {show(new.levels)}") from error


async def swap(connection: Connection, change: Swap, now_ms: int, dialect: Dialect) -> bool:
    """False when the tabular is gone or another commit came first.

    One statement, except on SQLite when there are jobs to count: then it needs a transaction around it.
    """
    sql = _SWAP
    values: list[object] = [change.tabular_id, change.revision, change.metadata_location]
    values += [pack(change.metadata), change.location, now_ms]
    together = bool(change.jobs) and dialect == "postgresql"
    if together:
        # The swap's row leads to the rows of the jobs, so none are touched when there is none.
        noting, more = jobs.noting(change.jobs, len(values) + 1)
        sql = f"WITH swapped AS ({_SWAP} RETURNING tabular_id, warehouse_id) {noting}"
        values += more
    try:
        touched = await connection.execute(sql, *values)
    except UniqueViolation as error:
        raise location_taken(change.location) from error
    if touched and change.jobs and not together:
        await jobs.note(connection, change.tabular_id, change.warehouse_id, change.jobs)
    return touched > 0


async def delete(connection: Connection, source: tuple[str, str, str], revision: int) -> bool:
    """Remove the tabular `source` (its id, namespace id and name).

    False when it is gone, changed or has another name since it was read: a rename that was acknowledged
    must not be undone by the drop of the old name.
    """
    tabular_id, namespace_id, name = source
    touched = await connection.execute(
        "DELETE FROM tabular WHERE tabular_id = $1 AND namespace_id = $2 AND name_key = $3 AND revision = $4",
        tabular_id,
        namespace_id,
        name_key(name),
        revision,
    )
    return touched == 1


async def rename(
    connection: Connection, source: tuple[str, str, str], namespace_id: str, name: str, now_ms: int
) -> bool:
    """Move the tabular `source` (its id, namespace id and name); False when it is no longer there."""
    tabular_id, old_namespace_id, old_name = source
    touched = await connection.execute(
        "UPDATE tabular SET namespace_id = $4, name = $5, name_key = $6, updated_at = $7 "
        "WHERE tabular_id = $1 AND namespace_id = $2 AND name_key = $3",
        tabular_id,
        old_namespace_id,
        name_key(old_name),
        namespace_id,
        name,
        name_key(name),
        now_ms,
    )
    return touched == 1


async def lock_locations(database: Database, connection: Connection, warehouse_id: str) -> None:
    """Until the transaction ends, nobody else in this warehouse places a table at a chosen location.

    SQLite has one writer, so its transaction is lock enough.
    """
    if database.dialect == "postgresql":
        await connection.fetchrow("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", warehouse_id)


async def leave(connection: Connection, warehouse_id: str, location: str, tabular_id: str) -> None:
    """Keep a location taken that a tabular was moved away from, as long as the tabular is there."""
    await connection.execute(
        "INSERT INTO former_location (warehouse_id, location, tabular_id) VALUES ($1, $2, $3) "
        "ON CONFLICT DO NOTHING",
        warehouse_id,
        location,
        tabular_id,
    )


async def refuse_overlap(
    connection: Connection, warehouse_id: str, location: str, ancestors: Sequence[str], tabular_id: str
) -> None:
    """No tabular may lie at, above or below the location, present or former, of another one."""
    conditions, places = touches(location, ancestors, 3)
    looks = [
        f"SELECT 1 FROM {table} WHERE warehouse_id = $1 AND tabular_id <> $2 AND {condition}"  # noqa: S608 (only $n)
        for table in ("tabular", "former_location")
        for condition in conditions
    ]
    row = await connection.fetchrow(
        f"{' UNION ALL '.join(looks)} LIMIT 1",
        warehouse_id,
        tabular_id,
        *places,
    )
    if row is not None:
        raise location_taken(location)


def touches(location: str, ancestors: Sequence[str], first: int) -> tuple[tuple[str, str], tuple[str, ...]]:
    """Conditions on the column `location` (below the given one; at or above it) and their parameters.

    Two, because SQLite finds nothing by an index for both at once. Case does not count: SeaweedFS, for
    one, lets a session for `t1` into `T1`.
    """
    here, *above = (_lower(place) for place in (location, *ancestors))
    places = ", ".join(f"${index}" for index in range(first + 2, first + 3 + len(above)))
    below = f"lower(location) >= ${first} AND lower(location) < ${first + 1}"
    # "0" follows "/" in ASCII: the range holds everything below the location.
    return (below, f"lower(location) IN ({places})"), (here + "/", here + "0", here, *above)


def _lower(text: str) -> str:
    """As both databases do it here: ASCII letters only."""
    return text.encode().lower().decode()


def label(kind: Kind) -> str:
    """How messages call it, at the beginning of a sentence."""
    return _LABELS[kind]


def already_exists(levels: Sequence[str], name: str, existing: Kind, wanted: Kind) -> AlreadyExists:
    what = label(existing) + ("" if existing == wanted else " with same name")
    kind = "GenericTableAlreadyExists" if wanted == "generic-table" else None
    return AlreadyExists(f"{what} already exists: {show(levels, name)}", kind=kind)


def location_taken(location: str) -> Conflict:
    return Conflict(
        f"another table, view or generic table lies or lay at, above or below {location} (case does not "
        "count); choose another location",
        kind="LocationAlreadyTaken",
    )
