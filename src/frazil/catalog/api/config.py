"""`/v1/config`: how a client learns its prefix and what the server offers."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from frazil.catalog import wire
from frazil.catalog.http import Request, Response, Routes, json_response
from frazil.catalog.service import Catalog
from frazil.catalog.store.idempotency import LIFETIME
from frazil.catalog.warehouses import Warehouse
from frazil.core.errors import NoSuchWarehouse
from frazil.core.names import is_uuid, name_key

routes = Routes("/catalog/v1", tag="Configuration")

DEFAULT_PROJECT = "00000000-0000-0000-0000-000000000000"


class ConfigQuery(msgspec.Struct, frozen=True):
    warehouse: str | None = None


@routes.add("GET", "/config", query=ConfigQuery, answer=wire.CatalogConfig)
async def get_config(catalog: Catalog, request: Request) -> Response:
    """The settings of a warehouse, given by name, `project/name` or id; without one, the default."""
    asked = request.query(ConfigQuery).warehouse or catalog.settings.default_warehouse
    project = request.header("x-project-id") or request.header("x-project-ident") or DEFAULT_PROJECT
    warehouse = await _warehouse(catalog, _project_id(project), asked)
    return json_response(
        {
            "defaults": {"prefix": warehouse.warehouse_id, **warehouse.storage.client_config()},
            "overrides": {"uri": f"{base_uri(catalog, request)}/catalog"},
            "endpoints": catalog.endpoints,
            "idempotency-key-lifetime": LIFETIME,
        }
    )


async def _warehouse(catalog: Catalog, project: str, asked: str) -> Warehouse:
    """By id first: a warehouse may be called anything, but must not capture another one's callers."""
    if is_uuid(asked):
        with suppress(NoSuchWarehouse):
            return await catalog.warehouses.get(asked)
    found = await catalog.warehouses.by_name(project, name_key(asked))
    if found is None and "/" in asked:
        given_project, _, name = asked.partition("/")
        found = await catalog.warehouses.by_name(_project_id(given_project), name_key(name))
    if found is None:
        raise NoSuchWarehouse(f"Warehouse does not exist: {asked}")
    return found


def _project_id(text: str) -> str:
    """UUIDs are the same in any case; other ids are not."""
    return text.lower() if is_uuid(text) else text


def base_uri(catalog: Catalog, request: Request) -> str:
    """Where the caller reaches this server: as set, else as it said itself."""
    if catalog.settings.base_uri:
        return catalog.settings.base_uri.rstrip("/")
    host = request.header("host") or f"{catalog.settings.host}:{catalog.settings.port}"
    return f"{request.scheme}://{host}"
