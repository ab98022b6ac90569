"""Request bodies. Where a profile or credential is `Any`, `frazil.catalog.storage` judges it.

The subclasses say the same with the real types; they are for the OpenAPI document only.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from frazil.catalog.storage import Credential, Profile

Name = Annotated[str, Meta(min_length=1, max_length=255)]
ManagedBy = Literal["self-managed", "instance-admin"]
UserType = Literal["human", "application"]
FormatVersion = Annotated[int, Meta(ge=1, le=3)]


class Body(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """All keys are kebab-case; unknown ones are ignored, as Lakekeeper does."""


class BootstrapRequest(Body, frozen=True, kw_only=True):
    accept_terms_of_use: bool
    is_operator: bool = False
    user_name: str | None = None
    user_email: str | None = None
    user_type: UserType | None = None


class CreateProjectRequest(Body, frozen=True, kw_only=True):
    project_name: Name
    project_id: str | None = None


class RenameRequest(Body, frozen=True, kw_only=True):
    new_name: Name


class HardDelete(Body, frozen=True, kw_only=True, tag_field="type", tag="hard"):
    """Dropped tables are gone at once."""


class SoftDelete(Body, frozen=True, kw_only=True, tag_field="type", tag="soft"):
    """Dropped tables are kept for a while."""

    expiration_seconds: Annotated[int, Meta(ge=0, le=10_000_000_000)]


DeleteProfile = HardDelete | SoftDelete


class CreateWarehouseBody(Body, frozen=True, kw_only=True):
    warehouse_name: Name
    storage_profile: Any
    storage_credential: Any = None
    project_id: str | None = None
    delete_profile: DeleteProfile = HardDelete()
    allowed_format_versions: list[int] | None = None
    default_format_version: int | None = None
    managed_by: ManagedBy = "self-managed"


class CreateWarehouseRequest(CreateWarehouseBody, frozen=True, kw_only=True):
    storage_profile: Profile
    storage_credential: Credential | None = None
    allowed_format_versions: list[FormatVersion] | None = None
    default_format_version: FormatVersion | None = None


class UpdateStorageBody(Body, frozen=True, kw_only=True):
    storage_profile: Any
    storage_credential: Any = None


class UpdateWarehouseStorageRequest(UpdateStorageBody, frozen=True, kw_only=True):
    storage_profile: Profile
    storage_credential: Credential | None = None


class UpdateCredentialBody(Body, frozen=True, kw_only=True):
    new_storage_credential: Any = None


class UpdateWarehouseCredentialRequest(UpdateCredentialBody, frozen=True, kw_only=True):
    new_storage_credential: Credential | None = None


class UpdateWarehouseDeleteProfileRequest(Body, frozen=True, kw_only=True):
    delete_profile: DeleteProfile


class UpdateWarehouseFormatVersionPolicyRequest(Body, frozen=True, kw_only=True):
    allowed_format_versions: list[int]
    default_format_version: int | None = None


class SetProtectionRequest(Body, frozen=True, kw_only=True):
    protected: bool


class SetWarehouseManagedByRequest(Body, frozen=True, kw_only=True):
    managed_by: ManagedBy
