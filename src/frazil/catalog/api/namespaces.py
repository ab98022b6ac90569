"""Namespaces of the Iceberg REST API."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.catalog import wire
from frazil.catalog.api import idempotent
from frazil.catalog.api.paging import Page, next_token
from frazil.catalog.http import Request, Response, Routes, json_response, no_content
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store import namespaces
from frazil.catalog.store.idempotency import Mark
from frazil.catalog.warehouses import Warehouse
from frazil.core.errors import CommitFailed, NoSuchNamespace, Unprocessable
from frazil.core.names import check_levels, show, split_levels

routes = Routes("/catalog/v1", tag="Namespaces")

_ATTEMPTS = 16
_WRITE_HEADERS = (idempotent.HEADER,)


class ListQuery(Page, frozen=True):
    parent: str | None = None


@routes.add("GET", "/{prefix}/namespaces", query=ListQuery, answer=wire.ListNamespacesResponse)
async def list_namespaces(catalog: Catalog, request: Request) -> Response:
    """List the namespaces directly below a namespace, or the top ones."""
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    query = request.query(ListQuery)
    parent_id = None
    if query.parent:
        levels = split_levels(query.parent, "parent")
        parent_id = (await namespaces.get(catalog.database, warehouse.warehouse_id, levels)).namespace_id
    found = await namespaces.children(
        catalog.database, warehouse.warehouse_id, parent_id, query.after, query.limit
    )
    token = next_token([key for key, _ in found], query.limit)
    return json_response({"namespaces": [levels for _, levels in found], "next-page-token": token})


@routes.add(
    "POST",
    "/{prefix}/namespaces",
    body=wire.CreateNamespaceRequest,
    headers=_WRITE_HEADERS,
    answer=wire.CreateNamespaceResponse,
    errors=(400, 404, 409, 422, 500, 503),
)
async def create_namespace(catalog: Catalog, request: Request) -> Response:
    """Create a namespace; the parent of a nested one must exist."""
    body, _ = request.json(wire.CreateNamespaceRequest)
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = check_levels(body.namespace, "namespace")
    properties = body.properties or {}
    _check_location(warehouse, properties)
    answer = {"namespace": levels, "properties": properties}

    async def run(mark: Mark | None) -> Response:
        async with catalog.database.transaction() as connection:
            await namespaces.create(connection, warehouse.warehouse_id, levels, properties, now_ms())
            if mark is not None:
                await mark.record(connection, 200, now_ms(), idempotent.answer_text(answer))
        return json_response(answer)

    return await idempotent.once(catalog, request, run)


@routes.add("GET", "/{prefix}/namespaces/{namespace}", answer=wire.GetNamespaceResponse)
async def load_namespace(catalog: Catalog, request: Request) -> Response:
    """Load the properties of a namespace."""
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = split_levels(request.params["namespace"], "namespace")
    found = await namespaces.get(catalog.database, warehouse.warehouse_id, levels)
    return json_response({"namespace": levels, "properties": found.properties})


@routes.add("HEAD", "/{prefix}/namespaces/{namespace}", status=204)
async def namespace_exists(catalog: Catalog, request: Request) -> Response:
    """Check whether a namespace exists."""
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = split_levels(request.params["namespace"], "namespace")
    await namespaces.get(catalog.database, warehouse.warehouse_id, levels)
    return no_content()


@routes.add(
    "DELETE",
    "/{prefix}/namespaces/{namespace}",
    headers=_WRITE_HEADERS,
    status=204,
    errors=(400, 404, 409, 422, 500, 503),
)
async def drop_namespace(catalog: Catalog, request: Request) -> Response:
    """Drop a namespace that is empty."""
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = split_levels(request.params["namespace"], "namespace")

    async def run(mark: Mark | None) -> Response:
        async with catalog.database.transaction() as connection:
            await namespaces.drop(connection, warehouse.warehouse_id, levels)
            if mark is not None:
                await mark.record(connection, 204, now_ms())
        return no_content()

    return await idempotent.once(catalog, request, run)


@routes.add(
    "POST",
    "/{prefix}/namespaces/{namespace}/properties",
    body=wire.UpdateNamespacePropertiesRequest,
    headers=_WRITE_HEADERS,
    answer=wire.UpdateNamespacePropertiesResponse,
    errors=(400, 404, 409, 422, 500, 503),
)
async def update_namespace_properties(catalog: Catalog, request: Request) -> Response:
    """Set and remove properties of a namespace."""
    body, _ = request.json(wire.UpdateNamespacePropertiesRequest)
    warehouse = await catalog.warehouses.get(request.params["prefix"])
    levels = split_levels(request.params["namespace"], "namespace")
    removals, updates = list(dict.fromkeys(body.removals or ())), body.updates or {}
    both = sorted(set(removals) & set(updates))
    if both:
        raise Unprocessable(f"properties in both updates and removals: {', '.join(both)}")
    _check_location(warehouse, updates)

    async def run(mark: Mark | None) -> Response:
        for _ in range(_ATTEMPTS):
            answer = await _change_properties(catalog, warehouse, levels, removals, updates, mark)
            if answer is not None:
                return json_response(answer)
        raise CommitFailed(f"Namespace {show(levels)} is being changed by others; try again")

    return await idempotent.once(catalog, request, run)


async def _change_properties(
    catalog: Catalog,
    warehouse: Warehouse,
    levels: tuple[str, ...],
    removals: Sequence[str],
    updates: dict[str, str],
    mark: Mark | None,
) -> dict[str, list[str]] | None:
    """None when somebody else changed the namespace in between."""
    async with catalog.database.transaction() as connection:
        namespace = await namespaces.find(connection, warehouse.warehouse_id, levels)
        if namespace is None:
            raise NoSuchNamespace(f"Namespace does not exist: {show(levels)}")
        gone = {key for key in removals if key in namespace.properties}
        kept = {key: value for key, value in namespace.properties.items() if key not in gone}
        if not await namespaces.set_properties(connection, namespace, {**kept, **updates}, now_ms()):
            return None
        answer = {
            "updated": list(updates),
            "removed": [key for key in removals if key in gone],
            "missing": [key for key in removals if key not in gone],
        }
        if mark is not None:
            await mark.record(connection, 200, now_ms(), idempotent.answer_text(answer))
        return answer


def _check_location(warehouse: Warehouse, properties: dict[str, str]) -> None:
    """Tables of the namespace will go below its location, so it must be inside the warehouse."""
    if "location" in properties:
        warehouse.checked_location(properties["location"], "properties.location")
