"""Views of the Iceberg REST API."""

from __future__ import annotations

import uuid
from typing import Any

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.answers import view_answer
from frazil.catalog.api.creation import create, free_place, landed, location_for
from frazil.catalog.api.dropping import drop
from frazil.catalog.api.listing import list_tabulars
from frazil.catalog.api.paging import Page
from frazil.catalog.api.renaming import rename
from frazil.catalog.commits import MAX_ATTEMPTS, Write, backoff, land, too_many_rivals, write_of
from frazil.catalog.http import Request, Response, Routes, no_content
from frazil.catalog.metadata import (
    apply_view_updates,
    check_view_requirements,
    encode,
    new_view_metadata,
    parse_view_metadata,
)
from frazil.catalog.service import Catalog, no_such, now_ms
from frazil.catalog.store.idempotency import Mark
from frazil.core.errors import InvalidInput, NotFound
from frazil.core.names import name_key, namespace_key, show, split_levels

routes = Routes("/catalog/v1", tag="Views")


@routes.add("GET", "/{prefix}/namespaces/{namespace}/views", query=Page, answer=wire.ListTablesResponse)
async def list_views(catalog: Catalog, request: Request) -> Response:
    """List the views of a namespace."""
    return await list_tabulars(catalog, request, "view")


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/views",
    body=wire.CreateViewRequest,
    headers=(idempotent.HEADER,),
    answer=wire.LoadViewResult,
    errors=(400, 404, 409, 422, 500, 503),
)
async def create_view(catalog: Catalog, request: Request) -> Response:
    """Create a view."""
    body, raw = request.json(wire.CreateViewRequest)

    async def run(mark: Mark | None) -> Response:
        place = await free_place(catalog, request, body.name, "view")
        location, chosen = await location_for(catalog, place, body.location)
        metadata = new_view_metadata(
            uuid=str(uuid.uuid4()),
            location=location,
            schema=raw["schema"],
            view_version=raw["view-version"],
            properties=body.properties or {},
            now_ms=now_ms(),
        )
        return view_answer(await create(catalog, place, "view", metadata, chosen=chosen, mark=mark))

    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i))


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/register-view",
    body=wire.RegisterViewRequest,
    headers=(idempotent.HEADER,),
    answer=wire.LoadViewResult,
    errors=(400, 404, 409, 422, 500, 503),
)
async def register_view(catalog: Catalog, request: Request) -> Response:
    """Register a view by its metadata file."""
    body, _ = request.json(wire.RegisterViewRequest)

    async def run(mark: Mark | None) -> Response:
        place = await free_place(catalog, request, body.name, "view")
        place.warehouse.checked_location(body.metadata_location, "metadata-location")
        try:
            metadata = parse_view_metadata(await place.warehouse.storage.read(body.metadata_location))
        except NotFound as error:
            raise InvalidInput(f"metadata-location: {error.message}") from error
        location = place.warehouse.checked_location(metadata["location"], "the metadata file's location")
        write = Write(
            place, "view", metadata, location, True, body.metadata_location, encode(metadata), new_file=False
        )
        return view_answer(await landed(catalog, write, mark))

    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i))


@routes.add("GET", "/{prefix}/namespaces/{namespace}/views/{view}", answer=wire.LoadViewResult)
async def load_view(catalog: Catalog, request: Request) -> Response:
    """Load a view."""
    return await _load(catalog, request, request.params["view"])


@routes.add("HEAD", "/{prefix}/namespaces/{namespace}/views/{view}", status=204)
async def view_exists(catalog: Catalog, request: Request) -> Response:
    """Check whether a view exists."""
    levels = split_levels(request.params["namespace"], "namespace")
    await catalog.load(request.params["prefix"], levels, request.params["view"], "view")
    return no_content()


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/views/{view}",
    body=wire.CommitViewRequest,
    headers=(idempotent.HEADER,),
    answer=wire.LoadViewResult,
    errors=(400, 404, 409, 422, 500, 503),
)
async def replace_view(catalog: Catalog, request: Request) -> Response:
    """Commit updates to a view."""
    body, raw = request.json(wire.CommitViewRequest)
    prefix, name = request.params["prefix"], request.params["view"]
    levels = split_levels(request.params["namespace"], "namespace")
    if body.identifier is not None:
        same = namespace_key(body.identifier.namespace) == namespace_key(levels)
        if not same or name_key(body.identifier.name) != name_key(name):
            raise InvalidInput("identifier names another view than the path")

    async def run(mark: Mark | None) -> Response:
        async with catalog.turn([(prefix.lower(), namespace_key(levels), name_key(name))]):
            for attempt in range(MAX_ATTEMPTS):
                write = await _prepare(catalog, request, raw)
                if (mark is None and write.unchanged) or await land(catalog, [write], mark):
                    return view_answer(write.document)
                await backoff(catalog, attempt)
        raise too_many_rivals([show(levels, name)])

    return await idempotent.once(catalog, request, run, lambda i: _again(catalog, request, i))


@routes.add(
    "DELETE",
    "/{prefix}/namespaces/{namespace}/views/{view}",
    headers=(idempotent.HEADER,),
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def drop_view(catalog: Catalog, request: Request) -> Response:
    """Drop a view."""
    return await drop(catalog, request, request.params["view"], "view", purge=False)


@routes.add(
    "POST",
    "/{prefix}/views/rename",
    body=wire.RenameTableRequest,
    headers=(idempotent.HEADER,),
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def rename_view(catalog: Catalog, request: Request) -> Response:
    """Rename a view, also into another namespace."""
    return await rename(catalog, request, "view")


async def _again(catalog: Catalog, request: Request, tabular_id: str) -> Response:
    _, document = await catalog.load_again(request.params["prefix"], tabular_id)
    return view_answer(document)


async def _load(catalog: Catalog, request: Request, name: str) -> Response:
    levels = split_levels(request.params["namespace"], "namespace")
    _, found = await catalog.load(request.params["prefix"], levels, name, "view")
    return view_answer(found.document)


async def _prepare(catalog: Catalog, request: Request, raw: dict[str, Any]) -> Write:
    levels = split_levels(request.params["namespace"], "namespace")
    place = await catalog.find(request.params["prefix"], levels, request.params["view"])
    if place.found is None or place.found.kind != "view":
        raise no_such("view", levels, request.params["view"])
    before = place.found.document.parsed
    check_view_requirements(raw.get("requirements") or [], before)
    after = apply_view_updates(before, raw["updates"], now_ms=now_ms())
    return write_of(place, "view", after, chosen=True)
