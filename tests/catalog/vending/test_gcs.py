"""Narrowed tokens for Google.

Only Google can show that a narrowed token is refused outside: emulators check no token. So this looks at what
the token exchange is sent, on a server that records it, and at the boundary itself.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import unquote

import pytest
from tests.catalog.clouds.recording import Asked, Recorder
from tests.catalog.storage.conftest import service_account

from frazil.catalog.clouds.google import EXCHANGE_SCOPE, ServiceAccountTokens
from frazil.catalog.storage import GcsProfile, GcsSystemIdentity
from frazil.catalog.vending import Access, Vended, open_vendor
from frazil.catalog.vending.gcs import GcsVendor, access_boundary
from frazil.core.errors import InvalidInput, NotAllowed, StorageError

ACCOUNT = service_account()
PROFILE = GcsProfile(bucket="lake", key_prefix="wh")


class Exchange:
    """Both token services of Google: `/token` gives a token, `/exchange` takes it for another."""

    def __init__(self, expires_in: int | None = 1800, status: int = 200) -> None:
        self._expires_in = expires_in
        self._status = status

    def __call__(self, asked: Asked) -> tuple[int, bytes]:
        if asked.path == "/token":
            return 200, b'{"access_token": "broad-token", "expires_in": 3599}'
        if self._status != 200:
            return self._status, b'{"error": "invalid_grant", "error_description": "broad-token is no good"}'
        narrow: dict[str, Any] = {"access_token": "narrow-token", "token_type": "Bearer"}
        if self._expires_in is not None:
            narrow["expires_in"] = self._expires_in
        return 200, json.dumps(narrow).encode()


def vendor(server: Recorder) -> GcsVendor:
    tokens = ServiceAccountTokens(ACCOUNT.key, EXCHANGE_SCOPE, url=f"{server.url}/token")
    return GcsVendor(PROFILE, ACCOUNT, tokens=tokens, exchange_url=f"{server.url}/exchange")


async def vend(
    server: Recorder, location: str = "gs://lake/wh/ns/t1", access: Access = Access.READ
) -> Vended:
    opened = vendor(server)
    try:
        return await opened.vend(location, access)
    finally:
        await opened.close()


def rule(boundary: dict[str, Any]) -> dict[str, Any]:
    assert boundary.keys() == {"accessBoundary"}
    (only,) = boundary["accessBoundary"]["accessBoundaryRules"]
    assert isinstance(only, dict)
    return only


async def test_the_exchange_is_sent_the_broad_token_and_the_boundary() -> None:
    with Recorder(Exchange()) as server:
        before = time.time()
        vended = await vend(server, access=Access.READ_WRITE)
    assert [asked.path for asked in server.asked] == ["/token", "/exchange"]
    form = server.asked[1].form
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:token-exchange"
    assert form["requested_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert form["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    assert form["subject_token"] == "broad-token"
    boundary = json.loads(unquote(form["options"]))
    assert boundary == access_boundary("lake", "wh/ns/t1", Access.READ_WRITE)
    assert vended.prefix == "gs://lake/wh/ns/t1"
    assert before + 1799 <= vended.expires_at_ms / 1000 <= time.time() + 1800
    assert vended.config == {
        "gcs.oauth2.token": "narrow-token",
        "gcs.oauth2.token-expires-at": str(vended.expires_at_ms),
        "expiration-time": str(vended.expires_at_ms),
        "gcs.project-id": "frazil-tests",
    }
    assert "broad-token" not in str(vended.config)
    assert "narrow-token" not in repr(vended)


@pytest.mark.parametrize("expires_in", [None, 7200])
async def test_it_lives_no_longer_than_the_broad_token(expires_in: int | None) -> None:
    with Recorder(Exchange(expires_in)) as server:
        vended = await vend(server)
    assert time.time() + 3590 < vended.expires_at_ms / 1000 <= time.time() + 3600


async def test_the_broad_token_is_used_for_many_tables() -> None:
    with Recorder(Exchange()) as server:
        opened = vendor(server)
        for name in ("t1", "t2", "t3"):
            await opened.vend(f"gs://lake/wh/{name}", Access.READ)
        await opened.close()
    assert [asked.path for asked in server.asked] == ["/token", "/exchange", "/exchange", "/exchange"]


def test_the_boundary_is_one_prefix_of_one_bucket() -> None:
    only = rule(access_boundary("lake", "wh/t1", Access.READ))
    assert only["availableResource"] == "//storage.googleapis.com/projects/_/buckets/lake"
    assert only["availablePermissions"] == ["inRole:roles/storage.objectViewer"]
    assert only["availabilityCondition"]["expression"] == (
        "resource.name.startsWith('projects/_/buckets/lake/objects/wh/t1/')"
        " || resource.name.startsWith('projects/_/buckets/lake/folders/wh/t1/')"
        " || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('wh/t1/')"
    )


def test_only_write_access_writes() -> None:
    writer = rule(access_boundary("lake", "wh/t1", Access.READ_WRITE))
    assert writer["availablePermissions"] == ["inRole:roles/storage.objectUser"]


@pytest.mark.parametrize(
    ("prefix", "literal"),
    [
        ("it's", r"'it\'s/'"),
        ("a\\b", r"'a\\b/'"),
        ("x') || true || ('", r"'x\') || true || (\'/'"),
        ("x\\') || true || ('", r"'x\\\') || true || (\'/'"),
        ('a"b', "'a\"b/'"),
    ],
)
def test_no_location_rewrites_the_rule(prefix: str, literal: str) -> None:
    expression = rule(access_boundary("lake", prefix, Access.READ))["availabilityCondition"]["expression"]
    assert expression.endswith(f".startsWith({literal})")
    assert expression.count(" || resource.name") == 1


@pytest.mark.parametrize("prefix", ["a\nb", "a\u2028b", "a\x00b"])
def test_what_no_rule_can_express_is_refused(prefix: str) -> None:
    with pytest.raises(InvalidInput, match="location"):
        access_boundary("lake", prefix, Access.READ)


async def test_another_bucket_is_refused_before_anybody_is_asked() -> None:
    with Recorder(Exchange()) as server:
        for location in ("gs://lakeside/wh/t", "s3://lake/wh/t"):
            with pytest.raises(InvalidInput, match="is not below"):
                await vend(server, location)
    assert server.asked == []


async def test_a_refusal_is_told_without_the_token() -> None:
    said = r"downscoped token: HTTP 400 invalid_grant: \*\*\* is no good"
    with Recorder(Exchange(status=400)) as server, pytest.raises(StorageError, match=said) as caught:
        await vend(server)
    assert caught.value.kind == "CredentialsNotVended"


async def test_a_trial_uses_the_narrowed_token() -> None:
    with Recorder(lambda _: (403, b"<Error><Code>AccessDenied</Code></Error>")) as server:
        emulated = GcsProfile(bucket="lake", key_prefix="wh", endpoint=server.url)
        opened = GcsVendor(emulated, ACCOUNT)
        trial = opened.trial(Vended("gs://lake/wh/t1", {"gcs.oauth2.token": "narrow-token"}, 0))
        attempts = [
            trial.read("gs://lake/wh/t10/x"),
            trial.write("gs://lake/wh/t10/x", b""),
            trial.delete("gs://lake/wh/t10/x"),
            trial.list("gs://lake/wh"),
        ]
        for attempt in attempts:
            with pytest.raises(NotAllowed, match="AccessDenied"):
                await attempt
        await opened.close()
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer narrow-token"}
    assert [asked.path for asked in server.asked][-1].startswith("/lake?")


def test_who_vends() -> None:
    assert isinstance(open_vendor(PROFILE, ACCOUNT), GcsVendor)
    assert isinstance(open_vendor(PROFILE, GcsSystemIdentity()), GcsVendor)
    assert open_vendor(GcsProfile(bucket="lake", sts_enabled=False), ACCOUNT) is None
    # An emulator is sent no token, so there is none to narrow.
    assert open_vendor(GcsProfile(bucket="lake", endpoint="http://127.0.0.1:1"), ACCOUNT) is None
