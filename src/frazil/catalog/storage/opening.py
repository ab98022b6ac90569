"""From a profile to a storage that works."""

from __future__ import annotations

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.credentials import Credential
from frazil.catalog.storage.local import LocalStorage
from frazil.catalog.storage.profiles import LocalProfile, Profile, check_pair
from frazil.core.errors import InvalidInput


def open_storage(profile: Profile, credential: Credential | None = None) -> Storage:
    """The storage of a profile; nothing is contacted yet."""
    check_pair(profile, credential)
    if isinstance(profile, LocalProfile):
        return LocalStorage(profile)
    # Imported late: a server with local warehouses only never loads obstore.
    from frazil.catalog.storage.s3 import S3Storage

    if credential is None:
        raise InvalidInput("storage-credential: required")
    return S3Storage(profile, credential)
