"""A client of the catalog that reports what the server said, and nothing more.

It never repeats a request by itself: the tests must know exactly what was sent and what came back.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self
from urllib.parse import quote

Json = dict[str, Any]

SCHEMA: Json = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": False}],
}
# The server closes a connection that was idle for 5 s: a request on one would be lost, as if it had failed.
_IDLE_SECONDS = 2.0


class Told(StrEnum):
    """What a caller may conclude from an answer."""

    DONE = "done"
    #: 4xx, 503, or the connection could not be made: nothing happened.
    REFUSED = "refused"
    #: 500, 502, 504, or the connection broke after the request was sent.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Answer:
    """`status` is 0 when no answer came, -1 when the request was not even sent."""

    status: int
    body: bytes = b""

    @property
    def told(self) -> Told:
        if 200 <= self.status < 300:
            return Told.DONE
        if self.status == -1 or self.status == 503 or 400 <= self.status < 500:
            return Told.REFUSED
        return Told.UNKNOWN

    @property
    def json(self) -> Json:
        decoded: Json = json.loads(self.body)
        return decoded

    @property
    def kind(self) -> str:
        """The error's type, as the spec's error shape has it."""
        return str(self.json["error"]["type"]) if self.body else ""

    def __str__(self) -> str:
        return f"{self.status} {self.body[:300].decode(errors='replace')}"


class Rest:
    """One warehouse of one server. Each thread has a connection of its own."""

    def __init__(self, port: int, *, timeout: float = 60) -> None:
        self.port = port
        self._timeout = timeout
        self._local = threading.local()
        self._prefix: str | None = None

    @property
    def prefix(self) -> str:
        if self._prefix is None:
            answer = self.call("GET", "/catalog/v1/config")
            assert answer.status == 200, answer
            self._prefix = answer.json["defaults"]["prefix"]
        return f"/catalog/v1/{self._prefix}"

    def call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if body is not None:
            sent["Content-Type"] = "application/json"
        if key is not None:
            sent["Idempotency-Key"] = key
        data = None if body is None else json.dumps(body).encode()
        try:
            connection = self._connection()
        except OSError:
            return Answer(-1)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            answer = Answer(response.status, response.read())
            self._local.used = time.monotonic()
            return answer
        except (OSError, http.client.HTTPException):
            self.close()
            return Answer(0)

    def of(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A call below the warehouse's prefix."""
        return self.call(method, self.prefix + path, body, key=key, headers=headers)

    def close(self) -> None:
        """Close this thread's connection."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self) -> http.client.HTTPConnection:
        if time.monotonic() - getattr(self._local, "used", 0.0) > _IDLE_SECONDS:
            self.close()
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self._timeout)
            try:
                connection.connect()
            except OSError:
                connection.close()
                raise
            self._local.connection = connection
        return connection


# --- what the tests send


def table_path(namespace: str, name: str) -> str:
    return f"/namespaces/{quote(namespace, safe='')}/tables/{quote(name, safe='')}"


def create_namespace(rest: Rest, namespace: str) -> None:
    answer = rest.of("POST", "/namespaces", {"namespace": [namespace], "properties": {}})
    assert answer.status == 200, answer


def create_table(rest: Rest, namespace: str, name: str, properties: Mapping[str, str] | None = None) -> Json:
    body = {"name": name, "schema": SCHEMA, "properties": dict(properties or {})}
    answer = rest.of("POST", f"/namespaces/{namespace}/tables", body)
    assert answer.status == 200, answer
    return answer.json


def load(rest: Rest, namespace: str, name: str) -> Json:
    answer = rest.of("GET", table_path(namespace, name))
    assert answer.status == 200, answer
    return answer.json


def snapshot_of(metadata: Json) -> int | None:
    """The snapshot that `main` points at."""
    main = metadata.get("refs", {}).get("main")
    return None if main is None else int(main["snapshot-id"])


def append(metadata: Json, snapshot_id: int, summary: Mapping[str, str] | None = None) -> Json:
    """Requirements and updates that add one snapshot on top of what `metadata` shows."""
    base = snapshot_of(metadata)
    snapshot: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append", **(summary or {})},
        "schema-id": 0,
    }
    if base is not None:
        snapshot["parent-snapshot-id"] = base
    return {
        "requirements": [
            {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": base},
        ],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }


def staged_updates(metadata: Json) -> list[Json]:
    """The updates with which a client creates the table that a staged create described."""
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": metadata["format-version"]},
    ]
    updates += [{"action": "add-schema", "schema": schema} for schema in metadata["schemas"]]
    updates += [{"action": "set-current-schema", "schema-id": -1}]
    updates += [{"action": "add-spec", "spec": spec} for spec in metadata["partition-specs"]]
    updates += [{"action": "set-default-spec", "spec-id": -1}]
    updates += [{"action": "add-sort-order", "sort-order": order} for order in metadata["sort-orders"]]
    updates += [{"action": "set-default-sort-order", "sort-order-id": -1}]
    updates += [{"action": "set-location", "location": metadata["location"]}]
    updates += [{"action": "set-properties", "updates": metadata["properties"]}]
    return updates


def wait_until(condition: Any, seconds: float = 120, what: str = "") -> None:
    """Poll until `condition()` is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(0.05)


@contextlib.contextmanager
def closing_all(clients: list[Rest]) -> Any:
    try:
        yield clients
    finally:
        for client in clients:
            client.close()
