"""Tokens that somebody made, changed or took from elsewhere, against a running server."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Mapping

import jwt
import pytest
from tests.catalog.api.client import Client
from tests.catalog.api.generic.support import wait_until
from tests.catalog.identity.issuer import Key, encoded, rsa_key
from tests.catalog.identity.world import WHOAMI, World, send

pytestmark = pytest.mark.services

Forge = Callable[[World], str]
FORGERIES: dict[str, Forge] = {}


def forgery(make: Forge) -> Forge:
    FORGERIES[make.__name__] = make
    return make


@forgery
def no_algorithm(world: World) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(world.first.claims())}."


@forgery
def no_algorithm_with_a_signature(world: World) -> str:
    _, claims, signature = world.good().split(".")
    return f"{encoded({'alg': 'none', 'kid': world.rsa.key_id})}.{claims}.{signature}"


@forgery
def no_algorithm_in_capitals(world: World) -> str:
    return (
        f"{encoded({'alg': 'NoNe', 'kid': world.rsa.key_id})}.{encoded(world.first.claims())}.{encoded(b'x')}"
    )


def signed_by_hand(header: Mapping[str, object], claims: object, key: bytes) -> str:
    """HS256 with any key; libraries refuse to use a public key as a secret, an attacker's does not."""
    text = f"{encoded(header)}.{encoded(claims)}"
    return f"{text}.{encoded(hmac.new(key, text.encode(), hashlib.sha256).digest())}"


@forgery
def public_key_as_secret(world: World) -> str:
    header = {"alg": "HS256", "kid": world.rsa.key_id}
    return signed_by_hand(header, world.first.claims(), world.rsa.public_pem())


@forgery
def published_key_as_secret(world: World) -> str:
    header = {"alg": "HS256", "kid": world.rsa.key_id}
    return signed_by_hand(header, world.first.claims(), json.dumps(world.first.keys[0]).encode())


@forgery
def empty_secret(world: World) -> str:
    return signed_by_hand({"alg": "HS256"}, world.first.claims(), b"")


@forgery
def our_own_issuer_with_a_guessed_secret(world: World) -> str:
    server_id = world.ask(world.static_token, "/management/v1/info").ok()["server-id"]
    ours = f"urn:frazil:{server_id}"
    now = int(time.time())
    claims = {"iss": ours, "aud": ours, "sub": "etl", "sid": "x", "iat": now, "exp": now + 300}
    return signed_by_hand({"alg": "HS256", "typ": "at+jwt"}, claims, b"secret")


@forgery
def wrong_key_with_the_right_id(world: World) -> str:
    return world.first.token(Key(rsa_key().private, "RS256", world.rsa.key_id))


@forgery
def unknown_key_id(world: World) -> str:
    return world.first.token(Key(world.rsa.private, "RS256", "no-such-key"))


@forgery
def key_of_another_issuer(world: World) -> str:
    return world.first.token(world.other)


@forgery
def issuer_of_another_key(world: World) -> str:
    return world.second.token(world.rsa)


@forgery
def algorithm_of_another_key(world: World) -> str:
    return world.first.token(Key(world.ec.private, "ES256", world.rsa.key_id))


@forgery
def algorithm_that_the_key_is_not_for(world: World) -> str:
    return world.first.token(Key(world.rsa.private, "RS512", world.rsa.key_id))


@forgery
def padding_that_the_key_is_not_for(world: World) -> str:
    return world.first.token(Key(world.rsa.private, "PS256", world.rsa.key_id))


@forgery
def without_key_id_by_a_stranger(world: World) -> str:
    stranger = rsa_key()
    return jwt.encode(world.first.claims(), stranger.private, algorithm="RS256")


@forgery
def wrong_audience(world: World) -> str:
    return world.first.token(world.rsa, aud="account")


@forgery
def no_audience(world: World) -> str:
    return world.first.token(world.rsa, aud=None)


@forgery
def audience_that_only_begins_right(world: World) -> str:
    return world.first.token(world.rsa, aud=["frazil2", "lakehouse"])


@forgery
def wrong_issuer(world: World) -> str:
    return world.first.token(world.rsa, iss="https://evil.example")


@forgery
def issuer_with_a_slash_more(world: World) -> str:
    return world.first.token(world.rsa, iss=f"{world.first.uri}/")


@forgery
def no_issuer(world: World) -> str:
    return world.first.token(world.rsa, iss=None)


@forgery
def issuer_that_is_no_text(world: World) -> str:
    claims = encoded({**world.first.claims(), "iss": [world.first.uri]})
    return f"{world.good().split('.')[0]}.{claims}.{encoded(b'x' * 256)}"


@forgery
def expired(world: World) -> str:
    return world.first.token(world.rsa, exp=int(time.time()) - 61)


@forgery
def no_expiry(world: World) -> str:
    return world.first.token(world.rsa, exp=None)


@forgery
def expiry_that_is_no_number(world: World) -> str:
    return world.first.token(world.rsa, exp="never")


@forgery
def not_yet_valid(world: World) -> str:
    return world.first.token(world.rsa, nbf=int(time.time()) + 120)


@forgery
def issued_in_the_future(world: World) -> str:
    return world.first.token(world.rsa, iat=int(time.time()) + 3600)


@forgery
def no_subject(world: World) -> str:
    return world.first.token(world.rsa, sub=None)


@forgery
def empty_subject(world: World) -> str:
    return world.first.token(world.rsa, sub="")


@forgery
def subject_with_a_line_break(world: World) -> str:
    return world.first.token(world.rsa, sub="alice\nbob")


@forgery
def changed_claims(world: World) -> str:
    header, _, signature = world.good().split(".")
    return f"{header}.{encoded(world.first.claims(sub='admin'))}.{signature}"


@forgery
def changed_signature(world: World) -> str:
    header, claims, signature = world.good().split(".")
    return f"{header}.{claims}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


@forgery
def no_signature(world: World) -> str:
    return world.good().rpartition(".")[0] + "."


@forgery
def extension_that_must_be_understood(world: World) -> str:
    return world.first.token(world.rsa, headers={"crit": ["exp"]})


@forgery
def extension_that_a_library_would_understand(world: World) -> str:
    return world.first.token(world.rsa, headers={"crit": ["b64"], "b64": True})


@forgery
def key_inside_the_token(world: World) -> str:
    mine = rsa_key()
    return world.first.token(mine, headers={"jwk": mine.published(), "kid": mine.key_id})


@forgery
def key_at_an_address_in_the_token(world: World) -> str:
    address = f"{world.second.uri}/keys"
    return world.first.token(world.other, headers={"jku": address, "x5u": address})


@forgery
def huge(world: World) -> str:
    return world.first.token(world.rsa, padding="x" * 16_384)


@forgery
def four_parts(world: World) -> str:
    return world.good() + ".x"


@forgery
def two_parts(world: World) -> str:
    return world.good().rpartition(".")[0]


@forgery
def static_token_with_its_end_cut_off(world: World) -> str:
    return world.static_token[:-1]


@forgery
def static_token_with_more(world: World) -> str:
    return world.static_token + "0"


@forgery
def deep_json(_world: World) -> str:
    header = b'{"alg":' + b"[" * 5000
    return f"{encoded(header)}.{encoded(b'{}')}.x"


@forgery
def list_for_a_header(world: World) -> str:
    return f"{encoded([])}.{encoded(world.first.claims())}.x"


@forgery
def garbage(_world: World) -> str:
    return "a.b.c"


@pytest.mark.parametrize("make", FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_is_refused_and_told_nothing(world: World, make: Forge) -> None:
    assert world.ask(world.good()).ok()["id"] == "oidc~alice"
    token = make(world)
    answer = world.ask(token)
    answer.refused(401, "NotAuthorizedException")
    # Every bad token gets the same answer: what is wrong with it is in the log.
    assert answer.body == world.ask("nonsense").body
    assert answer.headers["www-authenticate"] == 'Bearer realm="frazil", error="invalid_token"'
    for part in filter(None, token.split(".")):
        assert len(part) < 8 or part not in answer.body.decode()


@pytest.mark.parametrize(
    "headers",
    [
        b"Authorization: Bearer {good}\r\nAuthorization: Bearer {good}\r\n",
        b"Authorization: Bearer {good}\r\nauthorization: Basic eDp5\r\n",
        b"Authorization: Bearer {good} {good}\r\n",
        b"Authorization: Bearer {good}, Bearer {good}\r\n",
        b"Authorization: Bearer\r\n",
        b"Authorization: Bearer \xff\xfe\r\n",
        b"Authorization: Bearer t\xc3\xa9\r\n",
    ],
)
def test_headers_that_are_not_one_token(world: World, headers: bytes) -> None:
    client = Client(world.server.port)
    good = world.good().encode()
    assert client.raw_get(WHOAMI.encode(), headers=b"Authorization: Bearer " + good + b"\r\n").status == 200
    answer = client.raw_get(WHOAMI.encode(), headers=headers.replace(b"{good}", good))
    answer.refused(401, "NotAuthorizedException")


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Negotiate x"])
def test_who_brings_no_token_is_told_what_to_bring(world: World, header: str | None) -> None:
    client = Client(world.server.port)
    answer = client.send("GET", WHOAMI, headers={} if header is None else {"Authorization": header})
    client.close()
    assert "Authorization: Bearer" in answer.refused(401, "NotAuthorizedException")
    assert answer.headers["www-authenticate"] == 'Bearer realm="frazil"'


def test_the_scheme_is_a_word_in_any_case(world: World) -> None:
    client = Client(world.server.port)
    client.send("GET", WHOAMI, headers={"Authorization": f"bEARER {world.good()}"}).ok()
    client.close()


def test_a_token_near_its_ends_is_good_within_the_clock_skew(world: World) -> None:
    now = int(time.time())
    world.ask(world.first.token(world.rsa, exp=now - 20)).ok()
    world.ask(world.first.token(world.rsa, nbf=now + 40)).ok()


def test_each_provider_vouches_for_its_own(world: World) -> None:
    assert world.ask(world.first.token(world.ec)).ok()["id"] == "oidc~alice"
    assert world.ask(world.second.token(world.other)).ok()["id"] == "partner~alice"
    entra = world.first.token(world.rsa, oid="00-11", name="Alice", email="a@example.org")
    assert world.ask(entra).ok()["id"] == "oidc~00-11"
    who = world.ask(world.first.token(world.rsa, name="Alice", email="a@example.org")).ok()
    assert (who["name"], who["email"], who["user-type"]) == ("Alice", "a@example.org", "human")
    program = world.first.token(world.rsa, preferred_username="service-account-etl")
    assert world.ask(program).ok()["user-type"] == "application"


def test_one_of_several_audiences_is_enough(world: World) -> None:
    world.ask(world.first.token(world.rsa, aud=["account", "lake"])).ok()


def test_a_token_without_key_id_is_checked_with_the_only_key_there_is(world: World) -> None:
    world.ask(jwt.encode(world.second.claims(), world.other.private, algorithm="RS256")).ok()


def test_the_log_says_why_and_never_holds_a_token(world: World) -> None:
    forged = [make(world) for make in FORGERIES.values()]
    for token in [*forged, world.good(), world.static_token]:
        world.ask(token)
    # Lines are written in their order, and some time after the answers: with the last, all are there.
    last = uuid.uuid4().hex
    send(world.server, "GET", WHOAMI, {"x-request-id": last})
    wait_until(lambda: last in world.server.log.read_text(), "the log to be written")
    log = world.server.log.read_text()
    assert "its token was refused: it is not valid (ExpiredSignatureError)" in log
    assert '"principal":"oidc~alice"' in log
    assert '"principal":"static~bootstrap"' in log
    for token in [*forged, world.good(), world.static_token]:
        signature = token.rpartition(".")[2]
        assert len(signature) < 8 or signature not in log
