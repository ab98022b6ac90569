"""Renaming tables and views."""

from __future__ import annotations

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.http import Request, Response, no_content
from frazil.catalog.service import Catalog, no_such, now_ms
from frazil.catalog.store import namespaces, tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.core.names import check_levels, check_name


async def rename(catalog: Catalog, request: Request, kind: tabulars.Kind) -> Response:
    """The row keeps its id: a commit that runs meanwhile lands on the renamed table."""
    body, _ = request.json(wire.RenameTableRequest)
    prefix = request.params["prefix"]
    source_levels = check_levels(body.source.namespace, "source.namespace")
    target_levels = check_levels(body.destination.namespace, "destination.namespace")
    source_name = check_name(body.source.name, "source.name")
    target_name = check_name(body.destination.name, "destination.name")

    async def run(mark: Mark | None) -> Response:
        warehouse, found = await catalog.load(prefix, source_levels, source_name, kind)
        async with catalog.database.transaction() as connection:
            target = await namespaces.get(connection, warehouse.warehouse_id, target_levels)
            source = (found.tabular_id, found.namespace_id, source_name)
            renamed = await tabulars.rename(
                connection, source, target.namespace_id, target_levels, target_name, now_ms()
            )
            if not renamed:
                raise no_such(kind, source_levels, source_name)
            if mark is not None:
                await mark.record(connection, 204, now_ms())
        return no_content()

    return await idempotent.once(catalog, request, run)
