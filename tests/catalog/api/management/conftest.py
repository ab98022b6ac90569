"""A running server on each database, and a small client of its management API."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    status: int
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> tuple[int, str]:
        error = self.body["error"]
        assert error["code"] == self.status
        return self.status, error["type"]

    @property
    def message(self) -> str:
        return str(self.body["error"]["message"])


class Client:
    """Speaks JSON to one server."""

    def __init__(self, server: FrazilServer) -> None:
        self.server = server
        self.seen: list[str] = []

    def send(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            answer = Answer(response.status, response.read().decode())
        finally:
            connection.close()
        self.seen.append(answer.text)
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"/management/v1{path}", headers=_dashed(headers))

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        return self.send("POST", f"/management/v1{path}", body, _dashed(headers))

    def delete(self, path: str, **headers: str) -> Answer:
        return self.send("DELETE", f"/management/v1{path}", headers=_dashed(headers))

    def config(self, warehouse: str) -> Answer:
        return self.send("GET", f"/catalog/v1/config?warehouse={warehouse}")


def _dashed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.fixture(params=["frazil_sqlite", "frazil_postgres"])
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.getfixturevalue(request.param))


@pytest.fixture
def local_warehouse(client: Client) -> Callable[..., dict[str, Any]]:
    """The body of a create request for a new local warehouse."""

    def make(**more: object) -> dict[str, Any]:
        name = f"w{next(_numbers)}-{uuid4().hex[:6]}"
        path = client.server.directory / "warehouses" / name
        return {"warehouse-name": name, "storage-profile": {"type": "local", "path": str(path)}, **more}

    return make


@pytest.fixture
def s3_warehouse(object_store: ObjectStore) -> dict[str, Any]:
    """Lakekeeper's documented example, with the alias names of its documentation."""
    return {
        "warehouse-name": f"s3-{uuid4().hex[:8]}",
        "storage-profile": {
            "type": "s3",
            "bucket": object_store.create_bucket("management-tests"),
            "key-prefix": f"wh-{uuid4().hex[:8]}",
            "region": object_store.region,
            "endpoint": object_store.endpoint,
            "flavor": "minio",
            "path-style-access": True,
        },
        "storage-credential": {
            "type": "s3",
            "credential-type": "access-key",
            "aws-access-key-id": object_store.catalog.access,
            "aws-secret-access-key": object_store.catalog.secret,
        },
    }
