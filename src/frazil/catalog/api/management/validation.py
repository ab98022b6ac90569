"""Dry runs: would this warehouse, profile or credential work? The answer lists every check."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from frazil.catalog.api.management.answers import (
    CheckStatus,
    ValidateWarehouseResponse,
    ValidationCheck,
    ValidationError,
)
from frazil.catalog.api.management.bodies import (
    CreateWarehouseBody,
    CreateWarehouseRequest,
    UpdateCredentialBody,
    UpdateStorageBody,
    UpdateWarehouseCredentialRequest,
    UpdateWarehouseStorageRequest,
)
from frazil.catalog.api.management.routing import PROJECT_HEADER, project_of, routes, warehouse_of
from frazil.catalog.api.management.specs import (
    StorageSpec,
    format_versions,
    require_exclusive,
    storage_pair,
    storage_spec,
)
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.http.errors import status_of
from frazil.catalog.service import Catalog
from frazil.catalog.storage import (
    Check,
    Status,
    Storage,
    check_update,
    open_storage,
    parse_credential,
    probe,
)
from frazil.catalog.store import projects, warehouses
from frazil.catalog.store.warehouses import WarehouseRow
from frazil.catalog.vending import Vendor, open_vendor
from frazil.catalog.vending.probing import VENDING_CHECKS, TriedVendor, VendingProbe
from frazil.core.errors import FrazilError
from frazil.core.names import check_name

T = TypeVar("T")

_PATH = "/warehouse/{warehouse_id}/storage"
#: Lakekeeper's names for the steps of the probe.
_PROBE_NAMES = {"write": "lakekeeper-read-write", "read": "lakekeeper-read-write", "delete": "cleanup"}


class Checklist:
    """Collects checks; after a failure what depends on it is skipped."""

    def __init__(self) -> None:
        self.checks: list[ValidationCheck] = []

    async def run(self, name: str, work: Callable[[], Awaitable[T]]) -> T | None:
        """Do one check; None when it failed."""
        start = time.perf_counter()
        try:
            result = await work()
        except FrazilError as error:
            self._add(name, "failed", _since(start), error=_error(error))
            return None
        self._add(name, "passed", _since(start))
        return result

    async def passed(self, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Do one check that has no result."""
        await self.run(name, work)
        return self.checks[-1].status == "passed"

    def skip(self, name: str, reason: str) -> None:
        self._add(name, "skipped", reason=reason)

    def probed(self, steps: list[Check]) -> None:
        """Writing and reading are one check of Lakekeeper's, deleting is another."""
        for name in dict.fromkeys(_PROBE_NAMES.values()):
            parts = [step for step in steps if _PROBE_NAMES[step.name] == name]
            failed = next((step for step in parts if step.status is Status.FAILED), None)
            duration = sum(step.duration_ms or 0 for step in parts)
            if failed is not None:
                message = f"the {failed.name} step failed: {failed.error}"
                error = ValidationError(code=400, message=message, type="StorageValidationFailed")
                self._add(name, "failed", duration, error=error)
            elif all(step.status is Status.SKIPPED for step in parts):
                self.skip(name, parts[0].reason or "an earlier step failed")
            else:
                self._add(name, "passed", duration)

    def response(self) -> Response:
        valid = all(check.status != "failed" for check in self.checks)
        return json_response(ValidateWarehouseResponse(valid=valid, checks=self.checks))

    def _add(
        self,
        name: str,
        status: CheckStatus,
        duration_ms: int | None = None,
        *,
        error: ValidationError | None = None,
        reason: str | None = None,
    ) -> None:
        check = ValidationCheck(name=name, status=status, duration_ms=duration_ms, error=error, reason=reason)
        self.checks.append(check)


@routes.add(
    "POST",
    "/warehouse-creation-validation",
    body=CreateWarehouseRequest,
    headers=(PROJECT_HEADER,),
    answer=ValidateWarehouseResponse,
    errors=(400,),
)
async def validate_warehouse_creation(catalog: Catalog, request: Request) -> Response:
    """Everything that creating a warehouse would check, without creating it."""
    body, _ = request.json(CreateWarehouseBody)
    project_id = project_of(request, body.project_id)
    checklist = Checklist()

    async def name_valid() -> None:
        name = check_name(body.warehouse_name, "warehouse-name")
        await projects.get(catalog.database, project_id)
        await warehouses.refuse_taken_name(catalog.database, project_id, name)

    async def policy_consistent() -> None:
        format_versions(body.allowed_format_versions, body.default_format_version)

    async def well_formed() -> StorageSpec:
        return storage_spec(catalog, body.storage_profile, body.storage_credential)

    await checklist.run("warehouse-name-valid", name_valid)
    await checklist.run("format-version-policy-consistent", policy_consistent)
    spec = await checklist.run("profile-well-formed", well_formed)
    await _check_storage(catalog, checklist, spec)
    return checklist.response()


@routes.add("POST", _PATH + "/validate-access", answer=ValidateWarehouseResponse)
async def validate_warehouse_access(catalog: Catalog, request: Request) -> Response:
    """Whether the storage works as it is stored."""
    row = await warehouses.get(catalog.database, warehouse_of(request))
    checklist = Checklist()
    credential = None
    if row.sealed is not None:
        opened = catalog.secrets.open(row.sealed, row.warehouse_id.encode())
        credential = parse_credential(msgspec.json.decode(opened))
    await _check_storage(catalog, checklist, StorageSpec(row.profile, credential), row.warehouse_id)
    return checklist.response()


@routes.add(
    "POST",
    _PATH + "/validate-credential",
    body=UpdateWarehouseCredentialRequest,
    answer=ValidateWarehouseResponse,
)
async def validate_warehouse_credential(catalog: Catalog, request: Request) -> Response:
    """Whether a new credential would work with the stored profile."""
    body, _ = request.json(UpdateCredentialBody)
    row = await warehouses.get(catalog.database, warehouse_of(request))
    checklist = Checklist()

    async def compatible() -> StorageSpec:
        return storage_pair(catalog, row.profile, body.new_storage_credential)

    spec = await checklist.run("profile-compatible", compatible)
    await _check_storage(catalog, checklist, spec, row.warehouse_id)
    return checklist.response()


@routes.add(
    "POST", _PATH + "/validate-profile", body=UpdateWarehouseStorageRequest, answer=ValidateWarehouseResponse
)
async def validate_warehouse_profile(catalog: Catalog, request: Request) -> Response:
    """Whether a new profile would be accepted and would work."""
    body, _ = request.json(UpdateStorageBody)
    row = await warehouses.get(catalog.database, warehouse_of(request))
    checklist = Checklist()

    async def well_formed() -> StorageSpec:
        return storage_spec(catalog, body.storage_profile, body.storage_credential)

    spec = await checklist.run("profile-well-formed", well_formed)
    if spec is not None:
        spec = await checklist.run("profile-compatible", partial(_compatible, row, spec))
    await _check_storage(catalog, checklist, spec, row.warehouse_id)
    return checklist.response()


async def _check_storage(
    catalog: Catalog, checklist: Checklist, spec: StorageSpec | None, warehouse_id: str | None = None
) -> None:
    """The checks that need a good profile: alone in its place, and working."""
    if spec is None:
        for name in ("location-exclusive", "lakekeeper-read-write", "cleanup", *VENDING_CHECKS):
            checklist.skip(name, "the profile or the credential is not usable")
    else:
        await checklist.run(
            "location-exclusive", lambda: require_exclusive(catalog.database, spec.profile, warehouse_id)
        )
        storage = open_storage(spec.profile, spec.credential)
        vendor = open_vendor(spec.profile, spec.credential)
        try:
            checklist.probed(await probe(storage))
            await _check_vending(checklist, storage, vendor)
        finally:
            await storage.close()
            if vendor is not None:
                await vendor.close()


async def _check_vending(checklist: Checklist, storage: Storage, vendor: Vendor | None) -> None:
    reason = None
    if vendor is None:
        reason = "the profile does not vend credentials"
    elif not isinstance(vendor, TriedVendor):
        reason = "vended credentials are not tried for this kind of storage"
    elif any(check.status == "failed" for check in checklist.checks):
        reason = "an earlier check failed"
    checks = VendingProbe(storage, vendor).checks if isinstance(vendor, TriedVendor) else {}
    for name in VENDING_CHECKS:
        if reason is not None:
            checklist.skip(name, reason)
        elif not await checklist.passed(name, checks[name]):
            reason = f"the check {name} failed"


async def _compatible(row: WarehouseRow, spec: StorageSpec) -> StorageSpec:
    check_update(row.profile, spec.profile)
    return spec


def _error(error: FrazilError) -> ValidationError:
    return ValidationError(code=status_of(error), message=error.message, type=error.kind)


def _since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
