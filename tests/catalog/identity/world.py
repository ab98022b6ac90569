"""A server that asks everybody who they are, and those who may say so."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.catalog.api.client import Answer, Client
from tests.catalog.identity.issuer import Issuer, Key, ec_key, rsa_key

from frazil.devstack.frazil_server import FrazilServer

WHOAMI = "/management/v1/whoami"


@dataclass(frozen=True)
class World:
    server: FrazilServer
    static_token: str
    first: Issuer
    second: Issuer
    #: Keys of the first issuer, and the one of the second.
    rsa: Key
    ec: Key
    other: Key

    def ask(self, token: str | None, path: str = WHOAMI) -> Answer:
        """A request with this token."""
        return ask(self.server, token, path)

    def good(self) -> str:
        return self.first.token(self.rsa)


def ask(server: FrazilServer, token: str | None, path: str = WHOAMI) -> Answer:
    return send(server, "GET", path, bearer(token))


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def send(
    server: FrazilServer,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: object = None,
) -> Answer:
    client = Client(server.port)
    try:
        return client.send(method, path, body, headers)
    finally:
        client.close()


@contextmanager
def opened() -> Iterator[World]:
    rsa, ec, other = rsa_key(), ec_key(), rsa_key()
    static_token = secrets.token_hex(32)
    with Issuer(rsa, ec) as first, Issuer(other) as second:
        environment = {
            "FRAZIL_BOOTSTRAP_TOKEN": static_token,
            "FRAZIL_OPENID_PROVIDER_URI": f"{first.uri}, partner={second.uri}",
            "FRAZIL_OPENID_AUDIENCE": "lake, frazil",
            "FRAZIL_LOG_LEVEL": "debug",
        }
        with FrazilServer(environment=environment) as server:
            yield World(server, static_token, first, second, rsa, ec, other)
