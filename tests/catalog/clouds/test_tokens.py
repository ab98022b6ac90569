"""Tokens: what is asked of Google and Azure, on a server that records it; neither is reached here."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from tests.catalog.clouds.recording import Asked, Recorder
from tests.catalog.storage.conftest import service_account

from frazil.catalog.clouds.azure import ClientSecretTokens, WorkloadTokens, azure_tokens
from frazil.catalog.clouds.google import (
    OBJECTS_SCOPE,
    TOKEN_URL,
    MetadataTokens,
    ServiceAccountTokens,
    google_tokens,
)
from frazil.catalog.storage import AzClientCredentials, AzSystemIdentity, GcsSystemIdentity
from frazil.core.errors import InvalidConfig, InvalidInput, StorageError

KEY = service_account().key
CLIENT = AzClientCredentials(client_id="client", tenant_id="tenant", client_secret="client~secret")


def granted(_: Asked) -> tuple[int, bytes]:
    return 200, json.dumps({"access_token": "the-token", "expires_in": 3599, "token_type": "Bearer"}).encode()


async def test_a_service_account_proves_who_it_is_with_its_own_key() -> None:
    with Recorder(granted) as server:
        tokens = ServiceAccountTokens(KEY, OBJECTS_SCOPE, url=server.url)
        before = time.time()
        token = await tokens.token()
        await tokens.close()
    assert token.value == "the-token"
    assert before + 3590 < token.expires_at < time.time() + 3600
    assert "the-token" not in repr(token)
    (asked,) = server.asked
    form = asked.form
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    public = load_pem_private_key(KEY.private_key.encode(), None).public_key()
    claims = jwt.decode(form["assertion"], public, algorithms=["RS256"], audience=TOKEN_URL)  # type: ignore[arg-type]
    assert claims["iss"] == KEY.client_email
    assert claims["scope"] == OBJECTS_SCOPE
    assert claims["exp"] - claims["iat"] == 3600
    assert jwt.get_unverified_header(form["assertion"])["kid"] == KEY.private_key_id


async def test_many_callers_ask_once_and_a_short_life_is_renewed() -> None:
    with Recorder(granted) as server:
        tokens = ServiceAccountTokens(KEY, OBJECTS_SCOPE, url=server.url)
        assert len({(await t).value for t in [asyncio.ensure_future(tokens.token()) for _ in range(20)]}) == 1
        assert len(server.asked) == 1
        await tokens.token(3590)
        assert len(server.asked) == 1
        await tokens.token(3601)
        assert len(server.asked) == 2
        await tokens.close()


async def test_a_client_proves_who_it_is_with_its_secret() -> None:
    with Recorder(granted) as server:
        tokens = ClientSecretTokens(CLIENT, server.url)
        assert (await tokens.token()).value == "the-token"
        await tokens.close()
    (asked,) = server.asked
    assert asked.path == "/tenant/oauth2/v2.0/token"
    assert asked.form == {
        "grant_type": "client_credentials",
        "client_id": "client",
        "client_secret": "client~secret",
        "scope": "https://storage.azure.com/.default",
    }


async def test_a_refusal_is_told_without_the_secret() -> None:
    said = {"error": "invalid_client", "error_description": "client~secret is wrong\r\nTrace"}
    with Recorder(lambda _: (401, json.dumps(said).encode())) as server:
        tokens = ClientSecretTokens(CLIENT, server.url)
        with pytest.raises(StorageError, match=r"HTTP 401 invalid_client: .* is wrong") as caught:
            await tokens.token()
        await tokens.close()
    assert len(server.asked) == 1
    assert "client~secret" not in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "answer",
    [
        (200, b"not json"),
        (200, b"[]"),
        (200, b'{"access_token": "x"}'),
        (200, b'{"access_token": "x", "expires_in": -1}'),
        (200, b'{"access_token": "x\\r\\ny", "expires_in": 10}'),
        (200, b'{"access_token": 5, "expires_in": 10}'),
        (200, b"x" * 100_000),
        (302, b""),
        (403, b"<html>internal pages are not for everybody</html>"),
    ],
)
async def test_an_answer_that_is_no_token_is_a_storage_error(answer: tuple[int, bytes]) -> None:
    with Recorder(lambda _: answer) as server:
        tokens = ClientSecretTokens(CLIENT, server.url)
        with pytest.raises(StorageError, match="token for the client client") as caught:
            await tokens.token()
        await tokens.close()
    assert "internal pages" not in caught.value.message


async def test_an_overloaded_service_is_asked_again() -> None:
    with Recorder(granted) as server:
        server.answer = lambda asked: (503, b"") if len(server.asked) < 3 else granted(asked)
        tokens = ClientSecretTokens(CLIENT, server.url)
        assert (await tokens.token()).value == "the-token"
        await tokens.close()


async def test_the_identity_of_a_machine_of_google(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with Recorder(granted) as server:
        monkeypatch.setenv("GCE_METADATA_HOST", server.url.removeprefix("http://"))
        tokens = google_tokens(GcsSystemIdentity(), OBJECTS_SCOPE)
        assert isinstance(tokens, MetadataTokens)
        assert (await tokens.token()).value == "the-token"
        await tokens.close()
    (asked,) = server.asked
    assert asked.headers["metadata-flavor"] == "Google"
    assert asked.path.startswith("/computeMetadata/v1/instance/service-accounts/default/token?scopes=https")


def test_the_key_file_of_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(InvalidConfig, match="GOOGLE_APPLICATION_CREDENTIALS"):
        google_tokens(GcsSystemIdentity(), OBJECTS_SCOPE)
    file.write_text(json.dumps({"type": "authorized_user", "client_secret": "verysecret"}))
    with pytest.raises(InvalidConfig, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
        google_tokens(GcsSystemIdentity(), OBJECTS_SCOPE)
    assert "verysecret" not in caught.value.message
    file.write_text(json.dumps({name: getattr(KEY, name) for name in KEY.__struct_fields__}))
    assert isinstance(google_tokens(GcsSystemIdentity(), OBJECTS_SCOPE), ServiceAccountTokens)


async def test_a_workload_of_kubernetes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("kubernetes-token\n")
    with Recorder(granted) as server:
        monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("AZURE_CLIENT_ID", "workload")
        monkeypatch.setenv("AZURE_TENANT_ID", "tenant")
        tokens = azure_tokens(AzSystemIdentity(), "https://login.microsoftonline.com")
        assert isinstance(tokens, WorkloadTokens)
        assert (await tokens.token()).value == "the-token"
        await tokens.close()
    assert server.asked[0].form["client_assertion"] == "kubernetes-token"
    assert server.asked[0].form["client_id"] == "workload"
    monkeypatch.delenv("AZURE_TENANT_ID")
    with pytest.raises(InvalidConfig, match="AZURE_TENANT_ID"):
        azure_tokens(AzSystemIdentity(), "https://login.microsoftonline.com")


@pytest.mark.parametrize("pem", ["-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----", "-----BEGIN "])
def test_a_key_that_is_none_is_bad_input(pem: str) -> None:
    fields = {name: getattr(KEY, name) for name in KEY.__struct_fields__}
    with pytest.raises(InvalidInput, match=r"private_key: must be an RSA key"):
        ServiceAccountTokens(type(KEY)(**{**fields, "private_key": pem}), OBJECTS_SCOPE)
