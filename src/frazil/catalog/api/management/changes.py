"""Changes of one warehouse: storage, credential, policies, protection."""

from __future__ import annotations

import msgspec

from frazil.catalog.api.management.answers import GetWarehouseResponse, ProtectionResponse
from frazil.catalog.api.management.bodies import (
    SetProtectionRequest,
    SetWarehouseManagedByRequest,
    UpdateCredentialBody,
    UpdateStorageBody,
    UpdateWarehouseCredentialRequest,
    UpdateWarehouseDeleteProfileRequest,
    UpdateWarehouseFormatVersionPolicyRequest,
    UpdateWarehouseStorageRequest,
)
from frazil.catalog.api.management.routing import routes, timestamp, warehouse_of
from frazil.catalog.api.management.specs import (
    StorageSpec,
    format_versions,
    require_exclusive,
    require_usable,
    storage_pair,
    storage_spec,
)
from frazil.catalog.api.management.warehouses import answer
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.rotation import require_key
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.storage import check_update
from frazil.catalog.store import warehouses
from frazil.catalog.store.warehouses import WarehouseRow

_PATH = "/warehouse/{warehouse_id}"
_CONFLICT = (400, 404, 409)


@routes.add(
    "POST",
    _PATH + "/storage",
    body=UpdateWarehouseStorageRequest,
    answer=GetWarehouseResponse,
    errors=_CONFLICT,
)
async def update_warehouse_storage(catalog: Catalog, request: Request) -> Response:
    """Replace profile and credential; bucket, key-prefix and path cannot change."""
    body, _ = request.json(UpdateStorageBody)
    before = await warehouses.get(catalog.database, warehouse_of(request))
    spec = storage_spec(catalog, body.storage_profile, body.storage_credential)
    check_update(before.profile, spec.profile)
    return await _set_storage(catalog, before, spec)


@routes.add(
    "POST",
    _PATH + "/storage-credential",
    body=UpdateWarehouseCredentialRequest,
    answer=GetWarehouseResponse,
    errors=_CONFLICT,
)
async def update_warehouse_credential(catalog: Catalog, request: Request) -> Response:
    """Replace the credential; without a new one, the old one is removed."""
    body, _ = request.json(UpdateCredentialBody)
    before = await warehouses.get(catalog.database, warehouse_of(request))
    return await _set_storage(
        catalog, before, storage_pair(catalog, before.profile, body.new_storage_credential)
    )


@routes.add(
    "POST", _PATH + "/delete-profile", body=UpdateWarehouseDeleteProfileRequest, answer=GetWarehouseResponse
)
async def update_warehouse_delete_profile(catalog: Catalog, request: Request) -> Response:
    """Choose what happens to dropped tables."""
    body, _ = request.json(UpdateWarehouseDeleteProfileRequest)
    warehouse_id, value = warehouse_of(request), msgspec.to_builtins(body.delete_profile)
    await warehouses.set_json(catalog.database, warehouse_id, "delete_profile", value, now_ms())
    return await answer(catalog, warehouse_id)


@routes.add(
    "POST",
    _PATH + "/format-version-policy",
    body=UpdateWarehouseFormatVersionPolicyRequest,
    answer=GetWarehouseResponse,
)
async def update_warehouse_format_version_policy(catalog: Catalog, request: Request) -> Response:
    """Choose the format versions that tables may have and the one that new tables get."""
    body, _ = request.json(UpdateWarehouseFormatVersionPolicyRequest)
    warehouse_id = warehouse_of(request)
    allowed, default = format_versions(body.allowed_format_versions, body.default_format_version)
    await warehouses.set_format_versions(catalog.database, warehouse_id, allowed, default, now_ms())
    return await answer(catalog, warehouse_id)


@routes.add("POST", _PATH + "/protection", body=SetProtectionRequest, answer=ProtectionResponse)
async def set_warehouse_protection(catalog: Catalog, request: Request) -> Response:
    """Protect a warehouse from deletion, or take the protection off."""
    body, _ = request.json(SetProtectionRequest)
    now = now_ms()
    await warehouses.change(catalog.database, warehouse_of(request), {"protected": int(body.protected)}, now)
    return json_response(ProtectionResponse(protected=body.protected, updated_at=timestamp(now)))


@routes.add("POST", _PATH + "/managed-by", body=SetWarehouseManagedByRequest, answer=GetWarehouseResponse)
async def set_warehouse_managed_by(catalog: Catalog, request: Request) -> Response:
    """Say who manages a warehouse."""
    body, _ = request.json(SetWarehouseManagedByRequest)
    warehouse_id = warehouse_of(request)
    await warehouses.change(catalog.database, warehouse_id, {"managed_by": body.managed_by}, now_ms())
    return await answer(catalog, warehouse_id)


async def _set_storage(catalog: Catalog, before: WarehouseRow, spec: StorageSpec) -> Response:
    """A profile that does not work is not stored, so a mistake cannot cut a warehouse off from its data."""
    await require_usable(spec)
    sealed = spec.sealed(catalog, before.warehouse_id)
    async with catalog.database.transaction() as connection:
        await warehouses.lock_places(catalog.database, connection)
        await require_key(connection, catalog.secrets)
        # The endpoint may have changed, and with it the store that the bucket is in.
        await require_exclusive(connection, spec.profile, before.warehouse_id)
        await warehouses.set_storage(connection, before, spec.profile, sealed, now_ms())
    return await answer(catalog, before.warehouse_id)
