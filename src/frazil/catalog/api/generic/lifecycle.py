"""Generic tables: list, create, load, drop, rename."""

from __future__ import annotations

import msgspec

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.creation import free_place, landed, location_for
from frazil.catalog.api.delegation import HEADER
from frazil.catalog.api.dropping import drop
from frazil.catalog.api.generic.documents import answer, contents, placed
from frazil.catalog.api.generic.routing import TABLE, TABLES, in_warehouse, routes
from frazil.catalog.api.listing import list_tabulars
from frazil.catalog.api.management.routing import PROJECT_HEADER
from frazil.catalog.api.paging import Page
from frazil.catalog.api.renaming import rename
from frazil.catalog.commits import Write
from frazil.catalog.http import Request, Response
from frazil.catalog.service import Catalog
from frazil.catalog.store.idempotency import Mark
from frazil.core.names import split_levels

_CHANGE_HEADERS = (idempotent.HEADER, PROJECT_HEADER)
_CHANGE_ERRORS = (400, 404, 409, 422, 500, 503)


class DropQuery(msgspec.Struct, rename="camel", frozen=True):
    """Unlike for Iceberg tables, the files go with the table unless the caller says otherwise."""

    purge_requested: bool = True
    force: bool = False


@routes.add("GET", TABLES, query=Page, headers=(PROJECT_HEADER,), answer=wire.ListGenericTablesResponse)
@in_warehouse
async def list_generic_tables(catalog: Catalog, request: Request) -> Response:
    """List the generic tables of a namespace."""
    return await list_tabulars(catalog, request, "generic-table")


@routes.add(
    "POST",
    TABLES,
    body=wire.CreateGenericTableRequest,
    headers=(HEADER, *_CHANGE_HEADERS),
    answer=wire.LoadGenericTableResponse,
    errors=_CHANGE_ERRORS,
)
@in_warehouse
async def create_generic_table(catalog: Catalog, request: Request) -> Response:
    """Create a generic table, at a location of the server's choice or at `base-location`."""
    body, _ = request.json(wire.CreateGenericTableRequest)
    table = contents(body, request.body)

    async def run(mark: Mark | None) -> Response:
        place = await free_place(catalog, request, body.name, "generic-table")
        given, chosen = await location_for(catalog, place, body.base_location, "base-location")
        location = place.warehouse.checked_location(given, "base-location")
        raw = placed(table, location)
        after = msgspec.json.decode(raw)
        write = Write(place, "generic-table", after, location, chosen, "", raw, new_file=False)
        document = await landed(catalog, write, mark)
        return await answer(catalog, request, place.warehouse, document, body.name, location)

    async def again(tabular_id: str) -> Response:
        warehouse, document = await catalog.load_again(request.params["prefix"], tabular_id)
        location = document.parsed["base-location"]
        return await answer(catalog, request, warehouse, document, body.name, location)

    return await idempotent.once(catalog, request, run, again)


@routes.add(
    "GET",
    TABLE,
    headers=(HEADER, PROJECT_HEADER),
    answer=wire.LoadGenericTableResponse,
    errors=(400, 404, 503),
)
@in_warehouse
async def load_generic_table(catalog: Catalog, request: Request) -> Response:
    """Load a generic table."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = request.params["table"]
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "generic-table")
    return await answer(catalog, request, warehouse, found.document, name, found.location)


@routes.add("DELETE", TABLE, query=DropQuery, headers=_CHANGE_HEADERS, status=204, errors=_CHANGE_ERRORS)
@in_warehouse
async def drop_generic_table(catalog: Catalog, request: Request) -> Response:
    """Drop a generic table; unless `purgeRequested` is false, all below its location is deleted.

    `force` does so at once, whatever delay the warehouse's delete profile asks for.
    """
    query = request.query(DropQuery)
    return await drop(
        catalog,
        request,
        request.params["table"],
        "generic-table",
        purge=query.purge_requested,
        at_once=query.force,
    )


@routes.add(
    "POST",
    "/generic-tables/rename",
    body=wire.RenameTableRequest,
    headers=_CHANGE_HEADERS,
    status=204,
    errors=_CHANGE_ERRORS,
)
@in_warehouse
async def rename_generic_table(catalog: Catalog, request: Request) -> Response:
    """Rename a generic table, also into another namespace; its location stays."""
    return await rename(catalog, request, "generic-table")
