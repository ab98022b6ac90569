"""Listing tables, views and generic tables."""

from __future__ import annotations

from frazil.catalog.api.paging import Page, next_token
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.service import Catalog
from frazil.catalog.store import namespaces, tabulars
from frazil.core.names import split_levels


async def list_tabulars(catalog: Catalog, request: Request, kind: tabulars.Kind) -> Response:
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = split_levels(request.params["namespace"], "namespace")
    page = request.query(Page)
    namespace = await namespaces.get(catalog.database, warehouse.warehouse_id, levels)
    found = await tabulars.list_kind(catalog.database, namespace.namespace_id, kind, page.after, page.limit)
    identifiers = [_identifier(namespace.levels, entry) for entry in found]
    token = next_token([entry.key for entry in found], page.limit)
    return json_response({"identifiers": identifiers, "next-page-token": token})


def _identifier(levels: tuple[str, ...], entry: tabulars.Listed) -> dict[str, object]:
    identifier: dict[str, object] = {"namespace": levels, "name": entry.name}
    if entry.format is not None:
        identifier |= {"format": entry.format, "id": entry.tabular_id}
    return identifier
