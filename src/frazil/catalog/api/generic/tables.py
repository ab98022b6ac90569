"""Generic tables: list, create, load, drop, rename, credentials."""

from __future__ import annotations

import msgspec

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.answers import credentials_answer, generic_answer
from frazil.catalog.api.creation import free_place, landed, location_for
from frazil.catalog.api.delegation import HEADERS, Delegated, delegate
from frazil.catalog.api.dropping import drop
from frazil.catalog.api.generic.documents import contents, placed
from frazil.catalog.api.generic.routing import TABLE, TABLES, in_warehouse, routes
from frazil.catalog.api.listing import list_tabulars
from frazil.catalog.api.management.routing import PROJECT_HEADER
from frazil.catalog.api.paging import Page
from frazil.catalog.api.renaming import rename
from frazil.catalog.commits import Write
from frazil.catalog.http import Request, Response
from frazil.catalog.service import Catalog
from frazil.catalog.store.idempotency import Mark
from frazil.catalog.warehouses import Warehouse
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
    headers=(*HEADERS, *_CHANGE_HEADERS),
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
        # Before the table is there: a credential that is refused must leave nothing behind.
        delegated = await _delegated(catalog, request, place.warehouse, write.tabular_id, location)
        return generic_answer(await landed(catalog, write, mark), body.name, delegated)

    async def again(tabular_id: str) -> Response:
        warehouse, document = await catalog.load_again(request.params["prefix"], tabular_id)
        location = document.parsed["base-location"]
        delegated = await _delegated(catalog, request, warehouse, tabular_id, location)
        return generic_answer(document, body.name, delegated)

    return await idempotent.once(catalog, request, run, again)


@routes.add(
    "GET",
    TABLE,
    headers=(*HEADERS, PROJECT_HEADER),
    answer=wire.LoadGenericTableResponse,
    errors=(400, 404, 503),
)
@in_warehouse
async def load_generic_table(catalog: Catalog, request: Request) -> Response:
    """Load a generic table."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = request.params["table"]
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "generic-table")
    delegated = await _delegated(catalog, request, warehouse, found.tabular_id, found.location)
    return generic_answer(found.document, name, delegated)


@routes.add(
    "GET",
    TABLE + "/credentials",
    headers=(*HEADERS, PROJECT_HEADER),
    answer=wire.LoadCredentialsResponse,
    errors=(400, 404, 503),
)
@in_warehouse
async def load_generic_table_credentials(catalog: Catalog, request: Request) -> Response:
    """Credentials for the files of a generic table; none where the warehouse does not vend them."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = request.params["table"]
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "generic-table")
    return credentials_answer(await _delegated(catalog, request, warehouse, found.tabular_id, found.location))


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


async def _delegated(
    catalog: Catalog, request: Request, warehouse: Warehouse, tabular_id: str, location: str
) -> Delegated:
    """No refresh endpoint, as in Lakekeeper: clients that renew by themselves know only Iceberg tables."""
    return await delegate(catalog, request, warehouse, tabular_id, location, None)
