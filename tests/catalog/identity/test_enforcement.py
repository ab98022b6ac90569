"""Every door is shut: what a server with authentication answers without a token."""

from __future__ import annotations

import json
import re
import socket
import uuid
from typing import Any

import pytest
from tests.catalog.api.client import Answer, Client, schema
from tests.catalog.identity.world import World, bearer, send

from frazil.catalog.server import endpoints
from frazil.devstack.frazil_server import FrazilServer

pytestmark = pytest.mark.services

PUBLIC = {
    ("POST", "/catalog/v1/oauth/tokens"),
    ("GET", "/health"),
    ("GET", "/health/ready"),
    ("GET", "/docs"),
    ("GET", "/docs/{asset}"),
    ("GET", "/openapi.json"),
}


def test_nothing_else_is_public() -> None:
    assert {(endpoint.method, endpoint.path) for endpoint in endpoints() if endpoint.public} == PUBLIC


@pytest.mark.parametrize("endpoint", endpoints(), ids=lambda endpoint: f"{endpoint.method} {endpoint.path}")
def test_every_endpoint_asks_who_is_there(world: World, endpoint: Any) -> None:
    path = re.sub(r"{.+?}", "swagger-ui.css", endpoint.path)
    answer = send(world.server, endpoint.method, path, body=b"{}" if endpoint.method == "POST" else None)
    if endpoint.public:
        assert answer.status in (200, 400)
    else:
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_server_without_authentication_asks_nobody(frazil_sqlite: FrazilServer) -> None:
    who = send(frazil_sqlite, "GET", "/management/v1/whoami", bearer("nonsense")).ok()
    assert who["id"] == "anonymous"
    assert send(frazil_sqlite, "GET", "/management/v1/info").ok()["authentication"] == []


def test_the_server_says_which_ways_there_are(world: World) -> None:
    info = world.ask(world.static_token, "/management/v1/info").ok()
    assert info["authentication"] == ["oidc", "partner", "client", "bootstrap-token"]
    who = world.ask(world.static_token).ok()
    assert (who["id"], who["user-type"]) == ("static~bootstrap", "application")


def test_a_body_is_not_read_before_its_sender_is_known(world: World) -> None:
    """The answer comes although the body never does."""
    request = (
        b"POST /management/v1/warehouse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", world.server.port), timeout=60) as connection:
        connection.sendall(request)
        assert connection.recv(64).startswith(b"HTTP/1.1 401 ")


def test_strangers_cannot_send_much(world: World) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = b"grant_type=client_credentials&x=" + b"x" * 65_536
    answer = send(world.server, "POST", "/catalog/v1/oauth/tokens", form, body)
    answer.refused(413, "PayloadTooLarge", "65536")


def test_an_idempotency_key_is_its_sender_s_own(world: World) -> None:
    token = world.static_token
    config = world.ask(token, "/catalog/v1/config").ok()
    root = f"/catalog/v1/{config['defaults']['prefix']}"
    key = {"Idempotency-Key": str(uuid.uuid4())}

    def create(who: str) -> Answer:
        body = {"name": "t", "schema": schema()}
        return send(world.server, "POST", f"{root}/namespaces/mine/tables", {**bearer(who), **key}, body)

    namespace = {"namespace": ["mine"]}
    send(world.server, "POST", f"{root}/namespaces", bearer(token), namespace).ok()
    made = create(token).ok()
    assert create(token).ok() == made
    create(world.good()).refused(422, "UnprocessableEntityException", "another request")


def test_metrics_need_a_token_and_health_does_not(world: World) -> None:
    world.ask(None, "/metrics").refused(401)
    assert b"frazil_http_requests_total" in world.ask(world.static_token, "/metrics").body
    assert world.ask(None, "/health").status == 200
    assert world.ask(None, "/health/ready").status == 200


def test_the_description_says_what_needs_a_token(world: World) -> None:
    document = world.ask(None, "/openapi.json").ok()
    assert document["paths"]["/metrics"]["get"]["security"] == [{"bearer": []}, {"client": []}]
    assert "security" not in document["paths"]["/health"]["get"]


def test_a_known_connection_is_not_a_known_caller(world: World) -> None:
    client = Client(world.server.port)
    client.send("GET", "/management/v1/whoami", headers=bearer(world.static_token)).ok()
    client.send("GET", "/management/v1/whoami").refused(401)
    client.close()


def test_each_request_is_logged_with_who_sent_it(world: World) -> None:
    request_id = uuid.uuid4().hex
    client = Client(world.server.port)
    for headers in (bearer(world.good()), bearer("x"), {}):
        client.send("GET", "/management/v1/whoami", headers={**headers, "x-request-id": request_id})
    # Lines are written together: one more request later, ours are there.
    client.close()
    world.server.restart()
    lines = [json.loads(line) for line in world.server.log.read_text().splitlines() if request_id in line]
    requests = [line for line in lines if "path" in line]
    assert [(line["status"], line["principal"]) for line in requests] == [
        (200, "oidc~alice"),
        (401, None),
        (401, None),
    ]
