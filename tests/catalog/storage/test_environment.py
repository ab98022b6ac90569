"""Nothing of the server's own cloud environment slips into a warehouse's requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.catalog.clouds.recording import Asked, Recorder
from tests.catalog.storage.conftest import adls_profile, service_account

from frazil.catalog.storage import AzSharedAccessKey, GcsProfile, open_storage, probe
from frazil.catalog.storage.adls import adls_store
from frazil.catalog.storage.gcs import gcs_store
from frazil.catalog.storage.objects import ObjectStorage, Opened
from frazil.catalog.storage.probe import require_passed
from frazil.catalog.storage.profiles import AdlsProfile
from frazil.core.errors import InvalidConfig
from frazil.devstack.azurite import Azurite
from frazil.devstack.gcs import GcsEmulator

SERVERS_OWN = "the-servers-own"
AZURE = {
    "AZURE_STORAGE_ACCOUNT_NAME": SERVERS_OWN,
    "AZURE_STORAGE_ACCOUNT_KEY": base64.b64encode(SERVERS_OWN.encode()).decode(),
    "AZURE_STORAGE_TOKEN": SERVERS_OWN,
    "AZURE_STORAGE_SAS_KEY": f"sv=2023-11-03&sig={SERVERS_OWN}",
    "AZURE_CLIENT_ID": SERVERS_OWN,
    "AZURE_CLIENT_SECRET": SERVERS_OWN,
    "AZURE_TENANT_ID": SERVERS_OWN,
    "AZURE_CREDENTIAL_TYPE": "bearer_token",
    "AZURE_STORAGE_USE_EMULATOR": "true",
    "AZURE_USE_FABRIC_ENDPOINT": "true",
    "AZURE_USE_AZURE_CLI": "true",
    "AZURE_SKIP_SIGNATURE": "true",
    "AZURE_CONTAINER_NAME": SERVERS_OWN,
    "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:1",
    "AZURE_ENDPOINT": "http://127.0.0.1:1",
    "AZURE_ENCRYPTION_KEY": base64.b64encode(b"the servers own encryption key!!").decode(),
}
GOOGLE = {
    "GOOGLE_BASE_URL": "http://127.0.0.1:1",
    "GOOGLE_BEARER_TOKEN": SERVERS_OWN,
    "GOOGLE_SKIP_SIGNATURE": "true",
    "GOOGLE_BUCKET": SERVERS_OWN,
    "GOOGLE_BUCKET_NAME": SERVERS_OWN,
    "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(
        {
            "gcs_base_url": "http://127.0.0.1:1",
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
    ),
}


def created(_: Asked) -> tuple[int, bytes]:
    return 201, b""


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def test_a_warehouse_on_azure(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, AZURE)
    profile = adls_profile(azurite, azurite.create_container("storage-tests"), "environment")
    require_passed(await probe(open_storage(profile, AzSharedAccessKey(key=azurite.key))))


async def test_a_warehouse_on_google(gcs_emulator: GcsEmulator, monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, GOOGLE)
    bucket = gcs_emulator.create_bucket("storage-tests")
    profile = GcsProfile(bucket=bucket, key_prefix="environment", endpoint=gcs_emulator.endpoint)
    require_passed(await probe(open_storage(profile, service_account())))
    # Whatever speaks no TLS is an emulator and sees no real token.
    assert gcs_emulator.authorizations == {"Bearer none"}


async def test_the_token_that_azure_gets_is_the_warehouses(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, AZURE)

    async def provide() -> dict[str, object]:
        return {"token": "the-warehouses", "expires_at": None}

    with Recorder(created) as server:
        profile = AdlsProfile(account_name="account", filesystem="lake", endpoint=f"{server.url}/account")
        store = adls_store(profile, provide)  # type: ignore[arg-type]
        opened = Opened(store, f"{profile.base}/", profile.base, (), {})
        await ObjectStorage(opened).write_new(f"{profile.base}/t/a", b"x")
    (asked,) = server.asked
    assert asked.path == "/account/lake/t/a"
    assert asked.headers["authorization"] == "Bearer the-warehouses"
    assert asked.headers["if-none-match"] == "*"
    assert not [name for name in asked.headers if "encryption" in name]
    assert SERVERS_OWN not in str(asked)


async def test_the_token_that_google_gets_is_the_warehouses(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, GOOGLE)

    async def provide() -> dict[str, object]:
        return {"token": "the-warehouses", "expires_at": None}

    with Recorder(created) as server:
        profile = GcsProfile(bucket="lake", endpoint=server.url)
        opened = Opened(gcs_store(profile, provide), f"{profile.base}/", profile.base, (), {})  # type: ignore[arg-type]
        await ObjectStorage(opened).write_new(f"{profile.base}/t/a", b"x")
    (asked,) = server.asked
    assert asked.path == "/lake/t%2Fa"
    assert asked.headers["authorization"] == "Bearer the-warehouses"
    assert asked.headers["x-goog-if-generation-match"] == "0"
    assert SERVERS_OWN not in str(asked)


def test_a_broken_variable_of_the_server_is_named_as_such(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "missing"))
    with pytest.raises(InvalidConfig, match="GOOGLE_ variable"):
        open_storage(GcsProfile(bucket="lake"), service_account())
