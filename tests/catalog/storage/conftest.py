"""The same storage tests on local disk and on a real S3 store."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from frazil.catalog.storage import LocalProfile, S3AccessKey, S3Profile, Storage, open_storage
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


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.services)])
def storage(request: pytest.FixtureRequest) -> Storage:
    opened: Storage = request.getfixturevalue(request.param)
    return opened
