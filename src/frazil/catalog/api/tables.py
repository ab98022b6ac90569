"""Tables of the Iceberg REST API: list, create, register, load, drop, rename."""

from __future__ import annotations

import uuid
from typing import Literal

import msgspec

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.answers import matches, table_answer, table_etag
from frazil.catalog.api.creation import create, free_place, landed, location_for, requested_format_version
from frazil.catalog.api.dropping import drop
from frazil.catalog.api.listing import list_tabulars
from frazil.catalog.api.paging import Page
from frazil.catalog.api.renaming import rename
from frazil.catalog.commits import Write
from frazil.catalog.http import Request, Response, Routes, no_content
from frazil.catalog.metadata import encode, new_table_metadata, parse_table_metadata
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store import tabulars
from frazil.catalog.store.idempotency import Mark
from frazil.core.errors import InvalidInput, NoSuchNamespace, NotFound
from frazil.core.names import check_name, show, split_levels

routes = Routes("/catalog/v1", tag="Tables")

_DELEGATION = "X-Iceberg-Access-Delegation"


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
    headers=(_DELEGATION, idempotent.HEADER),
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
        if body.stage_create:
            return _staged(place.warehouse.table_config, encode(metadata))
        document = await create(catalog, place, "table", metadata, chosen=chosen, mark=mark)
        return table_answer(request, place.warehouse, document)

    if body.stage_create:
        return await run(None)
    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i))


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/register",
    body=wire.RegisterTableRequest,
    headers=(_DELEGATION, idempotent.HEADER),
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
        encoded = encode(metadata)
        write = Write(
            place, "table", metadata, location, True, body.metadata_location, encoded, new_file=False
        )
        document = await landed(catalog, write, mark)
        return table_answer(request, place.warehouse, document)

    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i))


@routes.add(
    "GET",
    "/{prefix}/namespaces/{namespace}/tables/{table}",
    query=LoadQuery,
    headers=(_DELEGATION, "If-None-Match"),
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


async def _again(catalog: Catalog, request: Request, tabular_id: str) -> Response:
    warehouse, document = await catalog.load_again(request.params["prefix"], tabular_id)
    return table_answer(request, warehouse, document)


async def _load(catalog: Catalog, request: Request, name: str) -> Response:
    levels = split_levels(request.params["namespace"], "namespace")
    snapshots = request.query(LoadQuery).snapshots
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "table")
    if warehouse.storage.is_missing(found.document.metadata_location):
        # The wording is that of Iceberg's own catalogs.
        raise NotFound(f"Failed to open input stream for file: {found.document.metadata_location}")
    etag = table_etag(request, warehouse, found.document, snapshots)
    if matches(request.header("if-none-match"), etag):
        return Response(304, headers=[(b"etag", etag.encode())])
    return table_answer(request, warehouse, found.document, snapshots)


def _staged(config: bytes, metadata: bytes) -> Response:
    """A staged table has no metadata file yet."""
    return Response(200, b"".join((b'{"metadata":', metadata, b',"config":', config, b"}")))
