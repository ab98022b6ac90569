"""From a profile to a storage that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.credentials import (
    AzClientCredentials,
    AzSharedAccessKey,
    AzSystemIdentity,
    Credential,
    GcsServiceAccountKey,
    GcsSystemIdentity,
    S3AccessKey,
    S3SystemIdentity,
)
from frazil.catalog.storage.local import LocalStorage
from frazil.catalog.storage.profiles import (
    AdlsProfile,
    GcsProfile,
    LocalProfile,
    Profile,
    S3Profile,
    check_pair,
)
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from frazil.catalog.storage.objects import Opened


def open_storage(profile: Profile, credential: Credential | None = None) -> Storage:
    """The storage of a profile; nothing is contacted yet."""
    check_pair(profile, credential)
    if isinstance(profile, LocalProfile):
        return LocalStorage(profile)
    # Imported late: a server with local warehouses only never loads obstore.
    from frazil.catalog.storage.objects import ObjectStorage

    return ObjectStorage(_opened(profile, credential))


def _opened(profile: Profile, credential: Credential | None) -> Opened:
    match profile, credential:
        case S3Profile(), S3AccessKey() | S3SystemIdentity():
            from frazil.catalog.storage.s3 import open_s3

            return open_s3(profile, credential)
        case GcsProfile(), GcsServiceAccountKey() | GcsSystemIdentity():
            from frazil.catalog.storage.gcs import open_gcs

            return open_gcs(profile, credential)
        case AdlsProfile(), AzClientCredentials() | AzSharedAccessKey() | AzSystemIdentity():
            from frazil.catalog.storage.adls import open_adls

            return open_adls(profile, credential)
    raise InvalidInput("storage-credential: does not go with the storage profile")
