"""Dropping tables, views and generic tables."""

from __future__ import annotations

from frazil.catalog.api import idempotent
from frazil.catalog.commits import MAX_ATTEMPTS, backoff, too_many_rivals
from frazil.catalog.db import Connection
from frazil.catalog.documents import Document
from frazil.catalog.http import Request, Response, no_content
from frazil.catalog.service import Catalog, Loaded, now_ms
from frazil.catalog.store import jobs, purges, tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.catalog.warehouses import Warehouse
from frazil.core.errors import InvalidInput
from frazil.core.names import show, split_levels


async def drop(
    catalog: Catalog,
    request: Request,
    name: str,
    kind: tabulars.Kind,
    *,
    purge: bool,
    at_once: bool = False,
) -> Response:
    """Remove the row and, in the same transaction, note that the files are to be purged.

    `at_once` purges without the delay that the warehouse's delete profile asks for.
    """
    levels = split_levels(request.params["namespace"], "namespace")

    async def run(mark: Mark | None) -> Response:
        for attempt in range(MAX_ATTEMPTS):
            warehouse, found = await catalog.load(request.params["prefix"], levels, name, kind)
            if purge and kind == "table":
                _refuse_without_gc(found, show(levels, name))
            due = now_ms() + (0 if at_once else warehouse.purge_delay_ms)
            if await _delete(catalog, warehouse, found, (levels, name), mark, due if purge else None):
                if purge:
                    catalog.purge_requested.set()
                return no_content()
            await backoff(catalog, attempt)
        raise too_many_rivals([show(levels, name)])

    return await idempotent.once(catalog, request, run)


async def _delete(
    catalog: Catalog,
    warehouse: Warehouse,
    found: Loaded,
    identifier: tuple[tuple[str, ...], str],
    mark: Mark | None,
    purge_due: int | None,
) -> bool:
    """False when the table changed since it was read: what is purged must be its last version."""
    document = found.document
    source = (found.tabular_id, found.namespace_id, identifier[1])
    async with catalog.database.transaction() as connection:
        written = await jobs.about_to_drop(connection, found.tabular_id)
        if not await tabulars.delete(connection, source, document.revision):
            return False
        if purge_due is not None:
            new = purges.NewPurge(
                warehouse.warehouse_id, show(*identifier), found.kind, found.location, document
            )
            await purges.request(connection, new, now_ms(), purge_due)
        if written is not None:
            await _leave_jobs(connection, written, document, purged=purge_due is not None)
        if mark is not None:
            await mark.record(connection, 204, now_ms())
    return True


async def _leave_jobs(
    connection: Connection, table: jobs.Written, document: Document, *, purged: bool
) -> None:
    """Without its files a table cannot come back; with them, what is known of its jobs waits for it."""
    if purged:
        await jobs.forget(connection, table.tabular_id)
    else:
        await jobs.keep_dropped(connection, table, document.parsed["table-uuid"].lower(), now_ms())


def _refuse_without_gc(found: Loaded, name: str) -> None:
    enabled = found.document.parsed.get("properties", {}).get("gc.enabled", "true")
    if enabled.lower() == "false":
        raise InvalidInput(
            f"Cannot purge {name}: gc.enabled is false, its files may be shared; drop it without purge"
        )
