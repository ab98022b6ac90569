"""Clients with secrets of their own: logging in, renewing, and being shut out again."""

from __future__ import annotations

import base64
import json
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import OAuthError, UnauthorizedError
from tests.catalog.api.client import Answer, Json
from tests.catalog.identity.world import ask, bearer, send
from tests.cli.running import frazil

from frazil.catalog.identity import guard
from frazil.catalog.identity.access_tokens import AccessTokens
from frazil.catalog.secrets import SecretBox
from frazil.devstack.frazil_server import FrazilServer

pytestmark = pytest.mark.services

TOKENS = "/catalog/v1/oauth/tokens"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
KEY = "5e" * 32


@dataclass(frozen=True)
class House:
    """A server that knows the client `etl`, and its secret."""

    server: FrazilServer
    secret: str

    def post(self, headers: dict[str, str] | None = None, **form: str) -> Answer:
        return post(self.server, headers, **form)

    def login(self, client_id: str = "etl", secret: str | None = None) -> Answer:
        given = self.secret if secret is None else secret
        return self.post(grant_type="client_credentials", client_id=client_id, client_secret=given)

    def token(self) -> str:
        token: str = self.login().ok()["access_token"]
        return token

    def command(self, *arguments: str) -> str:
        done = frazil("client", *arguments, "--data-dir", str(self.server.data_dir))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def old_token(self, **changes: Any) -> str:
        """A token as the server would have made it, with other claims."""
        claims = jwt.decode(self.token(), options={"verify_signature": False}) | changes
        key = SecretBox(bytes.fromhex(KEY)).derived(b"access tokens")
        return jwt.encode(claims, key, algorithm="HS256", headers={"typ": "at+jwt"})


def post(server: FrazilServer, headers: dict[str, str] | None = None, **form: str) -> Answer:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    return send(server, "POST", TOKENS, {**kind, **(headers or {})}, urlencode(form).encode())


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


def refused(answer: Answer, status: int, error: str) -> str:
    """The description of an OAuth2 error."""
    assert answer.status == status, answer.body
    document: Json = answer.json
    assert set(document) == {"error", "error_description"}
    assert document["error"] == error
    assert answer.headers["cache-control"] == "no-store"
    description: str = document["error_description"]
    return description


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with FrazilServer(environment={"FRAZIL_ENCRYPTION_KEY": KEY, "FRAZIL_LOG_LEVEL": "debug"}) as server:
        yield House(server, created(server, "etl"))


def created(server: FrazilServer, name: str) -> str:
    done = frazil("client", "create", name, "--json", "--data-dir", str(server.data_dir))
    assert done.returncode == 0, done.stderr
    secret: str = json.loads(done.stdout)["client-secret"]
    _until(lambda: ask(server, None).status == 401, 120)
    return secret


def _until(true: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_client_logs_in_and_is_known(house: House) -> None:
    answer = house.login()
    document = answer.ok()
    assert document["token_type"] == "bearer"
    assert document["issued_token_type"] == ACCESS_TOKEN
    assert document["expires_in"] == 3600
    assert answer.headers["cache-control"] == "no-store"
    who = ask(house.server, document["access_token"]).ok()
    assert (who["id"], who["name"], who["user-type"]) == ("client~etl", "etl", "application")


def test_basic_will_do_as_well(house: House) -> None:
    token = house.post(basic("etl", house.secret), grant_type="client_credentials").ok()["access_token"]
    assert ask(house.server, token).ok()["id"] == "client~etl"
    # The name may stand in the form too, as long as it is the same.
    house.post(basic("etl", house.secret), grant_type="client_credentials", client_id="etl").ok()


def test_what_clients_send_along_does_not_matter(house: House) -> None:
    """A bearer token that is over, as PyIceberg sends it; scopes and fields of others."""
    form = {"client_id": "etl", "client_secret": house.secret, "scope": "PRINCIPAL_ROLE:ALL", "x": "y"}
    answer = house.post(bearer("expired"), grant_type="client_credentials", audience="a", **form)
    assert answer.ok()["scope"] == "catalog"


@pytest.mark.parametrize("client_id", ["etl", "nobody", "not a name", "ETL", "etl\x00", "x" * 5000])
@pytest.mark.parametrize("secret", ["wrong", "frz_" + "A" * 43, " ", "é"])
def test_a_wrong_secret_and_an_unknown_client_are_the_same(house: House, client_id: str, secret: str) -> None:
    answers = [
        house.login(client_id, secret),
        house.post(basic(client_id, secret), grant_type="client_credentials"),
    ]
    for answer in answers:
        assert "no such client, or its secret" in refused(answer, 401, "invalid_client")
        assert answer.headers["www-authenticate"] == 'Basic realm="frazil"'


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": "password", "username": "a", "password": "b"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({"grant_type": "client_credentials"}, "invalid_request"),
        ({"grant_type": "client_credentials", "client_secret": "only"}, "invalid_request"),
        ({"grant_type": "client_credentials", "client_id": "etl"}, "invalid_request"),
        ({"grant_type": EXCHANGE}, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x"}, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": "id_token"}, "invalid_request"),
        ({"grant_type": EXCHANGE, "subject_token": "x", "subject_token_type": ACCESS_TOKEN}, "invalid_grant"),
    ],
)
def test_forms_that_cannot_be_meant(house: House, form: dict[str, str], error: str) -> None:
    refused(house.post(None, **form), 400, error)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Type": "application/json"}, b'{"grant_type": "client_credentials"}'),
        ({}, b"grant_type=client_credentials&client_id=etl&client_id=etl&client_secret=x"),
        ({}, b"grant_type=client_credentials&client_id=%ff&client_secret=x"),
        ({}, b"grant_type=\xff"),
        ({}, b"&".join(b"a%d=1" % number for number in range(50))),
        ({"Authorization": "Basic !"}, b"grant_type=client_credentials"),
        ({"Authorization": "Basic eA=="}, b"grant_type=client_credentials"),
        (basic("etl", "x"), b"grant_type=client_credentials&client_id=other"),
        (basic("etl", "x"), b"grant_type=client_credentials&client_id=etl&client_secret=x"),
    ],
)
def test_requests_that_are_no_form(house: House, headers: dict[str, str], body: bytes) -> None:
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(send(house.server, "POST", TOKENS, {**kind, **headers}, body), 400, "invalid_request")


def exchange(house: House, token: str, headers: dict[str, str] | None = None, **more: str) -> Answer:
    form = {"subject_token": token, "subject_token_type": ACCESS_TOKEN, "scope": "catalog", **more}
    return house.post(headers, grant_type=EXCHANGE, **form)


def test_a_token_is_renewed_as_iceberg_s_java_client_does(house: House) -> None:
    token = house.token()
    renewed = exchange(house, token, bearer(token)).ok()["access_token"]
    assert renewed != token
    assert ask(house.server, renewed).ok()["id"] == "client~etl"


def test_a_token_that_is_over_is_renewed_only_with_the_secret(house: House) -> None:
    over = house.old_token(exp=int(time.time()) - 3600)
    ask(house.server, over).refused(401)
    refused(exchange(house, over, bearer(over)), 400, "invalid_grant")
    refused(exchange(house, over, basic("etl", "wrong")), 401, "invalid_client")
    renewed = exchange(house, over, basic("etl", house.secret)).ok()["access_token"]
    ask(house.server, renewed).ok()


def test_a_token_is_not_renewed_for_somebody_else(house: House) -> None:
    other = created(house.server, "other")
    refused(exchange(house, house.token(), basic("other", other)), 400, "invalid_grant")
    refused(exchange(house, house.token(), actor_token="x"), 400, "invalid_request")
    refused(exchange(house, house.token(), requested_token_type="saml"), 400, "invalid_request")
    house.command("delete", "other", "--yes")


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "urn:frazil:other"},
        {"aud": "urn:frazil:other"},
        {"aud": None},
        {"exp": 1},
        {"sub": "nobody"},
        {"sid": "other"},
        {"sid": None},
        {"iat": 99999999999},
    ],
    ids=str,
)
def test_a_token_of_ours_with_another_claim_is_not_ours(house: House, changes: Json) -> None:
    ask(house.server, house.old_token()).ok()
    claims = {name: value for name, value in changes.items() if value is not None}
    token = house.old_token(**changes) if claims else _without(house, next(iter(changes)))
    ask(house.server, token).refused(401)


def _without(house: House, name: str) -> str:
    claims = jwt.decode(house.token(), options={"verify_signature": False})
    del claims[name]
    key = SecretBox(bytes.fromhex(KEY)).derived(b"access tokens")
    return jwt.encode(claims, key, algorithm="HS256", headers={"typ": "at+jwt"})


def test_a_token_of_another_server_with_the_same_key_is_refused(house: House) -> None:
    key = SecretBox(bytes.fromhex(KEY)).derived(b"access tokens")
    ask(house.server, AccessTokens(key, "another-server", 0).issue("etl", "x")).refused(401)


def test_a_new_secret_ends_the_old_one_and_its_tokens(house: House) -> None:
    first = created(house.server, "rotated")
    token = house.login("rotated", first).ok()["access_token"]
    ask(house.server, token).ok()
    house.command("rotate", "rotated")
    refused(house.login("rotated", first), 401, "invalid_client")
    refused(exchange(house, token), 400, "invalid_grant")
    _until(lambda: ask(house.server, token).status == 401, guard.CLIENT_SECONDS + 120)


def test_a_deleted_client_is_shut_out_and_a_namesake_does_not_let_it_in_again(house: House) -> None:
    secret = created(house.server, "gone")
    token = house.login("gone", secret).ok()["access_token"]
    ask(house.server, token).ok()
    house.command("delete", "gone", "--yes")
    created(house.server, "gone")
    refused(house.login("gone", secret), 401, "invalid_client")
    _until(lambda: ask(house.server, token).status == 401, guard.CLIENT_SECONDS + 120)
    house.command("delete", "gone", "--yes")


def test_secrets_and_tokens_are_nowhere_to_be_found(house: House) -> None:
    token = house.token()
    ask(house.server, token).ok()
    house.login("etl", "wrong-secret-hunter2")
    time.sleep(0.2)
    log = house.server.log.read_text()
    files = b"".join(
        path.read_bytes() for path in Path(house.server.data_dir).glob("catalog.db*") if path.is_file()
    )
    for hidden in (house.secret, token, "hunter2"):
        assert hidden not in log
        assert hidden.encode() not in files
    with closing(sqlite3.connect(house.server.data_dir / "catalog.db")) as database:
        (stored,) = database.execute("SELECT secret FROM client WHERE client_id = 'etl'").fetchone()
    assert stored.startswith("scrypt$32768$8$1$")


def test_replicas_take_each_other_s_tokens(postgres_url: Callable[[], str]) -> None:
    url, key = postgres_url(), {"FRAZIL_ENCRYPTION_KEY": KEY}
    made = frazil("client", "create", "etl", "--json", environment={"FRAZIL_DATABASE_URL": url})
    assert made.returncode == 0, made.stderr
    secret = json.loads(made.stdout)["client-secret"]
    with (
        FrazilServer(database_url=url, environment=key) as one,
        FrazilServer(database_url=url, environment=key) as two,
    ):
        form = {"grant_type": "client_credentials", "client_id": "etl", "client_secret": secret}
        token = post(one, **form).ok()["access_token"]
        assert ask(two, token).ok()["id"] == ask(one, token).ok()["id"] == "client~etl"
        ask(two, None).refused(401)


def test_pyiceberg_logs_in_by_credential(house: House) -> None:
    uri = house.server.catalog_uri
    with warnings.catch_warnings():
        # Without oauth2-server-uri it warns that this default will go away one day.
        warnings.simplefilter("ignore")
        with load_catalog("a", type="rest", uri=uri, credential=f"etl:{house.secret}") as catalog:
            catalog.create_namespace("by_credential")
    with load_catalog(
        "b",
        type="rest",
        uri=uri,
        credential=f"etl:{house.secret}",
        **{"oauth2-server-uri": f"{uri}/v1/oauth/tokens"},
    ) as catalog:
        assert ("by_credential",) in catalog.list_namespaces()
    login = {"client_id": "etl", "client_secret": house.secret, "token_url": f"{uri}/v1/oauth/tokens"}
    manager: Any = {"type": "oauth2", "oauth2": login}
    with load_catalog("c", type="rest", uri=uri, auth=manager) as catalog:
        assert ("by_credential",) in catalog.list_namespaces()


def test_pyiceberg_understands_a_refusal(house: House) -> None:
    uri = house.server.catalog_uri
    tokens = {"oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
    with pytest.raises(OAuthError, match="invalid_client"):
        load_catalog("a", type="rest", uri=uri, credential="etl:wrong", **tokens)
    with pytest.raises(UnauthorizedError, match="not valid here"):
        load_catalog("b", type="rest", uri=uri, token="wrong", **tokens)
