"""Warehouses on the emulators of Google and Azure: the life of tables and of their metadata files."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from tests.catalog.api.client import Catalog, Client, Json
from tests.catalog.storage.conftest import adls_profile, service_account

from frazil.catalog.storage import (
    AzSharedAccessKey,
    Credential,
    GcsProfile,
    Profile,
    Storage,
    encode_credential,
    open_storage,
    profile_document,
)
from frazil.devstack.azurite import Azurite
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.gcs import GcsEmulator

_SECONDS = 120


@dataclass(frozen=True)
class Cloud:
    """A place for one warehouse."""

    profile: Profile
    credential: Credential

    def body(self, **changes: Any) -> Json:
        profile = {**profile_document(self.profile), **changes}
        credential = msgspec.json.decode(encode_credential(self.credential))
        return {
            "warehouse-name": f"clouds-{uuid4()}",
            "storage-profile": profile,
            "storage-credential": credential,
        }

    def storage(self) -> Storage:
        return open_storage(self.profile, self.credential)


@pytest.fixture
def gcs(gcs_emulator: GcsEmulator) -> Cloud:
    bucket = gcs_emulator.create_bucket("clouds")
    profile = GcsProfile(bucket=bucket, key_prefix=f"wh/{uuid4()}", endpoint=gcs_emulator.endpoint)
    return Cloud(profile, service_account())


@pytest.fixture
def adls(azurite: Azurite) -> Cloud:
    profile = adls_profile(azurite, azurite.create_container("clouds"), f"wh/{uuid4()}")
    return Cloud(profile, AzSharedAccessKey(key=azurite.key))


@pytest.fixture(params=["gcs", "adls"])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    chosen: Cloud = request.getfixturevalue(request.param)
    return chosen


def create(server: FrazilServer, body: Json) -> Json:
    answer: Json = Client(server.port).send("POST", "/management/v1/warehouse", body).ok(201)
    return answer


def files(storage: Storage, location: str) -> list[str]:
    async def walk() -> list[str]:
        return [found async for batch in storage.walk(location) for found in batch]

    return asyncio.run(walk())


def test_the_life_of_a_table(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    catalog = Catalog(Client(frazil_sqlite.port), create(frazil_sqlite, cloud.body())["id"])
    catalog.create_namespace("ns").ok()
    location = f"{cloud.profile.base}/ns/t1"
    created = catalog.create_table(("ns",), "t1", location=location).ok()
    assert created["metadata-location"].startswith(f"{location}/metadata/")
    catalog.create_table(("ns",), "t10", location=f"{location}0").ok()
    update = {"action": "set-properties", "updates": {"owner": "me"}}
    committed = catalog.commit(("ns",), "t1", update).ok()
    loaded = catalog.load(("ns",), "t1").ok()
    assert loaded["metadata"]["properties"]["owner"] == "me"
    assert loaded["metadata-location"] == committed["metadata-location"]
    storage = cloud.storage()
    assert set(files(storage, location)) == {created["metadata-location"], loaded["metadata-location"]}
    for secret in cloud.credential.secrets():
        assert json.dumps(secret)[1:-1] not in json.dumps([created, committed, loaded])
    catalog.send("DELETE", catalog.table_path(("ns",), "t1"), purgeRequested="true").ok(204)
    catalog.load(("ns",), "t1").refused(404, "NoSuchTableException")
    deadline = time.monotonic() + _SECONDS
    while left := files(storage, location):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert len(files(storage, f"{location}0")) == 1


def test_where_a_table_may_not_lie(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    catalog = Catalog(Client(frazil_sqlite.port), create(frazil_sqlite, cloud.body())["id"])
    catalog.create_namespace("ns").ok()
    base = cloud.profile.base
    catalog.create_table(("ns",), "t", location=f"{base}/a/b").ok()
    for outside in (f"{base}x/t", base.rpartition("/")[0], "s3://lake/t", f"{base}/../t", base.upper()):
        catalog.create_table(("ns",), "u", location=outside).refused(400, None, "location")
    for taken in (f"{base}/a/b", f"{base}/a/b/c", f"{base}/a"):
        assert catalog.create_table(("ns",), "u", location=taken).status in (400, 409)


def test_a_generic_table_goes_with_its_files(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    warehouse = create(frazil_sqlite, cloud.body())["id"]
    client = Client(frazil_sqlite.port)
    Catalog(client, warehouse).create_namespace("ns").ok()
    path = f"/lakekeeper/v1/{warehouse}/namespaces/ns/generic-tables"
    location = f"{cloud.profile.base}/ns/readings"
    client.send("POST", path, {"name": "readings", "format": "csv", "base-location": location}).ok()
    storage = cloud.storage()

    async def fill() -> None:
        for name in ("readings/day=1/a.csv", "readings/b.csv", "readings2/c.csv"):
            await storage.write_new(f"{cloud.profile.base}/ns/{name}", b"1,2")

    asyncio.run(fill())
    client.send("DELETE", f"{path}/readings?purgeRequested=true").ok(204)
    deadline = time.monotonic() + _SECONDS
    while left := files(storage, location):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert len(files(storage, f"{location}2")) == 1


def test_two_warehouses_do_not_share_a_place(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    create(frazil_sqlite, cloud.body())
    prefix = profile_document(cloud.profile)["key-prefix"]
    for overlapping in (prefix, f"{prefix}/deeper", prefix.rpartition("/")[0]):
        body = cloud.body(**{"key-prefix": overlapping})
        answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
        answer.refused(409, "StorageProfileOverlap")
    create(frazil_sqlite, cloud.body(**{"key-prefix": f"{prefix}0"}))


def test_no_answer_holds_a_secret(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    created = create(frazil_sqlite, cloud.body())
    client = Client(frazil_sqlite.port)
    shown = client.send("GET", f"/management/v1/warehouse/{created['id']}").ok()
    assert shown["storage-credential-type"]["credential-type"] in ("service-account-key", "shared-access-key")
    for secret in cloud.credential.secrets():
        assert json.dumps(secret)[1:-1] not in json.dumps([created, shown])


def test_a_bucket_that_is_not_there_is_named_by_the_step(frazil_sqlite: FrazilServer, cloud: Cloud) -> None:
    field = "bucket" if isinstance(cloud.profile, GcsProfile) else "filesystem"
    body = cloud.body(**{field: "no-such-place"})
    answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
    message = answer.refused(400, "StorageValidationFailed", "the write step failed")
    for secret in cloud.credential.secrets():
        assert secret not in message


def test_a_wrong_account_key_is_refused(frazil_sqlite: FrazilServer, adls: Cloud) -> None:
    body = adls.body()
    body["storage-credential"]["key"] = "d3Jvbmcga2V5LCB3cm9uZyBrZXk="
    answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
    message = answer.refused(400, "StorageValidationFailed", "the write step failed", "AuthorizationFailure")
    assert "d3Jvbmcga2V5" not in message


def test_signatures_that_the_store_does_not_enforce_are_not_vended(
    frazil_sqlite: FrazilServer, adls: Cloud
) -> None:
    body = adls.body(**{"sas-enabled": True})
    answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
    answer.refused(400, "StorageValidationFailed", "vending was tried", "vended-credentials-read-write")


@pytest.mark.parametrize(
    ("profile", "identity"),
    [
        ({"type": "gcs", "bucket": "lake"}, {"type": "gcs", "credential-type": "gcp-system-identity"}),
        (
            {"type": "adls", "account-name": "account", "filesystem": "lake"},
            {"type": "az", "credential-type": "azure-system-identity"},
        ),
    ],
)
def test_the_servers_own_identity_is_not_lent(
    frazil_sqlite: FrazilServer, profile: Json, identity: Json
) -> None:
    client = Client(frazil_sqlite.port)
    info = client.send("GET", "/management/v1/info").ok()
    assert info["gcp-system-identities-enabled"] is False
    assert info["azure-system-identities-enabled"] is False
    body = {"warehouse-name": "w", "storage-profile": profile, "storage-credential": identity}
    client.send("POST", "/management/v1/warehouse", body).refused(400, None, "switched off on this server")
