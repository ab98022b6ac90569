"""Tables of the Iceberg REST API: list, create, register, load, drop, rename."""

from __future__ import annotations

import uuid
from typing import Literal

import msgspec

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.answers import matches, staged_answer, table_answer, table_etag
from frazil.catalog.api.creation import free_place, landed, location_for, requested_format_version
from frazil.catalog.api.delegation import HEADERS, Delegated, delegate, refresh_endpoint
from frazil.catalog.api.dropping import drop
from frazil.catalog.api.listing import list_tabulars
from frazil.catalog.api.paging import Page
from frazil.catalog.api.renaming import rename
from frazil.catalog.commits import Write, refuse_overlap, write_of
from frazil.catalog.http import Request, Response, Routes, no_content
from frazil.catalog.metadata import encode, new_table_metadata, parse_table_metadata, writes_of
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.signing.staged import seal
from frazil.catalog.store import tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.core.errors import InvalidInput, NoSuchNamespace, NotFound
from frazil.core.names import check_name, show, split_levels

routes = Routes("/catalog/v1", tag="Tables")


class LoadQuery(msgspec.Struct, frozen=True):
    snapshots: Literal["all", "refs"] = "all"


class DropQuery(msgspec.Struct, rename="camel", frozen=True):
    purge_requested: bool = False


@routes.add("GET", "/{prefix}/namespaces/{namespace}/tables", query=Page, answer=wire.ListTablesResponse)
async def list_tables(catalog: Catalog, request: Request) -> Response:
    """List the tables of a namespace."""
    return await list_tabulars(catalog, request, "table")


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/tables",
    body=wire.CreateTableRequest,
    headers=(*HEADERS, idempotent.HEADER),
    answer=wire.LoadTableResult,
    errors=(400, 404, 409, 422, 500, 503),
)
async def create_table(catalog: Catalog, request: Request) -> Response:
    """Create a table, or with `stage-create` only prepare one for a commit to create."""
    body, raw = request.json(wire.CreateTableRequest)

    async def run(mark: Mark | None) -> Response:
        place = await free_place(catalog, request, body.name, "table")
        location, chosen = await location_for(catalog, place, body.location)
        properties = body.properties or {}
        metadata = new_table_metadata(
            uuid=str(uuid.uuid4()),
            location=location,
            schema=raw["schema"],
            partition_spec=raw.get("partition-spec"),
            write_order=raw.get("write-order"),
            properties=properties,
            format_version=requested_format_version(place, properties),
            now_ms=now_ms(),
        )
        write = write_of(place, "table", metadata, chosen=chosen)
        if body.stage_create:
            if chosen:
                # The answer may hold credentials, so a location that is taken is not left to the commit.
                await refuse_overlap(catalog.database, write)
            return staged_answer(write.metadata, await _delegated(catalog, request, write, staged=True))
        # Before the table is there: a credential that is refused must leave nothing behind.
        delegated = await _delegated(catalog, request, write)
        return table_answer(place.warehouse, await landed(catalog, write, mark), delegated)

    if body.stage_create:
        return await run(None)
    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i, body.name))


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/register",
    body=wire.RegisterTableRequest,
    headers=(*HEADERS, idempotent.HEADER),
    answer=wire.LoadTableResult,
    errors=(400, 404, 409, 422, 500, 503),
)
async def register_table(catalog: Catalog, request: Request) -> Response:
    """Register a table by its metadata file."""
    body, _ = request.json(wire.RegisterTableRequest)

    async def run(mark: Mark | None) -> Response:
        levels = split_levels(request.params["namespace"], "namespace")
        place = await catalog.find(request.params["prefix"], levels, check_name(body.name, "name"))
        if place.namespace_id is None:
            raise NoSuchNamespace(f"Namespace does not exist: {show(levels)}")
        if place.found is not None and not (body.overwrite and place.found.kind == "table"):
            raise tabulars.already_exists(levels, body.name, place.found.kind, "table")
        place.warehouse.checked_location(body.metadata_location, "metadata-location")
        try:
            data = await place.warehouse.storage.read(body.metadata_location)
        except NotFound as error:
            raise InvalidInput(f"metadata-location: {error.message}") from error
        metadata = parse_table_metadata(data)
        location = place.warehouse.checked_location(metadata["location"], "the metadata file's location")
        write = Write(
            place,
            "table",
            metadata,
            location,
            True,
            body.metadata_location,
            encode(metadata),
            new_file=False,
            jobs=writes_of(metadata.get("snapshots") or ()),
        )
        delegated = await _delegated(catalog, request, write)
        return table_answer(place.warehouse, await landed(catalog, write, mark), delegated)

    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i, body.name))


@routes.add(
    "GET",
    "/{prefix}/namespaces/{namespace}/tables/{table}",
    query=LoadQuery,
    headers=(*HEADERS, "If-None-Match"),
    answer=wire.LoadTableResult,
    errors=(304, 400, 404),
)
async def load_table(catalog: Catalog, request: Request) -> Response:
    """Load a table."""
    return await _load(catalog, request, request.params["table"])


@routes.add("HEAD", "/{prefix}/namespaces/{namespace}/tables/{table}", status=204)
async def table_exists(catalog: Catalog, request: Request) -> Response:
    """Check whether a table exists."""
    levels = split_levels(request.params["namespace"], "namespace")
    await catalog.load(request.params["prefix"], levels, request.params["table"], "table")
    return no_content()


@routes.add(
    "DELETE",
    "/{prefix}/namespaces/{namespace}/tables/{table}",
    query=DropQuery,
    headers=(idempotent.HEADER,),
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def drop_table(catalog: Catalog, request: Request) -> Response:
    """Drop a table; with `purgeRequested` the server deletes its files afterwards."""
    purge = request.query(DropQuery).purge_requested
    return await drop(catalog, request, request.params["table"], "table", purge=purge)


@routes.add(
    "POST",
    "/{prefix}/tables/rename",
    body=wire.RenameTableRequest,
    headers=(idempotent.HEADER,),
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def rename_table(catalog: Catalog, request: Request) -> Response:
    """Rename a table, also into another namespace."""
    return await rename(catalog, request, "table")


async def _again(catalog: Catalog, request: Request, tabular_id: str, name: str) -> Response:
    """The answer to a request that is repeated, with a credential of now: none was ever stored."""
    warehouse, document = await catalog.load_again(request.params["prefix"], tabular_id)
    location = warehouse.checked_location(document.parsed["location"])
    levels = split_levels(request.params["namespace"], "namespace")
    endpoint = refresh_endpoint(warehouse.warehouse_id, levels, name)
    delegated = await delegate(catalog, request, warehouse, tabular_id, location, endpoint)
    return table_answer(warehouse, document, delegated)


async def _delegated(catalog: Catalog, request: Request, write: Write, *, staged: bool = False) -> Delegated:
    place = write.place
    warehouse_id = place.warehouse.warehouse_id
    endpoint = refresh_endpoint(warehouse_id, place.levels, place.name)
    tabular_id: str | None = write.tabular_id
    if staged:
        # The rows may take longer to write than a credential lives, and until then no row names the place.
        endpoint += f"?staged={seal(catalog.secrets, warehouse_id, write.location, now_ms())}"
        tabular_id = None
    return await delegate(catalog, request, place.warehouse, tabular_id, write.location, endpoint)


async def _load(catalog: Catalog, request: Request, name: str) -> Response:
    levels = split_levels(request.params["namespace"], "namespace")
    snapshots = request.query(LoadQuery).snapshots
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "table")
    if warehouse.storage.is_missing(found.document.metadata_location):
        # The wording is that of Iceberg's own catalogs.
        raise NotFound(f"Failed to open input stream for file: {found.document.metadata_location}")
    endpoint = refresh_endpoint(warehouse.warehouse_id, levels, name)
    delegated = await delegate(catalog, request, warehouse, found.tabular_id, found.location, endpoint)
    etag = table_etag(warehouse, found.document, delegated.variant, snapshots)
    if matches(request.header("if-none-match"), etag):
        return Response(304, headers=[(b"etag", etag.encode())])
    return table_answer(warehouse, found.document, delegated, snapshots)
