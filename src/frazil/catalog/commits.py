"""How a change of tables and views lands: write the new metadata files, then swap the rows.

The order makes every crash harmless. Before the swap the old state stands and at most a file that
nothing refers to is left over; the swap is one database transaction; files of the past are deleted
only once the swap is known to have happened.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog.db import Connection, Dialect, UniqueViolation
from frazil.catalog.documents import Document
from frazil.catalog.metadata import JobWrites, encode, next_metadata_location, removed_metadata_files
from frazil.catalog.service import Catalog, Place, now_ms
from frazil.catalog.storage import ancestors, owned_file
from frazil.catalog.store import jobs, locations, purges, tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.core.errors import CommitFailed, CommitStateUnknown, FrazilError, InvalidInput, NoSuchNamespace
from frazil.core.names import show

Json = dict[str, Any]
_log = logging.getLogger(__name__)

#: How often the server itself tries again when another process won the swap.
MAX_ATTEMPTS = 8


def _new_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Write:
    """A table or view that is to become `after`."""

    place: Place
    kind: tabulars.Kind
    after: Json
    #: Canonical; compared with the locations of other tables and views.
    location: str
    #: Whether somebody chose the location: only then can it touch another table's.
    chosen: bool
    metadata_location: str
    metadata: bytes
    #: False when the metadata file is there already (register), and for generic tables, which have none.
    new_file: bool = True
    #: What jobs write by it; of a registered table, what they wrote before.
    jobs: tuple[JobWrites, ...] = ()
    #: The id of the row, if there is none yet.
    new_id: str = field(default_factory=_new_id)

    @property
    def tabular_id(self) -> str:
        return self.place.found.tabular_id if self.place.found else self.new_id

    @property
    def registered(self) -> bool:
        return self.kind == "table" and not self.new_file

    @property
    def unchanged(self) -> bool:
        found = self.place.found
        return found is not None and self.after is found.document.parsed

    @property
    def document(self) -> Document:
        """The document once the write has landed."""
        found = self.place.found
        revision = 1 if found is None else found.document.revision + 1
        return Document(self.tabular_id, revision, self.metadata_location, self.metadata, self.after)


class _Lost(Exception):
    """Another commit came first."""


def write_of(
    place: Place, kind: tabulars.Kind, after: Json, *, chosen: bool, jobs: tuple[JobWrites, ...] = ()
) -> Write:
    """The write that turns what is at `place` into `after`, with all checks of where it would go."""
    warehouse, found = place.warehouse, place.found
    if found is not None and after is found.document.parsed:
        document = found.document
        return Write(place, kind, after, found.location, False, document.metadata_location, document.raw)
    if found is not None and found.document.parsed["location"] == after["location"]:
        location, chosen = found.location, False
    else:
        location = warehouse.checked_location(after["location"])
    if kind == "table":
        _check_format_version(place, after)
    previous = found.document.metadata_location if found else None
    metadata_location = next_metadata_location(after, previous)
    if "write.metadata.path" in after.get("properties", {}):
        warehouse.checked_location(metadata_location, "write.metadata.path")
    return Write(place, kind, after, location, chosen, metadata_location, encode(after), jobs=jobs)


async def land(
    catalog: Catalog, writes: Sequence[Write], mark: Mark | None = None, status: int = 200
) -> bool:
    """All writes or none. False when the state moved on since it was read: read again and retry.

    Raises CommitStateUnknown, and deletes nothing, when the database did not say how it went.
    """
    written = [write for write in writes if write.new_file and not write.unchanged]
    await _write_files(written)
    try:
        await _swap(catalog, writes, mark, status)
    except _Lost:
        await _discard(written)
        return False
    except CommitStateUnknown:
        if not await _has_landed(catalog, writes):
            raise
    except (FrazilError, UniqueViolation):
        # The database refused: nothing refers to the new files.
        await _discard(written)
        raise
    for write in writes:
        _keep(catalog, write)
    return True


async def backoff(catalog: Catalog, attempt: int) -> None:
    """Wait a little before another attempt, longer each time."""
    catalog.metrics.commit_conflicts.inc()
    await asyncio.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 (jitter)


def too_many_rivals(names: Sequence[str]) -> CommitFailed:
    return CommitFailed(
        f"{', '.join(names)}: other commits came first {MAX_ATTEMPTS} times; refresh and try again"
    )


async def _write_files(writes: Sequence[Write]) -> None:
    if len(writes) == 1:
        await _write_file(writes[0])
        return
    results = await asyncio.gather(*map(_write_file, writes), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        await _discard([write for write, result in zip(writes, results, strict=True) if result is None])
        raise failures[0]


async def _write_file(write: Write) -> None:
    data = write.metadata
    if write.metadata_location.endswith((".gz.metadata.json", ".metadata.json.gz")):
        data = gzip.compress(data, mtime=0)
    await write.place.warehouse.storage.write_new(write.metadata_location, data)


async def _discard(writes: Sequence[Write]) -> None:
    """Delete new metadata files that are known to be referred to by nothing."""
    for write in writes:
        failures = await write.place.warehouse.storage.delete([write.metadata_location])
        for location, reason in failures:
            _log.warning("left over metadata file %s: %s", location, reason)


async def _swap(catalog: Catalog, writes: Sequence[Write], mark: Mark | None, status: int) -> None:
    now, dialect = now_ms(), catalog.database.dialect
    if mark is None and len(writes) == 1 and _alone(writes[0], dialect):
        # One statement commits on its own: two round trips fewer.
        await _swap_one(catalog.database, writes[0], now, dialect)
        return
    async with catalog.database.transaction() as connection:
        if any(write.chosen for write in writes):
            await tabulars.lock_locations(
                catalog.database, connection, writes[0].place.warehouse.warehouse_id
            )
        # Rows are always locked in the same order, so that two transactions cannot wait for each other.
        for write in sorted(writes, key=_row_order):
            if write.chosen:
                await refuse_overlap(connection, write)
            await _swap_one(connection, write, now, dialect)
        if mark is not None:
            # A repeated request is answered with the state of this very tabular, not of its name.
            await mark.record(connection, status, now, "" if status == 204 else writes[0].tabular_id)


def _alone(write: Write, dialect: Dialect) -> bool:
    """Whether landing the write is one statement."""
    if write.chosen or write.registered:
        return False
    return not write.jobs or (write.place.found is not None and dialect == "postgresql")


async def _swap_one(connection: Connection, write: Write, now: int, dialect: Dialect) -> None:
    place = write.place
    if place.found is None:
        await _insert(connection, write, now)
        return
    change = tabulars.Swap(
        tabular_id=write.tabular_id,
        warehouse_id=place.warehouse.warehouse_id,
        revision=place.found.document.revision,
        metadata_location=write.metadata_location,
        metadata=write.metadata,
        location=write.location,
        jobs=() if write.registered else write.jobs,
    )
    # An unchanged table of a transaction is swapped with itself: its requirements must hold at commit too.
    if not await tabulars.swap(connection, change, now, dialect):
        raise _Lost
    if write.registered:
        await _restore_jobs(connection, write, place.found.document)
    if write.location != place.found.location:
        await tabulars.leave(connection, place.warehouse.warehouse_id, place.found.location, write.tabular_id)


async def _insert(connection: Connection, write: Write, now: int) -> None:
    place = write.place
    if place.namespace_id is None:
        raise NoSuchNamespace(f"Namespace does not exist: {show(place.levels)}")
    new = tabulars.NewTabular(
        tabular_id=write.tabular_id,
        warehouse_id=place.warehouse.warehouse_id,
        namespace_id=place.namespace_id,
        kind=write.kind,
        levels=place.levels,
        name=place.name,
        location=write.location,
        metadata_location=write.metadata_location,
        metadata=write.metadata,
        format=write.after["format"] if write.kind == "generic-table" else None,
    )
    await tabulars.insert(connection, new, now)
    if write.registered:
        await _restore_jobs(connection, write, None)
    elif write.jobs:
        await jobs.note(connection, write.tabular_id, place.warehouse.warehouse_id, write.jobs)


async def _restore_jobs(connection: Connection, write: Write, replaced: Document | None) -> None:
    """The rows of another table that had the name are not those of the one that replaces it."""
    table_uuid = write.after["table-uuid"].lower()
    if replaced is not None and replaced.parsed["table-uuid"].lower() != table_uuid:
        await jobs.forget(connection, write.tabular_id)
    warehouse_id = write.place.warehouse.warehouse_id
    await jobs.restore(connection, jobs.Registered(warehouse_id, write.tabular_id, table_uuid, write.jobs))


async def refuse_overlap(connection: Connection, write: Write) -> None:
    """No table may lie at, above or below another one, or one that is being purged."""
    warehouse = write.place.warehouse
    above = ancestors(write.location, warehouse.storage.base)
    await tabulars.refuse_overlap(connection, warehouse.warehouse_id, write.location, above, write.tabular_id)
    generic = write.kind == "generic-table"
    await purges.refuse_doomed(connection, warehouse.warehouse_id, write.location, above, generic=generic)
    if not generic and not write.new_file:
        location = write.after["location"].rstrip("/")
        await purges.refuse_purged(connection, warehouse.warehouse_id, location, write.metadata_location)


async def _has_landed(catalog: Catalog, writes: Sequence[Write]) -> bool:
    """True only when the database shows the new state; anything else stays unknown."""
    try:
        for write in writes:
            row = await tabulars.find(catalog.database, *write.place.key)
            landed = write.document
            if row is None or (row.tabular_id, row.revision) != (landed.tabular_id, landed.revision):
                return False
            if row.metadata_location != landed.metadata_location:
                return False
    except FrazilError:
        return False
    return True


def _keep(catalog: Catalog, write: Write) -> None:
    """Hold the new document and let go of metadata files that the table no longer lists."""
    if write.unchanged:
        return
    before = write.place.found
    catalog.documents.put(write.place.key, write.document)
    if before is not None and write.kind == "table":
        removed = removed_metadata_files(before.document.parsed, write.after)
        if removed:
            catalog.background(_delete_old(catalog, write, removed))


async def _delete_old(catalog: Catalog, write: Write, named: list[str]) -> None:
    """A registered table's log may name anything: what lies in another table is not deleted."""
    warehouse = write.place.warehouse
    files = [file for location in named if (file := owned_file(warehouse.storage.base, location))]
    others = await locations.in_others(
        catalog.database,
        warehouse.warehouse_id,
        warehouse.storage.base,
        files,
        write.location,
        write.tabular_id,
    )
    for location, reason in await warehouse.storage.delete([file for file in files if file not in others]):
        _log.warning("old metadata file %s is left over: %s", location, reason)


def _row_order(write: Write) -> str:
    found = write.place.found
    return found.tabular_id if found else show(write.place.levels, write.place.name)


def _check_format_version(place: Place, after: Json) -> None:
    version = after["format-version"]
    if version not in place.warehouse.allowed_format_versions:
        allowed = ", ".join(map(str, sorted(place.warehouse.allowed_format_versions)))
        raise InvalidInput(f"format-version {version} is not allowed in this warehouse; allowed: {allowed}")
