"""Who the client says it is, to servers that ask."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from tests.client.conftest import QUICK
from tests.client.faulty import Fault, FaultyNetwork, Reply

from frazil.client import AsyncClient, Client, ClientCredentials
from frazil.client.auth import OWN_TOKEN_PATH
from frazil.core.errors import FrazilError, InvalidConfig, Unauthenticated, Unavailable
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.keycloak import Keycloak

BOOTSTRAP = "static-bootstrap-token-of-the-tests-0123456789"
REFUSED = Reply(401, b'{"error": {"message": "over", "type": "NotAuthorizedException", "code": 401}}')
pytestmark = pytest.mark.services


@dataclass(frozen=True)
class Guarded:
    """A server that asks everybody who they are, and a client that it knows."""

    server: FrazilServer
    oauth: ClientCredentials


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with FrazilServer(environment={"FRAZIL_BOOTSTRAP_TOKEN": BOOTSTRAP}) as server:
        command = [sys.executable, "-m", "frazil.cli", "client", "create", "etl", "--json"]
        made = subprocess.run(
            [*command, "--data-dir", str(server.data_dir)], capture_output=True, text=True, check=True
        )
        secret = json.loads(made.stdout)["client-secret"]
        yield Guarded(server, ClientCredentials("etl", secret))


@pytest.fixture
def line(guarded: Guarded) -> Iterator[FaultyNetwork]:
    with FaultyNetwork(guarded.server.port) as found:
        yield found


def tokens_fetched(line: FaultyNetwork) -> int:
    return sum(seen.path == OWN_TOKEN_PATH for seen in line.seen)


def test_without_a_token(guarded: Guarded) -> None:
    with Client(guarded.server.uri) as client, pytest.raises(Unauthenticated, match="set TOKEN, or OAUTH_"):
        client.server.whoami()


def test_a_token_by_argument_and_by_environment(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(guarded.server.uri, token=BOOTSTRAP) as client:
        assert client.server.whoami().id
    monkeypatch.setenv("TOKEN", BOOTSTRAP)
    with Client(guarded.server.uri) as client:
        assert client.server.whoami().id


def test_a_wrong_token_is_not_repeated_to_the_reader(guarded: Guarded, line: FaultyNetwork) -> None:
    wrong = BOOTSTRAP.replace("static", "stale")
    with Client(line.uri, token=wrong) as client, pytest.raises(Unauthenticated) as caught:
        client.server.whoami()
    assert wrong not in caught.value.message
    assert "argument token was refused" in caught.value.message
    assert len(line.seen) == 1


def test_client_credentials(guarded: Guarded) -> None:
    with Client(guarded.server.uri, oauth=guarded.oauth) as client:
        assert client.server.whoami().id.endswith("etl")


def test_client_credentials_by_environment(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAUTH_CLIENT_ID", guarded.oauth.client_id)
    monkeypatch.setenv("OAUTH_CLIENT_SECRET", guarded.oauth.client_secret)
    monkeypatch.setenv("OAUTH_SCOPE", "catalog")
    for url in ("", f"{guarded.server.uri}{OWN_TOKEN_PATH}"):
        monkeypatch.setenv("OAUTH_TOKEN_URL", url)
        with Client(guarded.server.uri) as client:
            assert client.server.whoami().id.endswith("etl")
    # The token that somebody set for this moment wins over the standing credentials.
    monkeypatch.setenv("TOKEN", "x" * 40)
    with Client(guarded.server.uri) as client, pytest.raises(Unauthenticated, match="variable TOKEN"):
        client.server.whoami()


def test_a_wrong_secret(guarded: Guarded) -> None:
    wrong = ClientCredentials("etl", "not-the-secret")
    with Client(guarded.server.uri, oauth=wrong) as client, pytest.raises(Unauthenticated) as caught:
        client.server.whoami()
    assert "invalid_client" in caught.value.message
    assert "OAUTH_CLIENT_SECRET" in caught.value.message
    assert "not-the-secret" not in caught.value.message
    assert "not-the-secret" not in repr(wrong)


def test_settings_that_contradict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig, match="not both"):
        Client(token="a", oauth=ClientCredentials("a", "b"))
    with pytest.raises(InvalidConfig, match="printable"):
        Client(token="two words")
    with pytest.raises(InvalidConfig, match="token URL"):
        ClientCredentials("a", "b", "ftp://x")
    with pytest.raises(InvalidConfig, match="client secret"):
        ClientCredentials("a", "")
    monkeypatch.setenv("OAUTH_CLIENT_ID", "a")
    with pytest.raises(InvalidConfig, match="OAUTH_CLIENT_SECRET is not set"):
        Client()


def test_threads_share_one_token(guarded: Guarded, line: FaultyNetwork) -> None:
    with Client(line.uri, oauth=guarded.oauth) as client, ThreadPoolExecutor(8) as pool:
        names = {future.result().id for future in [pool.submit(client.server.whoami) for _ in range(24)]}
    assert len(names) == 1
    assert tokens_fetched(line) == 1


async def test_tasks_share_one_token(guarded: Guarded, line: FaultyNetwork) -> None:
    async with AsyncClient(line.uri, oauth=guarded.oauth) as client:
        found = await asyncio.gather(*(client.server.whoami() for _ in range(8)))
    assert len({user.id for user in found}) == 1
    assert tokens_fetched(line) == 1


def test_a_refused_token_is_renewed_once(guarded: Guarded, line: FaultyNetwork) -> None:
    """Also for a change without a key: who is not let in has done nothing."""
    with Client(line.uri, oauth=guarded.oauth, retry=QUICK) as client:
        line.faults = [Fault.PASS, REFUSED]
        client.projects.create("after-renewal")
        assert tokens_fetched(line) == 2
        line.faults = [REFUSED, Fault.PASS, REFUSED]
        with pytest.raises(Unauthenticated, match="just issued"):
            client.projects.create("never")
        assert "never" not in [found.project_name for found in client.projects.list()]


async def test_a_refused_token_is_renewed_once_async(guarded: Guarded, line: FaultyNetwork) -> None:
    async with AsyncClient(line.uri, oauth=guarded.oauth, retry=QUICK) as client:
        line.faults = [Fault.PASS, REFUSED]
        assert (await client.server.whoami()).id
    assert tokens_fetched(line) == 2


def issued(seconds: float, token: str = BOOTSTRAP) -> Reply:
    """What a token endpoint says; the token is one that the server takes."""
    document = {"access_token": token, "token_type": "Bearer", "expires_in": seconds}
    return Reply(200, json.dumps(document).encode())


def test_a_token_is_renewed_before_it_expires(
    guarded: Guarded, line: FaultyNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock(monkeypatch)
    line.faults = [issued(3600)]
    with Client(line.uri, oauth=guarded.oauth) as client:
        client.server.whoami()
        clock.pass_by(3530)
        client.server.whoami()
        assert tokens_fetched(line) == 1
        clock.pass_by(20)
        client.server.whoami()
        assert tokens_fetched(line) == 2


def test_while_the_issuer_is_away_the_old_token_serves(
    guarded: Guarded, line: FaultyNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock(monkeypatch)
    line.faults = [issued(3600)]
    with Client(line.uri, oauth=guarded.oauth, retry=QUICK) as client:
        client.server.whoami()
        clock.pass_by(3550)
        line.faults = [Fault.DROP] * QUICK.attempts
        assert client.server.whoami().id
        clock.pass_by(100)
        line.faults = [Fault.DROP] * QUICK.attempts
        with pytest.raises(Unavailable, match="no token could be had"):
            client.server.whoami()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>"),
        Reply(200, b'{"access_token": 7}'),
        Reply(200, b'{"access_token": "a", "token_type": "mac"}'),
        Reply(404, b"nothing here"),
        Reply(400, b'{"error": "invalid_scope", "error_description": "no such scope"}'),
    ],
    ids=lambda reply: reply.body.decode(),
)
def test_what_is_no_token_endpoint(guarded: Guarded, line: FaultyNetwork, reply: Reply) -> None:
    line.faults = [reply]
    with Client(line.uri, oauth=guarded.oauth) as client, pytest.raises(Unauthenticated):
        client.server.whoami()
    assert len(line.seen) == 1


def test_no_secret_is_logged_or_shown(
    guarded: Guarded, line: FaultyNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    with Client(line.uri, oauth=guarded.oauth, retry=QUICK) as client:
        client.server.whoami()
        line.faults = [Reply(500, b"")] * QUICK.attempts
        with pytest.raises(FrazilError) as caught:
            client.server.whoami()
        shown = f"{caplog.text}{caught.value!r}{client!r}{client._session!r}{vars(client.server)!r}"
    token = line.seen[-1].headers["authorization"].removeprefix("Bearer ")
    assert guarded.oauth.client_secret not in shown
    assert token not in shown


def test_a_real_openid_provider(keycloak: Keycloak) -> None:
    realm = keycloak.create_realm("client-library")
    secret = keycloak.create_client(realm, "etl", audience="frazil")
    settings = {"FRAZIL_OPENID_PROVIDER_URI": realm.issuer, "FRAZIL_OPENID_AUDIENCE": "frazil"}
    with FrazilServer(environment=settings) as server:
        oauth = ClientCredentials("etl", secret, realm.token_url)
        with Client(server.uri, oauth=oauth) as client:
            client.namespaces.create("a")
            assert list(client.namespaces.list()) == [("a",)]
        wrong = ClientCredentials("etl", "wrong", realm.token_url)
        with Client(server.uri, oauth=wrong) as client, pytest.raises(Unauthenticated, match=r"(?i)client"):
            client.server.whoami()


class _Clock:
    """Time as the client's tokens see it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        real = time.monotonic
        monkeypatch.setattr("frazil.client.auth.monotonic", lambda: real() + self._ahead)

    def pass_by(self, seconds: float) -> None:
        self._ahead += seconds
