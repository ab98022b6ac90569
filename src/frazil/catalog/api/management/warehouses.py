"""Warehouses: create, list, get, rename, activate, delete, statistics."""

from __future__ import annotations

import uuid
from typing import Annotated
from urllib.parse import parse_qs

import msgspec
from msgspec import Meta

from frazil.catalog.api.management.answers import (
    GetWarehouseResponse,
    ListWarehousesResponse,
    WarehouseStatistics,
    WarehouseStatisticsResponse,
    WarehouseStatus,
    warehouse_answer,
)
from frazil.catalog.api.management.bodies import CreateWarehouseBody, CreateWarehouseRequest, RenameRequest
from frazil.catalog.api.management.routing import PROJECT_HEADER, project_of, routes, timestamp, warehouse_of
from frazil.catalog.api.management.specs import (
    format_versions,
    require_exclusive,
    require_usable,
    storage_spec,
)
from frazil.catalog.http import Request, Response, json_response, no_content
from frazil.catalog.rotation import require_key
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store import projects, warehouses
from frazil.catalog.store.warehouses import WarehouseRow
from frazil.core.errors import InvalidInput
from frazil.core.names import check_name

_STATUSES = ("active", "inactive")


class ListQuery(msgspec.Struct, frozen=True, rename="camel"):
    project_id: str | None = None
    warehouse_status: WarehouseStatus | None = None


class ProjectQuery(msgspec.Struct, frozen=True, rename="camel"):
    project_id: str | None = None


class DeleteQuery(msgspec.Struct, frozen=True):
    force: bool = False


class StatisticsQuery(msgspec.Struct, frozen=True):
    page_token: str | None = None
    page_size: Annotated[int, Meta(ge=1)] | None = None


@routes.add(
    "POST",
    "/warehouse",
    body=CreateWarehouseRequest,
    headers=(PROJECT_HEADER,),
    answer=GetWarehouseResponse,
    status=201,
    errors=(400, 404, 409),
)
async def create_warehouse(catalog: Catalog, request: Request) -> Response:
    """Create a warehouse; its storage is tried by writing, reading and deleting an object."""
    body, _ = request.json(CreateWarehouseBody)
    project_id = project_of(request, body.project_id)
    name = check_name(body.warehouse_name, "warehouse-name")
    spec = storage_spec(catalog, body.storage_profile, body.storage_credential)
    allowed, default = format_versions(body.allowed_format_versions, body.default_format_version)
    await projects.get(catalog.database, project_id)
    await warehouses.refuse_taken_name(catalog.database, project_id, name)
    await require_exclusive(catalog.database, spec.profile)
    await require_usable(spec)
    warehouse_id = str(uuid.uuid4())
    row = WarehouseRow(
        warehouse_id=warehouse_id,
        project_id=project_id,
        name=name,
        status="active",
        protected=False,
        managed_by=body.managed_by,
        profile=spec.profile,
        sealed=spec.sealed(catalog, warehouse_id),
        delete_profile=msgspec.to_builtins(body.delete_profile),
        allowed_format_versions=allowed,
        default_format_version=default,
    )
    async with catalog.database.transaction() as connection:
        # A rival may have taken the place while the storage was being tried.
        await warehouses.lock_places(catalog.database, connection)
        await require_key(connection, catalog.secrets)
        await require_exclusive(connection, spec.profile)
        await warehouses.insert(connection, row, now_ms())
    return json_response(warehouse_answer(catalog, row), 201)


@routes.add("GET", "/warehouse", query=ListQuery, headers=(PROJECT_HEADER,), answer=ListWarehousesResponse)
async def list_warehouses(catalog: Catalog, request: Request) -> Response:
    """List the warehouses of a project: the active ones, unless a status is asked for."""
    project_id = project_of(request, request.query(ProjectQuery).project_id, "projectId")
    statuses = _statuses(request)
    await projects.get(catalog.database, project_id)
    found = await warehouses.list_project(catalog.database, project_id, statuses)
    return json_response(ListWarehousesResponse(warehouses=[warehouse_answer(catalog, row) for row in found]))


@routes.add("GET", "/warehouse/{warehouse_id}", answer=GetWarehouseResponse)
async def get_warehouse(catalog: Catalog, request: Request) -> Response:
    """A warehouse by id, active or not."""
    return await answer(catalog, warehouse_of(request))


@routes.add("DELETE", "/warehouse/{warehouse_id}", query=DeleteQuery, status=204, errors=(400, 404, 409))
async def delete_warehouse(catalog: Catalog, request: Request) -> Response:
    """Delete a warehouse that is empty; `force` overrides its protection."""
    await warehouses.delete(catalog.database, warehouse_of(request), force=request.query(DeleteQuery).force)
    return no_content()


@routes.add(
    "POST",
    "/warehouse/{warehouse_id}/rename",
    body=RenameRequest,
    answer=GetWarehouseResponse,
    errors=(400, 404, 409),
)
async def rename_warehouse(catalog: Catalog, request: Request) -> Response:
    """Give a warehouse another name; its id stays."""
    body, _ = request.json(RenameRequest)
    warehouse_id = warehouse_of(request)
    await warehouses.rename(catalog.database, warehouse_id, check_name(body.new_name, "new-name"), now_ms())
    return await answer(catalog, warehouse_id)


@routes.add("POST", "/warehouse/{warehouse_id}/activate")
async def activate_warehouse(catalog: Catalog, request: Request) -> Response:
    """Let clients use a warehouse again."""
    await warehouses.change(catalog.database, warehouse_of(request), {"status": "active"}, now_ms())
    return Response(200)


@routes.add("POST", "/warehouse/{warehouse_id}/deactivate")
async def deactivate_warehouse(catalog: Catalog, request: Request) -> Response:
    """Refuse all use of a warehouse until it is activated; nothing is lost."""
    await warehouses.change(catalog.database, warehouse_of(request), {"status": "inactive"}, now_ms())
    return Response(200)


@routes.add(
    "GET",
    "/warehouse/{warehouse_id}/statistics",
    query=StatisticsQuery,
    answer=WarehouseStatisticsResponse,
)
async def get_warehouse_statistics(catalog: Catalog, request: Request) -> Response:
    """How many tables and views a warehouse has now; no history is kept, so there is one entry."""
    if request.query(StatisticsQuery).page_token:
        raise InvalidInput("page_token is not one that this server gave", kind="InvalidPaginationToken")
    warehouse = await warehouses.get(catalog.database, warehouse_of(request))
    counts = await warehouses.count(catalog.database, warehouse.warehouse_id)
    now = timestamp(now_ms())
    entry = WarehouseStatistics(
        timestamp=now,
        updated_at=now,
        number_of_tables=counts.get("table", 0),
        number_of_views=counts.get("view", 0),
    )
    return json_response(
        WarehouseStatisticsResponse(
            warehouse_ident=warehouse.warehouse_id, stats=[entry], next_page_token=None
        )
    )


async def answer(catalog: Catalog, warehouse_id: str) -> Response:
    """The warehouse as it is now."""
    return json_response(warehouse_answer(catalog, await warehouses.get(catalog.database, warehouse_id)))


def _statuses(request: Request) -> list[str]:
    """The parameter may be repeated."""
    given = parse_qs(request.query_string, keep_blank_values=True).get("warehouseStatus", ["active"])
    for status in given:
        if status not in _STATUSES:
            raise InvalidInput(f"warehouseStatus: {status[:80]!a} is unknown. Legal: {', '.join(_STATUSES)}")
    return given
