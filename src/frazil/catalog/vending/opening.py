"""From a profile to what vends credentials for it."""

from __future__ import annotations

from frazil.catalog.storage import (
    AdlsProfile,
    AzClientCredentials,
    AzSharedAccessKey,
    AzSystemIdentity,
    Credential,
    GcsProfile,
    GcsServiceAccountKey,
    GcsSystemIdentity,
    Profile,
    S3AccessKey,
    S3Profile,
    S3SystemIdentity,
)
from frazil.catalog.vending.base import Vendor


def open_vendor(profile: Profile, credential: Credential | None) -> Vendor | None:
    """The vendor of a profile, or None where credentials are not vended; nothing is contacted yet."""
    # Imported late: a server with local warehouses only never loads an HTTP client.
    match profile, credential:
        case S3Profile(sts_enabled=True), S3AccessKey() | S3SystemIdentity():
            from frazil.catalog.vending.s3 import S3Vendor

            return S3Vendor(profile, credential)
        case GcsProfile(sts_enabled=True, emulated=False), GcsServiceAccountKey() | GcsSystemIdentity():
            from frazil.catalog.vending.gcs import GcsVendor

            return GcsVendor(profile, credential)
        case AdlsProfile(sas_enabled=True), AzClientCredentials() | AzSharedAccessKey() | AzSystemIdentity():
            from frazil.catalog.vending.adls import AdlsVendor

            return AdlsVendor(profile, credential)
    return None
