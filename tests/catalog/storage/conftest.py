"""The same storage tests on local disk, on a real S3 store and on the emulators of GCS and Azure."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from frazil.catalog.storage import (
    AdlsProfile,
    AzSharedAccessKey,
    GcsProfile,
    GcsServiceAccountKey,
    LocalProfile,
    S3AccessKey,
    S3Profile,
    Storage,
    open_storage,
)
from frazil.catalog.storage.credentials import GcsServiceKey
from frazil.devstack.azurite import Azurite
from frazil.devstack.gcs import GcsEmulator
from frazil.devstack.seaweed import ObjectStore


def s3_storage(store: ObjectStore, bucket: str, prefix: str, secret: str | None = None) -> Storage:
    profile = S3Profile(
        bucket=bucket,
        region=store.region,
        key_prefix=prefix,
        endpoint=store.endpoint,
        flavor="s3-compat",
        path_style_access=True,
    )
    keys = S3AccessKey(access_key_id=store.catalog.access, secret_access_key=secret or store.catalog.secret)
    return open_storage(profile, keys)


@pytest.fixture
def local(tmp_path: Path) -> Storage:
    return open_storage(LocalProfile(path=str(tmp_path / "wh")))


@pytest.fixture
def s3(object_store: ObjectStore) -> Storage:
    return s3_storage(object_store, object_store.create_bucket("storage-tests"), f"wh/{uuid4()}")


@lru_cache(maxsize=1)
def service_account() -> GcsServiceAccountKey:
    """A service account that Google does not know, with a real key."""
    pem = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = GcsServiceKey(
        type="service_account",
        project_id="frazil-tests",
        private_key_id="0123456789abcdef",
        private_key=pem.decode(),
        client_email="frazil@frazil-tests.iam.gserviceaccount.com",
    )
    return GcsServiceAccountKey(key=key)


def adls_profile(azurite: Azurite, filesystem: str, prefix: str) -> AdlsProfile:
    return AdlsProfile(
        account_name=azurite.account,
        filesystem=filesystem,
        key_prefix=prefix,
        endpoint=azurite.endpoint,
        sas_enabled=False,
    )


@pytest.fixture
def gcs(gcs_emulator: GcsEmulator) -> Storage:
    bucket = gcs_emulator.create_bucket("storage-tests")
    profile = GcsProfile(bucket=bucket, key_prefix=f"wh/{uuid4()}", endpoint=gcs_emulator.endpoint)
    return open_storage(profile, service_account())


@pytest.fixture
def adls(azurite: Azurite) -> Storage:
    profile = adls_profile(azurite, azurite.create_container("storage-tests"), f"wh/{uuid4()}")
    return open_storage(profile, AzSharedAccessKey(key=azurite.key))


@pytest.fixture(
    params=["local", *(pytest.param(cloud, marks=pytest.mark.services) for cloud in ("s3", "gcs", "adls"))]
)
def storage(request: pytest.FixtureRequest) -> Storage:
    opened: Storage = request.getfixturevalue(request.param)
    return opened
