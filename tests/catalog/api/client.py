"""A plain HTTP client of the catalog, on the standard library, and the smallest legal bodies."""

from __future__ import annotations

import http.client
import json
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

Json = dict[str, Any]
SEPARATOR = "%1F"
# The server closes a connection that was idle for 5 s; one that was idle for long is not used again.
IDLE_SECONDS = 2.0


@dataclass(frozen=True)
class Answer:
    """Status, headers (names in lower case) and body of a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def ok(self, status: int = 200) -> Any:
        """The body of an answer that must have this status; None without a body."""
        assert self.status == status, f"{self.status}: {self.body[:2000]!r}"
        return json.loads(self.body) if self.body else None

    def refused(self, status: int, kind: str | None = None, *words: str) -> str:
        """The message of an error in the spec's shape, which must have this status, type and words."""
        assert self.status == status, f"{self.status}, not {status}: {self.body[:2000]!r}"
        error = self.error()
        if kind is not None:
            assert error["type"] == kind, error
        for word in words:
            assert word in error["message"], error
        message: str = error["message"]
        return message

    def error(self) -> Json:
        """The error, after a look at its shape."""
        assert self.headers.get("content-type") == "application/json", self.headers
        document = json.loads(self.body)
        assert set(document) == {"error"}, document
        error: Json = document["error"]
        assert set(error) >= {"message", "type", "code"}, error
        assert isinstance(error["message"], str)
        assert error["message"]
        assert isinstance(error["type"], str)
        assert error["code"] == self.status
        return error


class Client:
    """One kept-alive connection to a server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; `body` is bytes as they are, or anything else as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = dict(headers or {})
        if data is not None and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        if time.monotonic() - self._used > IDLE_SECONDS:
            self.close()
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            self._connection.request(method, path, data, sent)
            answer = _answer(self._connection.getresponse())
            self._used = time.monotonic()
            return answer
        except BaseException:
            self.close()
            raise

    def raw(self, request: bytes, *later: bytes) -> Answer:
        """Send bytes that no HTTP library would; the method for HEAD is read from them.

        `later`: what is sent when the server had time to answer.
        """
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(request)
            for more in later:
                time.sleep(0.5)
                connection.sendall(more)
            response = http.client.HTTPResponse(
                connection, method=request.split(b" ", 1)[0].decode("latin-1")
            )
            response.begin()
            return _answer(response)

    def raw_get(self, target: bytes, method: bytes = b"GET", headers: bytes = b"") -> Answer:
        """A request whose target is sent byte for byte."""
        return self.raw(
            method
            + b" "
            + target
            + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            + headers
            + b"\r\n"
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _answer(response: http.client.HTTPResponse) -> Answer:
    body = response.read()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def segment(*levels: str) -> str:
    """Namespace levels or a name as one path segment."""
    return SEPARATOR.join(quote(level, safe="") for level in levels)


@dataclass
class Catalog:
    """The Iceberg endpoints of one warehouse."""

    client: Client
    prefix: str
    root: str = field(init=False)

    def __post_init__(self) -> None:
        self.root = f"/catalog/v1/{self.prefix}"

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        **query: str | int,
    ) -> Answer:
        """A request below the warehouse's prefix."""
        text = f"?{urlencode(query)}" if query else ""
        return self.client.send(method, f"{self.root}{path}{text}", body, headers)

    def namespace_path(self, levels: Sequence[str], *more: str) -> str:
        return "/".join(["/namespaces/" + segment(*levels), *more])

    def table_path(self, levels: Sequence[str], name: str, kind: str = "tables") -> str:
        return self.namespace_path(levels, kind, segment(name))

    def create_namespace(self, *levels: str, properties: Mapping[str, str] | None = None) -> Answer:
        return self.send("POST", "/namespaces", {"namespace": levels, "properties": dict(properties or {})})

    def create_table(
        self, levels: Sequence[str], name: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        body = {"name": name, "schema": schema(), **more}
        return self.send("POST", self.namespace_path(levels, "tables"), body, headers)

    def load(
        self, levels: Sequence[str], name: str, headers: Mapping[str, str] | None = None, **query: str
    ) -> Answer:
        return self.send("GET", self.table_path(levels, name), None, headers, **query)

    def commit(
        self,
        levels: Sequence[str],
        name: str,
        *updates: Json,
        requirements: Sequence[Json] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        body = {"requirements": list(requirements), "updates": list(updates)}
        return self.send("POST", self.table_path(levels, name), body, headers)

    def rename(
        self,
        source: tuple[Sequence[str], str],
        target: tuple[Sequence[str], str],
        kind: str = "tables",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        body = {"source": identifier(*source), "destination": identifier(*target)}
        return self.send("POST", f"/{kind}/rename", body, headers)

    def transaction(self, *changes: Json, headers: Mapping[str, str] | None = None) -> Answer:
        return self.send("POST", "/transactions/commit", {"table-changes": list(changes)}, headers)

    def create_view(
        self, levels: Sequence[str], name: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Answer:
        body = {"name": name, "schema": schema(), "view-version": view_version(), "properties": {}, **more}
        return self.send("POST", self.namespace_path(levels, "views"), body, headers)


def connect(port: int, warehouse: str | None = None) -> Catalog:
    """The catalog of a warehouse (the default one if none is named), as clients find it."""
    client = Client(port)
    query = "" if warehouse is None else "?" + urlencode({"warehouse": warehouse})
    config = client.send("GET", f"/catalog/v1/config{query}").ok()
    return Catalog(client, config["defaults"]["prefix"])


def identifier(levels: Sequence[str], name: str) -> Json:
    return {"namespace": list(levels), "name": name}


def column(number: int, name: str, kind: Any = "long", *, required: bool = False, **more: Any) -> Json:
    return {"id": number, "name": name, "type": kind, "required": required, **more}


def schema(*columns: Json, **more: Any) -> Json:
    fields = columns or (column(1, "id", required=True), column(2, "data", "string"))
    return {"type": "struct", "schema-id": 0, "fields": list(fields), **more}


def snapshot(number: int, **more: Any) -> Json:
    """A snapshot whose files need not exist: the catalog never opens them."""
    return {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": f"file:///nowhere/snap-{number}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
        **more,
    }


def add_snapshot(number: int, **more: Any) -> Json:
    return {"action": "add-snapshot", "snapshot": snapshot(number, **more)}


def set_ref(number: int, name: str = "main", kind: str = "branch", **more: Any) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": number, **more}


def set_properties(**updates: str) -> Json:
    return {"action": "set-properties", "updates": updates}


def view_version(number: int = 1, sql: str = "SELECT 1", **more: Any) -> Json:
    return {
        "version-id": number,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "test"},
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
        "default-namespace": ["ns"],
        **more,
    }


def key() -> dict[str, str]:
    """A fresh Idempotency-Key header."""
    return {"Idempotency-Key": str(uuid.uuid4())}


def local_path(location: str) -> str:
    """The path of a file on local disk."""
    return unquote(urlsplit(location).path) if location.startswith("file:") else location
