"""Signatures for Azure.

What only Azure can show, that it refuses a directory's signature outside the directory, is shown here on the
signature itself: on what is signed, against what Azure's own library makes of the same grant. The emulator
proves the signing: it accepts the same string for blobs and containers, and the delegation keys.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from urllib.parse import parse_qsl
from uuid import uuid4

import httpx
import jwt
import pytest
from tests.catalog.clouds.recording import Asked, Recorder
from tests.catalog.storage.conftest import adls_profile

from frazil.catalog.clouds.http import CloudClient
from frazil.catalog.clouds.tokens import Token, Tokens
from frazil.catalog.storage import AdlsProfile, AzClientCredentials, AzSharedAccessKey, open_storage
from frazil.catalog.vending import Access, open_vendor
from frazil.catalog.vending.adls import AdlsVendor, DelegationKeys
from frazil.catalog.vending.adls_trial import AdlsTrial
from frazil.catalog.vending.probing import require_vending
from frazil.catalog.vending.sas import DelegationKey, Resource, sas_token
from frazil.core.errors import InvalidInput, NotAllowed, StorageError
from frazil.devstack.azurite import Azurite

# Made once with azure-storage-file-datalake 12.18.0, its version set to the one that is used here.
KEY = "ZnJhemlsIHRlc3QgdmVjdG9yLCBub3QgYSBrZXkhISE="
EXPIRY = dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
DIRECTORY = Resource("lakeaccount", "warehouse", "wh/a b/t=1%2F")
DELEGATED = DelegationKey(
    oid="11111111-2222-3333-4444-555555555555",
    tid="66666666-7777-8888-9999-000000000000",
    start="2030-01-02T02:49:05Z",
    expiry="2030-01-02T05:04:05Z",
    service="b",
    version="2023-11-03",
    value=KEY,
)
SERVICE_VECTOR = (
    "se=2030-01-02T03%3A04%3A05Z&sp=racwdlm&spr=https&sv=2023-11-03&sr=d&sdd=3"
    "&sig=1V/yg6A5U8kcvkeAkL5ewWXuQtag%2Bw0TWQBUXCSiHFw%3D"
)
DELEGATION_VECTOR = (
    "se=2030-01-02T03%3A04%3A05Z&sp=rl&spr=https&sv=2023-11-03&sr=d&sdd=3"
    "&skoid=11111111-2222-3333-4444-555555555555&sktid=66666666-7777-8888-9999-000000000000"
    "&skt=2030-01-02T02%3A49%3A05Z&ske=2030-01-02T05%3A04%3A05Z&sks=b&skv=2023-11-03"
    "&sig=LgBIqh9yLsoYCmgAXrZYxgH2kNW1xIPzMzze6qh5q0E%3D"
)
CLIENT = AzClientCredentials(client_id="client", tenant_id="tenant", client_secret="client~secret")
PROFILE = AdlsProfile(account_name="lakeaccount", filesystem="warehouse", key_prefix="wh")
HOST = "lakeaccount.dfs.core.windows.net"


def fields(token: str) -> dict[str, str]:
    return dict(parse_qsl(token, strict_parsing=True))


@pytest.mark.parametrize(
    ("permissions", "key", "vector"), [("racwdlm", KEY, SERVICE_VECTOR), ("rl", DELEGATED, DELEGATION_VECTOR)]
)
def test_azures_own_library_signs_the_same(permissions: str, key: str | DelegationKey, vector: str) -> None:
    assert fields(sas_token(DIRECTORY, permissions, EXPIRY, key)) == fields(vector)


async def test_an_account_key_signs_for_one_directory() -> None:
    vendor = open_vendor(PROFILE, AzSharedAccessKey(key=KEY))
    assert vendor is not None
    before = int(time.time())
    vended = await vendor.vend(f"{PROFILE.base}/ns/t1", Access.READ_WRITE)
    assert vended.prefix == f"{PROFILE.base}/ns/t1"
    assert before + 3600 <= vended.expires_at_ms / 1000 <= time.time() + 3600
    assert vended.config["adls.account-name"] == "lakeaccount"
    assert vended.config.keys() == {
        "adls.account-name",
        "adls.sas-token",
        f"adls.sas-token.{HOST}",
        f"adls.sas-token-expires-at-ms.{HOST}",
        "expiration-time",
    }
    assert vended.config["expiration-time"] == str(vended.expires_at_ms)
    token = vended.config[f"adls.sas-token.{HOST}"]
    assert vended.config["adls.sas-token"] == token
    signed = fields(token)
    expiry = dt.datetime.fromtimestamp(vended.expires_at_ms / 1000, dt.UTC)
    assert signed["se"] == expiry.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (signed["sr"], signed["sdd"], signed["sp"], signed["spr"]) == ("d", "3", "racwdlm", "https")
    # The place is no parameter: it is in what is signed, which is known to be right from the vectors.
    same = sas_token(Resource("lakeaccount", "warehouse", "wh/ns/t1"), "racwdlm", expiry, KEY)
    assert token == same
    for other in ("wh/ns/t10", "wh/ns", "wh/ns/t1/", "wh/ns/t"):
        assert sas_token(Resource("lakeaccount", "warehouse", other), "racwdlm", expiry, KEY) != same
    assert KEY not in str(vended.config)


async def test_read_access_cannot_write() -> None:
    vendor = AdlsVendor(PROFILE, AzSharedAccessKey(key=KEY))
    vended = await vendor.vend(f"{PROFILE.base}/t1", Access.READ)
    assert fields(vended.config[f"adls.sas-token.{HOST}"])["sp"] == "rl"


async def test_nothing_outside_the_file_system_is_signed() -> None:
    vendor = AdlsVendor(PROFILE, AzSharedAccessKey(key=KEY))
    for location in ("abfss://other@lakeaccount.dfs.core.windows.net/wh/t", "gs://warehouse/t"):
        with pytest.raises(InvalidInput, match="is not below"):
            await vendor.vend(location, Access.READ)


def test_a_warehouse_that_does_not_want_it_vends_nothing() -> None:
    profile = AdlsProfile(account_name="lakeaccount", filesystem="warehouse", sas_enabled=False)
    assert open_vendor(profile, AzSharedAccessKey(key=KEY)) is None


class StaticTokens(Tokens):
    """A token that was given."""

    def __init__(self, value: str) -> None:
        super().__init__(CloudClient())
        self._value = value

    async def _ask(self) -> Token:
        return Token(self._value, time.time() + 3600)


def delegation_answer(asked: Asked) -> tuple[int, bytes]:
    """Azure's form of the answer, with the times that were asked for."""
    inner = asked.body.decode().removeprefix("<KeyInfo>").removesuffix("</KeyInfo>")
    times = inner.replace("Start>", "SignedStart>").replace("Expiry>", "SignedExpiry>")
    text = (
        f'\ufeff<?xml version="1.0" encoding="utf-8"?><UserDelegationKey><SignedOid>o</SignedOid>'
        f"<SignedTid>t</SignedTid>{times}<SignedService>b</SignedService>"
        f"<SignedVersion>2023-11-03</SignedVersion><Value>{KEY}</Value></UserDelegationKey>"
    )
    return 200, text.encode()


async def test_one_delegation_key_signs_for_many_tables() -> None:
    with Recorder(delegation_answer) as server:
        keys = DelegationKeys(server.url, StaticTokens("the-token"))
        vendor = AdlsVendor(PROFILE, CLIENT, keys)
        tokens = [
            (await vendor.vend(f"{PROFILE.base}/{name}", Access.READ)).config[f"adls.sas-token.{HOST}"]
            for name in ("t1", "t2")
        ]
        assert len(server.asked) == 1
        # One that would end before the signature does is not used.
        await keys.key(dt.datetime.now(dt.UTC) + dt.timedelta(hours=3))
        assert len(server.asked) == 2
        await vendor.close()
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/?restype=service&comp=userdelegationkey")
    assert asked.headers["authorization"] == "Bearer the-token"
    assert asked.headers["x-ms-version"] == "2023-11-03"
    first, second = (fields(token) for token in tokens)
    assert first["sig"] != second["sig"]
    assert first["se"] <= first["ske"]
    assert first["skoid"] == "o"
    assert "the-token" not in str(tokens)


@pytest.mark.parametrize(
    "answer",
    [
        (403, b"<Error><Code>AuthorizationPermissionMismatch</Code></Error>"),
        (200, b""),
        (200, b"<UserDelegationKey/>"),
        (200, b'<!DOCTYPE x [<!ENTITY a "b">]><UserDelegationKey>&a;</UserDelegationKey>'),
    ],
)
async def test_no_delegation_key_is_a_storage_error(answer: tuple[int, bytes]) -> None:
    with Recorder(lambda _: answer) as server:
        vendor = AdlsVendor(PROFILE, CLIENT, DelegationKeys(server.url, StaticTokens("the-token")))
        with pytest.raises(StorageError, match="user delegation key") as caught:
            await vendor.vend(f"{PROFILE.base}/t1", Access.READ)
        await vendor.close()
    assert "the-token" not in caught.value.message


def trial(azurite: Azurite, container: str, token: str) -> AdlsTrial:
    """The emulator as the holder of a signature sees it."""
    return AdlsTrial(adls_profile(azurite, container, "wh"), token)


def soon() -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(minutes=10)


async def test_the_emulator_accepts_what_is_signed_for_a_container_and_a_blob(azurite: Azurite) -> None:
    mine, other = azurite.create_container(f"c{uuid4().hex}"), azurite.create_container(f"c{uuid4().hex}")
    root = adls_profile(azurite, mine, "wh").base
    whole = Resource(azurite.account, mine, kind="c")
    writer = trial(azurite, mine, sas_token(whole, "racwdl", soon(), azurite.key, "https,http"))
    await writer.write(f"{root}/a b/p=1%2F/f", b"ice")
    assert await writer.read(f"{root}/a b/p=1%2F/f") == b"ice"
    await writer.list(root)
    reader = trial(azurite, mine, sas_token(whole, "rl", soon(), azurite.key, "https,http"))
    assert await reader.read(f"{root}/a b/p=1%2F/f") == b"ice"
    stranger = trial(azurite, other, sas_token(whole, "racwdl", soon(), azurite.key, "https,http"))
    blob = Resource(azurite.account, mine, "wh/a b/p=1%2F/f", "b")
    one = trial(azurite, mine, sas_token(blob, "r", soon(), azurite.key, "https,http"))
    assert await one.read(f"{root}/a b/p=1%2F/f") == b"ice"
    expired = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=5)
    late = trial(azurite, mine, sas_token(whole, "rl", expired, azurite.key, "https,http"))
    secure = trial(azurite, mine, sas_token(whole, "rl", soon(), azurite.key, "https"))
    refused = [
        reader.write(f"{root}/x", b""),
        reader.delete(f"{root}/a b/p=1%2F/f"),
        stranger.read(adls_profile(azurite, other, "wh").base + "/a b/p=1%2F/f"),
        one.read(f"{root}/other"),
        one.list(root),
        late.read(f"{root}/a b/p=1%2F/f"),
        secure.read(f"{root}/a b/p=1%2F/f"),
    ]
    for attempt in refused:
        with pytest.raises(NotAllowed) as caught:
            await attempt
        assert "sig=" not in caught.value.message
    await writer.delete(f"{root}/a b/p=1%2F/f")
    with pytest.raises(StorageError, match="HTTP 404 BlobNotFound"):
        await reader.read(f"{root}/a b/p=1%2F/f")


async def test_where_a_directorys_signature_is_not_understood_none_is_vended(azurite: Azurite) -> None:
    """As with an account without a hierarchical namespace: found out before a warehouse may use it."""
    credential = AzSharedAccessKey(key=azurite.key)
    profile = adls_profile(azurite, azurite.create_container("storage-tests"), f"vending/{uuid4()}")
    vendor = AdlsVendor(profile, credential)
    with pytest.raises(InvalidInput, match="the store refuses to write with a vended credential"):
        await require_vending(open_storage(profile, credential), vendor)


@pytest.fixture(scope="module")
def secured() -> Iterator[Azurite]:
    with Azurite(oauth=True) as store:
        yield store


async def test_a_delegation_key_of_the_emulator_signs(azurite: Azurite, secured: Azurite) -> None:
    """`azurite` is asked for only so that a machine without Node.js skips this."""
    now = int(time.time())
    claims = {"aud": "https://storage.azure.com", "iss": "https://sts.windows-ppe.net/t/", "nbf": now - 60}
    claims |= {"iat": now - 60, "exp": now + 600, "oid": str(uuid4()), "tid": str(uuid4())}
    token = jwt.encode(claims, "the emulator checks no signature of tokens", algorithm="HS256")
    container = secured.create_container("delegated")
    keys = DelegationKeys(secured.endpoint, StaticTokens(token), CloudClient(context=secured.tls))
    key = await keys.key(soon())
    blob = f"{secured.endpoint}/{container}/wh/t1/f"
    sas = sas_token(Resource(secured.account, container, "wh/t1/f", "b"), "rcw", soon(), key)
    async with httpx.AsyncClient(verify=secured.tls) as client:
        put = await client.put(f"{blob}?{sas}", headers={"x-ms-blob-type": "BlockBlob"}, content=b"ice")
        assert put.status_code == 201
        assert (await client.get(f"{blob}?{sas}")).content == b"ice"
        forged = sas.replace("sp=rcw", "sp=racw")
        for wrong in (f"{blob}2?{sas}", f"{blob}?{sas[:-8]}AAAA%3D", f"{blob}?{forged}"):
            assert (await client.get(wrong)).status_code == 403
    await keys.close()
