"""Where a warehouse's files are: profiles, credentials, locations, and reading and writing them."""

from frazil.catalog.storage.base import READ_LIMIT, Storage
from frazil.catalog.storage.credentials import (
    AzClientCredentials,
    AzSharedAccessKey,
    AzSystemIdentity,
    Credential,
    GcsServiceAccountKey,
    GcsSystemIdentity,
    S3AccessKey,
    S3SystemIdentity,
    SystemIdentity,
    credential_type,
    encode_credential,
    parse_credential,
)
from frazil.catalog.storage.layout import DefaultLayout, FullHierarchy, StorageLayout, TabularOnly
from frazil.catalog.storage.locations import ancestors, inside, join, owned_file, table_location
from frazil.catalog.storage.opening import open_storage
from frazil.catalog.storage.probe import Check, Status, probe, require_passed
from frazil.catalog.storage.profiles import (
    AdlsProfile,
    GcsProfile,
    LocalProfile,
    Profile,
    S3Profile,
    check_pair,
    check_update,
    encode_profile,
    parse_profile,
    profile_document,
)
from frazil.catalog.storage.purge import PurgeReport, purge_files, purge_location
from frazil.catalog.storage.reachable import Batch, Phase, Skipped, reachable_files

__all__ = [
    "READ_LIMIT",
    "AdlsProfile",
    "AzClientCredentials",
    "AzSharedAccessKey",
    "AzSystemIdentity",
    "Batch",
    "Check",
    "Credential",
    "DefaultLayout",
    "FullHierarchy",
    "GcsProfile",
    "GcsServiceAccountKey",
    "GcsSystemIdentity",
    "LocalProfile",
    "Phase",
    "Profile",
    "PurgeReport",
    "S3AccessKey",
    "S3Profile",
    "S3SystemIdentity",
    "Skipped",
    "Status",
    "Storage",
    "StorageLayout",
    "SystemIdentity",
    "TabularOnly",
    "ancestors",
    "check_pair",
    "check_update",
    "credential_type",
    "encode_credential",
    "encode_profile",
    "inside",
    "join",
    "open_storage",
    "owned_file",
    "parse_credential",
    "parse_profile",
    "probe",
    "profile_document",
    "purge_files",
    "purge_location",
    "reachable_files",
    "require_passed",
    "table_location",
]
