"""From a profile to what vends credentials for it."""

from __future__ import annotations

from frazil.catalog.storage import Credential, Profile, S3AccessKey, S3Profile, S3SystemIdentity
from frazil.catalog.vending.base import Vendor


def open_vendor(profile: Profile, credential: Credential | None) -> Vendor | None:
    """The vendor of a profile, or None where credentials are not vended; nothing is contacted yet."""
    if isinstance(profile, S3Profile) and isinstance(credential, S3AccessKey | S3SystemIdentity):
        # Imported late: a server with local warehouses only never loads an HTTP client.
        from frazil.catalog.vending.s3 import S3Vendor

        return S3Vendor(profile, credential) if profile.sts_enabled else None
    return None
