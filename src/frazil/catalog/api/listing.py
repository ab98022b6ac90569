"""Listing tables and views."""

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
    found = await tabulars.list_names(catalog.database, namespace.namespace_id, kind, page.after, page.limit)
    identifiers = [{"namespace": namespace.levels, "name": name} for _, name in found]
    token = next_token([key for key, _ in found], page.limit)
    return json_response({"identifiers": identifiers, "next-page-token": token})
