"""The AWS identity of the server itself."""

from __future__ import annotations

import sys

import pytest
from tests.catalog.vending.support import create_warehouse, keys_of, warehouse_body

from frazil.catalog.aws import Keys, StaticKeys, SystemKeys
from frazil.core.errors import InvalidConfig, StorageError
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore


@pytest.fixture
def environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> pytest.MonkeyPatch:
    """No identity from the machine that the tests run on."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    empty = str(tmp_path_factory.mktemp("aws") / "none")
    monkeypatch.setenv("AWS_CONFIG_FILE", empty)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", empty)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return monkeypatch


async def test_the_variables_of_the_process(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "AK")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "SK")
    environment.setenv("AWS_SESSION_TOKEN", "T")
    assert await SystemKeys().keys() == Keys("AK", "SK", "T")


async def test_a_server_without_identity(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match="no AWS identity"):
        await SystemKeys().keys()


async def test_a_server_without_the_sdk(environment: pytest.MonkeyPatch) -> None:
    environment.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(InvalidConfig, match=r"frazil\[aws\]"):
        await SystemKeys().keys()


async def test_static_keys() -> None:
    keys = Keys("AK", "SK")
    assert await StaticKeys(keys).keys() is keys


def test_credentials_are_vended_with_the_identity_of_the_server(object_store: ObjectStore) -> None:
    variables = {
        "AWS_ACCESS_KEY_ID": object_store.catalog.access,
        "AWS_SECRET_ACCESS_KEY": object_store.catalog.secret,
    }
    body = warehouse_body(object_store)
    body["storage-credential"] = {"type": "s3", "credential-type": "aws-system-identity"}
    with FrazilServer(arguments=["--aws-system-identities"], environment=variables) as server:
        catalog = create_warehouse(server.port, body)
        config = keys_of(catalog.create_table(("ns",), "t").ok())
        assert config["s3.access-key-id"] != object_store.catalog.access
        assert config["s3.session-token"]
