"""Keys of identity providers: fetched when needed, never more often, followed when they change."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from tests.catalog.identity.issuer import Issuer, Key, encoded, rsa_key

from frazil.catalog.db import connect, migrate
from frazil.catalog.identity import Clients, Guard, Principal, Rejected, oidc
from frazil.catalog.identity.access_tokens import AccessTokens
from frazil.catalog.identity.bearer import unverified
from frazil.catalog.identity.jwks import KeySet
from frazil.catalog.identity.oidc import Provider, ProviderSettings
from frazil.core.errors import Unauthenticated, Unavailable

KEY = rsa_key()
KEYS_AT = "/issuer/keys"


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer(KEY) as found:
        yield found


@asynccontextmanager
async def provider(uri: str, **settings: Any) -> AsyncIterator[Provider]:
    found = Provider(ProviderSettings("oidc", uri, audiences=("frazil",), **settings))
    try:
        yield found
    finally:
        await found.close()


async def check(found: Provider, token: str) -> Principal:
    principal, _ = await found.verify(token, unverified(token))
    return principal


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, float], None]:
    """Change one of the times; the clock itself is left alone."""
    return lambda name, seconds: monkeypatch.setattr(oidc, name, seconds)


async def test_keys_are_fetched_once_however_many_ask_at_once(issuer: Issuer) -> None:
    issuer.seconds = 0.1
    async with provider(issuer.uri) as found:
        tokens = [issuer.token(KEY, sub=f"user{number}") for number in range(50)]
        who = await asyncio.gather(*(check(found, token) for token in tokens))
    assert [principal.subject for principal in who] == [f"user{number}" for number in range(50)]
    assert issuer.asked[KEYS_AT] == 1


async def test_a_flood_of_unknown_keys_does_not_reach_the_provider(
    issuer: Issuer, soon: Callable[[str, float], None]
) -> None:
    # However long the flood takes here: within this time the provider is not asked again.
    soon("_BETWEEN_FETCHES", 3600.0)
    async with provider(issuer.uri) as found:
        await check(found, issuer.token(KEY))
        for number in range(50):
            with pytest.raises(Rejected, match="key"):
                await check(found, issuer.token(Key(KEY.private, "RS256", f"made-up-{number}")))
        await check(found, issuer.token(KEY))
    assert issuer.asked[KEYS_AT] == 1


async def test_an_algorithm_that_is_not_allowed_does_not_reach_the_provider(issuer: Issuer) -> None:
    token = jwt.encode(issuer.claims(), "s" * 32, algorithm="HS256", headers={"kid": KEY.key_id})
    async with provider(issuer.uri) as found:
        with pytest.raises(Rejected, match="algorithm"):
            await check(found, token)
    assert not issuer.asked


@pytest.mark.parametrize("extension", [["b64"], ["exp"], [], None])
def test_extensions_are_refused_whatever_the_library_makes_of_them(issuer: Issuer, extension: Any) -> None:
    token = f"{encoded({'alg': 'RS256', 'crit': extension})}.{encoded(issuer.claims())}.x"
    with pytest.raises(Rejected, match="extensions"):
        unverified(token)


async def test_a_new_key_is_found_and_an_old_one_is_dropped(
    issuer: Issuer, soon: Callable[[str, float], None]
) -> None:
    soon("_BETWEEN_FETCHES", 0.0)
    fresh = rsa_key()
    async with provider(issuer.uri) as found:
        old = issuer.token(KEY)
        await check(found, old)
        issuer.keys = [fresh.published()]
        await check(found, issuer.token(fresh))
        with pytest.raises(Rejected):
            await check(found, old)


async def test_a_withdrawn_key_is_noticed_without_a_new_one(
    issuer: Issuer, soon: Callable[[str, float], None]
) -> None:
    soon("_BETWEEN_FETCHES", 0.0)
    async with provider(issuer.uri) as found:
        await check(found, issuer.token(KEY))
        issuer.keys = []
        await check(found, issuer.token(KEY))
        soon("_FRESH", 0.0)
        with pytest.raises(Rejected):
            await check(found, issuer.token(KEY))


async def test_a_provider_that_is_down_is_taken_at_its_last_word(
    issuer: Issuer, soon: Callable[[str, float], None], caplog: pytest.LogCaptureFixture
) -> None:
    soon("_BETWEEN_FETCHES", 0.0)
    async with provider(issuer.uri) as found:
        await check(found, issuer.token(KEY))
        issuer.status = 500
        soon("_FRESH", 0.0)
        await check(found, issuer.token(KEY))
        assert "answered with status 500" in caplog.text
        # A key that is not known may be a new one: nobody can say now.
        with pytest.raises(Unavailable):
            await check(found, issuer.token(rsa_key()))
        soon("_TRUSTED", 0.0)
        with pytest.raises(Unavailable):
            await check(found, issuer.token(KEY))
        issuer.status = 200
        soon("_TRUSTED", 60.0)
        await check(found, issuer.token(KEY))


async def test_a_provider_that_was_never_reached_is_not_the_caller_s_fault() -> None:
    with Issuer(KEY) as gone:
        token, uri = gone.token(KEY), gone.uri
    async with provider(uri) as found:
        with pytest.raises(Unavailable, match="oidc"):
            await check(found, token)
        await found.warm_up()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda issuer: issuer.about.update(issuer="https://evil.example"), "describes another issuer"),
        (lambda issuer: issuer.about.update(jwks_uri="http://keys.example/"), "not an https address"),
        (lambda issuer: issuer.about.update(jwks_uri="file:///etc/passwd"), "not an https address"),
        (lambda issuer: issuer.about.update(jwks_uri=None), "not an https address"),
        (lambda issuer: setattr(issuer, "padding", 2 * 1024 * 1024), "more than 1048576 bytes"),
        (lambda issuer: issuer.about.update(jwks_uri=f"{issuer.uri}/none"), "status 404"),
        (lambda issuer: issuer.about.update(jwks_uri=issuer.uri.replace("/issuer", "")), "status 404"),
    ],
)
async def test_documents_that_are_not_trusted(
    issuer: Issuer, spoil: Callable[[Issuer], None], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(issuer)
    async with provider(issuer.uri) as found:
        with pytest.raises(Unavailable):
            await check(found, issuer.token(KEY))
    assert why in caplog.text


async def test_redirects_are_not_followed(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    with Issuer(KEY) as elsewhere:
        issuer.status, issuer.location = 302, f"{elsewhere.uri}/.well-known/openid-configuration"
        async with provider(issuer.uri) as found:
            with pytest.raises(Unavailable):
                await check(found, issuer.token(KEY))
        assert not elsewhere.asked
    assert "status 302" in caplog.text


async def test_other_issuers_and_claims_that_are_configured(issuer: Issuer) -> None:
    other = "https://sts.example/tenant/"
    more = {"additional_issuers": frozenset({other}), "subject_claims": ("email",)}
    async with provider(issuer.uri, **more) as found:
        token = issuer.token(KEY, iss=other, email="a@example.org")
        assert (await check(found, token)).id == "oidc~a@example.org"
        assert found.may_issue(other)
        assert not found.may_issue(other.rstrip("/"))
        with pytest.raises(Rejected, match="email"):
            await check(found, issuer.token(KEY))


async def test_a_uri_with_a_slash_more_is_the_same_provider(issuer: Issuer) -> None:
    async with provider(issuer.uri + "/") as found:
        await check(found, issuer.token(KEY))
        with pytest.raises(Rejected, match="issuer"):
            await check(found, issuer.token(KEY, iss=issuer.uri + "/"))


async def test_without_a_configured_audience_any_will_do(issuer: Issuer) -> None:
    found = Provider(ProviderSettings("oidc", issuer.uri))
    try:
        await check(found, issuer.token(KEY, aud="account"))
        await check(found, issuer.token(KEY, aud=None))
    finally:
        await found.close()


@asynccontextmanager
async def guard(tmp_path: Path, found: Provider) -> AsyncIterator[Guard]:
    database = await connect(f"sqlite://{tmp_path}/catalog.db")
    await migrate(database)
    clients = Clients(database, AccessTokens(b"k" * 32, "id", 0))
    try:
        yield Guard(clients, providers=[found])
    finally:
        clients.close()
        await database.close()


def header(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


async def test_a_token_that_was_checked_before_is_not_checked_again_until_it_ends(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with provider(issuer.uri, leeway=0) as found, guard(tmp_path, found) as asked:
        # The keys are fetched for another token: the seconds of this one are not spent on that.
        await asked.principal(header(issuer.token(KEY)), "before")
        ends = int(time.time()) + 5
        token = issuer.token(KEY, exp=ends)
        first = await asked.principal(header(token), "one")
        # The same object: it came from memory.
        assert await asked.principal(header(token), "two") is first
        await asyncio.sleep(ends - time.time() + 0.1)
        with pytest.raises(Unauthenticated):
            await asked.principal(header(token), "three")
    assert "request three: its token was refused: it is not valid (ExpiredSignatureError)" in caplog.text


async def test_tokens_of_a_withdrawn_key_are_forgotten_at_once(
    issuer: Issuer, tmp_path: Path, soon: Callable[[str, float], None]
) -> None:
    soon("_BETWEEN_FETCHES", 0.0)
    fresh = rsa_key()
    async with provider(issuer.uri) as found, guard(tmp_path, found) as asked:
        old = issuer.token(KEY)
        await asked.principal(header(old), "one")
        issuer.keys = [fresh.published()]
        await asked.principal(header(issuer.token(fresh)), "two")
        with pytest.raises(Unauthenticated):
            await asked.principal(header(old), "three")


def test_a_published_key_must_be_for_signatures_and_strong() -> None:
    weak, hidden, other_use, good = rsa_key(1024), rsa_key(), rsa_key(), rsa_key()
    keys = KeySet(
        {
            "keys": [
                weak.published(),
                hidden.published(use="enc"),
                {**other_use.published(use=None), "key_ops": ["encrypt"]},
                {"kty": "oct", "kid": "shared", "k": encoded(b"s" * 32), "alg": "HS256"},
                "not a key",
                {"kty": "RSA", "kid": "broken"},
                good.published(alg=None),
            ]
        }
    )
    assert len(keys) == 1
    assert keys.find(good.key_id, "RS256") is not None
    assert keys.find(good.key_id, "ES256") is None
    assert keys.find(good.key_id, "HS256") is None
    assert keys.find("shared", "HS256") is None


def test_two_keys_of_one_id_are_none() -> None:
    one, two = rsa_key(), rsa_key()
    keys = KeySet({"keys": [one.published(kid="same"), two.published(kid="same")]})
    assert keys.find("same", "RS256") is None
