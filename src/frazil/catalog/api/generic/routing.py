"""What the handlers of generic tables share."""

from __future__ import annotations

from functools import wraps

from frazil.catalog.api.management.routing import project_of
from frazil.catalog.http import Request, Response, Routes
from frazil.catalog.http.routing import Handler
from frazil.catalog.service import Catalog
from frazil.core.errors import NoSuchWarehouse
from frazil.core.names import is_uuid, name_key

routes = Routes("/lakekeeper/v1/{warehouse}", tag="Generic tables")

TABLES = "/namespaces/{namespace}/generic-tables"
TABLE = TABLES + "/{table}"


def in_warehouse(handler: Handler) -> Handler:
    """Lets a warehouse be given by name: the handler finds its id in the parameter `prefix`."""

    @wraps(handler)
    async def resolved(catalog: Catalog, request: Request) -> Response:
        request.params["prefix"] = await _warehouse_id(catalog, request)
        return await handler(catalog, request)

    return resolved


async def _warehouse_id(catalog: Catalog, request: Request) -> str:
    """An id wins over a name that looks like one: nobody may capture another warehouse's requests."""
    given = request.params["warehouse"]
    if is_uuid(given):
        return given.lower()
    found = await catalog.warehouses.by_name(project_of(request), name_key(given))
    if found is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {given}")
    return found.warehouse_id
