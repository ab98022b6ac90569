"""A warehouse on the real store that cannot vend credentials: its clients have their requests signed."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clients.support import call

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.s3 import Keys, send
from frazil.devstack.seaweed import ObjectStore

BUCKET = "signed"
SIGNING = {"x-iceberg-access-delegation": "remote-signing"}
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any


@dataclass(frozen=True)
class Table:
    name: str
    config: Mapping[str, str]

    @property
    def signer(self) -> str:
        return f"{self.config['signer.uri']}/{self.config['signer.endpoint']}"


@dataclass(frozen=True)
class Signed:
    """The warehouse, and how a client without keys would use it."""

    server: FrazilServer
    store: ObjectStore
    name: str
    warehouse_id: str

    @property
    def uri(self) -> str:
        return f"{self.server.catalog_uri}/v1/{self.warehouse_id}"

    def table(self, name: str, headers: Mapping[str, str] | None = None) -> Table:
        """The table `a.<name>` at `wh/<name>`, made if need be, as a load with `headers` gives it."""
        call("POST", f"{self.uri}/namespaces", {"namespace": ["a"]})
        body = {"name": name, "schema": SCHEMA, "location": f"s3://{BUCKET}/wh/{name}"}
        status, _ = call("POST", f"{self.uri}/namespaces/a/tables", body)
        assert status in (200, 409)
        answer = self.ask(
            "GET", f"{self.uri}/namespaces/a/tables/{name}", None, {**SIGNING, **(headers or {})}
        )
        assert answer.status == 200, answer
        return Table(name, answer.body["config"])

    def url(self, key: str = "", query: str = "") -> str:
        """The path-style URL of a key in the bucket, or of the bucket."""
        path = f"{BUCKET}/{key}" if key else BUCKET
        return f"{self.store.endpoint}/{path}{'?' if query else ''}{query}"

    def sign(
        self,
        table: Table,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
    ) -> Answer:
        """Have a request signed, as Iceberg's clients do."""
        asked: dict[str, Any] = {"region": "us-east-1", "uri": url, "method": method}
        asked["headers"] = {name: [value] for name, value in (headers or {}).items()}
        if body is not None:
            asked["body"] = body
        return self.ask("POST", table.signer, asked)

    def run(
        self,
        table: Table,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: str = "",
        *,
        unsigned: Mapping[str, str] | None = None,
        sent: str | None = None,
    ) -> Answer:
        """Sign a request, which must succeed, and send it; `unsigned` and `sent` tamper with it."""
        bulk = body if url.endswith("?delete") else None
        signed = self.sign(table, method, url, headers, bulk)
        assert signed.status == 200, signed
        added = {name: values[0] for name, values in signed.body["headers"].items()}
        return raw(method, signed.body["uri"], {**(headers or {}), **added, **(unsigned or {})}, sent or body)

    def ask(
        self, method: str, url: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        text = "" if body is None else json.dumps(body)
        answer = raw(method, url, {"content-type": "application/json", **(headers or {})}, text)
        return Answer(answer.status, json.loads(answer.body) if answer.body else None)

    def as_admin(self, method: str, url: str, body: bytes = b"") -> tuple[int, str]:
        """Past the catalog, with the store's own keys."""
        return send(method, url, Keys(self.store.admin.access, self.store.admin.secret), "us-east-1", body)


def raw(method: str, url: str, headers: Mapping[str, str], body: str) -> Answer:
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    try:
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request(method, target, body.encode() if body else None, dict(headers))
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode())
    finally:
        connection.close()


def storage(store: ObjectStore, **profile: Any) -> dict[str, Any]:
    """The body of a warehouse creation, without its name."""
    return {
        "storage-profile": {
            "type": "s3",
            "bucket": BUCKET,
            "endpoint": store.endpoint,
            "region": store.region,
            "path-style-access": True,
            "flavor": "s3-compat",
            "sts-enabled": False,
            **profile,
        },
        "storage-credential": {
            "type": "s3",
            "credential-type": "access-key",
            "access-key-id": store.catalog.access,
            "secret-access-key": store.catalog.secret,
        },
    }


@pytest.fixture(scope="session")
def signed(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> Signed:
    object_store.create_bucket(BUCKET)
    body = {"warehouse-name": "signed", **storage(object_store, **{"key-prefix": "wh"})}
    status, answer = call("POST", f"{frazil_sqlite.management_uri}/warehouse", body)
    assert status == 201, answer
    return Signed(frazil_sqlite, object_store, "signed", answer["id"])
