"""Answer bodies of the management API."""

from __future__ import annotations

from typing import Literal

import msgspec

from frazil.catalog.api.management.bodies import Body, DeleteProfile, ManagedBy, UserType
from frazil.catalog.api.management.routing import timestamp
from frazil.catalog.service import Catalog
from frazil.catalog.storage import Profile, credential_type, parse_credential
from frazil.catalog.store.warehouses import WarehouseRow

WarehouseStatus = Literal["active", "inactive"]
CheckStatus = Literal["passed", "failed", "skipped"]


class LicenseStatus(Body, frozen=True, kw_only=True):
    valid: bool
    license_type: str


class ServerInfo(Body, frozen=True, kw_only=True):
    version: str
    #: The Lakekeeper whose management API this one follows; its clients ask for it.
    lakekeeper_version: str
    bootstrapped: bool
    server_id: str
    default_project_id: str | None
    authz_backend: str
    aws_system_identities_enabled: bool
    azure_system_identities_enabled: bool
    gcp_system_identities_enabled: bool
    queues: list[str]
    #: The ways to prove who one is; none: everybody is anonymous. Lakekeeper has no such field.
    authentication: list[str]
    license_status: LicenseStatus


class WhoamiResponse(Body, frozen=True, kw_only=True):
    id: str
    name: str
    user_type: UserType
    created_at: str
    last_updated_with: str
    is_instance_admin: bool
    email: str | None = None
    updated_at: str | None = None


class CreateProjectResponse(Body, frozen=True, kw_only=True):
    project_id: str


class GetProjectResponse(Body, frozen=True, kw_only=True):
    project_id: str
    project_name: str


class ListProjectsResponse(Body, frozen=True, kw_only=True):
    projects: list[GetProjectResponse]


class StorageCredentialType(Body, frozen=True, kw_only=True):
    type: str
    credential_type: str


class GetWarehouseResponse(Body, frozen=True, kw_only=True):
    id: str
    warehouse_id: str
    name: str
    project_id: str
    status: WarehouseStatus
    protected: bool
    storage_profile: Profile
    storage_credential_type: StorageCredentialType | None
    delete_profile: DeleteProfile
    allowed_format_versions: list[int]
    default_format_version: int | None
    managed_by: ManagedBy
    updated_at: str | None


class ListWarehousesResponse(Body, frozen=True, kw_only=True):
    warehouses: list[GetWarehouseResponse]


class ProtectionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer whose keys Lakekeeper writes with an underscore."""

    protected: bool
    updated_at: str | None


class WarehouseStatistics(Body, frozen=True, kw_only=True):
    timestamp: str
    updated_at: str
    number_of_tables: int
    number_of_views: int


class WarehouseStatisticsResponse(Body, frozen=True, kw_only=True):
    warehouse_ident: str
    stats: list[WarehouseStatistics]
    next_page_token: str | None


class ValidationError(Body, frozen=True, kw_only=True):
    code: int
    message: str
    type: str
    stack: tuple[str, ...] = ()


class ValidationCheck(Body, frozen=True, kw_only=True):
    name: str
    status: CheckStatus
    duration_ms: int | None = None
    error: ValidationError | None = None
    reason: str | None = None


class ValidateWarehouseResponse(Body, frozen=True, kw_only=True):
    valid: bool
    checks: list[ValidationCheck]


def warehouse_answer(catalog: Catalog, row: WarehouseRow) -> GetWarehouseResponse:
    """A warehouse as it is shown: of the credential only its kind."""
    kind = None
    if row.sealed is not None:
        credential = parse_credential(
            msgspec.json.decode(catalog.secrets.open(row.sealed, row.warehouse_id.encode()))
        )
        kind = msgspec.convert(credential_type(credential), StorageCredentialType)
    return GetWarehouseResponse(
        id=row.warehouse_id,
        warehouse_id=row.warehouse_id,
        name=row.name,
        project_id=row.project_id,
        status=msgspec.convert(row.status, WarehouseStatus),
        protected=row.protected,
        storage_profile=row.profile,
        storage_credential_type=kind,
        delete_profile=msgspec.convert(row.delete_profile, DeleteProfile),
        allowed_format_versions=row.allowed_format_versions,
        default_format_version=row.default_format_version,
        managed_by=msgspec.convert(row.managed_by, ManagedBy),
        updated_at=None if row.updated_at is None else timestamp(row.updated_at),
    )
