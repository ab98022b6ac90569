from __future__ import annotations

import datetime as dt
import stat

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from frazil.devstack.s3 import Keys, signed_headers
from frazil.devstack.seaweed import ObjectStore

pytestmark = pytest.mark.services


def bucket(store: ObjectStore, name: str, keys: Keys) -> S3Store:
    return S3Store(
        name,
        endpoint=store.endpoint,
        region=store.region,
        access_key_id=keys.access,
        secret_access_key=keys.secret,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


def test_objects_are_written_and_read(object_store: ObjectStore) -> None:
    object_store.create_bucket("devstack")
    object_store.create_bucket("devstack")
    lake = bucket(object_store, "devstack", object_store.catalog)
    obstore.put(lake, "a/b", b"ice")
    assert bytes(obstore.get(lake, "a/b").bytes()) == b"ice"


def test_a_wrong_secret_is_refused(object_store: ObjectStore) -> None:
    object_store.create_bucket("devstack")
    stranger = bucket(object_store, "devstack", Keys("catalog", "wrong"))
    with pytest.raises(BaseError):
        obstore.put(stranger, "a/c", b"ice")


def test_objects_outlive_a_kill_and_the_secrets_are_private() -> None:
    with ObjectStore() as store:
        store.create_bucket("kept")
        obstore.put(bucket(store, "kept", store.catalog), "k", b"ice")
        store.kill()
        store.start()
        assert bytes(obstore.get(bucket(store, "kept", store.catalog), "k").bytes()) == b"ice"
        config = store.directory / "identities.json"
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        assert store.admin.secret not in repr(store.admin)


def test_the_signature_is_amazons() -> None:
    # The example of "GET Bucket Lifecycle" in Amazon's description of Signature Version 4.
    headers = signed_headers(
        "GET",
        "http://examplebucket.s3.amazonaws.com/?lifecycle=",
        Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        "us-east-1",
        now=dt.datetime(2013, 5, 24, tzinfo=dt.UTC),
    )
    expected = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
    assert headers["authorization"].endswith(f"Signature={expected}")
