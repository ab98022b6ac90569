"""Requests and responses."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from frazil.catalog import wire
from frazil.catalog.identity import ANONYMOUS, Principal
from frazil.core.errors import InvalidInput

T = TypeVar("T")

json_bytes = msgspec.json.Encoder().encode


class Request:
    """One HTTP request, its path parameters decoded, its body read whole."""

    __slots__ = ("_headers", "_query", "body", "id", "method", "params", "path", "principal", "scheme")

    def __init__(
        self,
        method: str,
        path: str,
        params: dict[str, str],
        headers: dict[bytes, bytes],
        query: bytes,
        body: bytes,
        request_id: str,
        scheme: str = "http",
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.principal = principal
        self.scheme = scheme
        self.method = method
        self.path = path
        self.params = params
        self.body = body
        self.id = request_id
        self._headers = headers
        self._query = query

    def header(self, name: str) -> str | None:
        """The value of a header (given in lower case), or None."""
        value = self._headers.get(name.encode())
        return None if value is None else value.decode("latin-1").strip()

    @property
    def query_string(self) -> str:
        return self._query.decode("latin-1")

    def query(self, kind: type[T]) -> T:
        """The query parameters as `kind`, a struct whose fields all have defaults."""
        if not self._query:
            return kind()
        try:
            pairs = parse_qsl(self._query.decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise InvalidInput("the query string is not percent-encoded UTF-8") from error
        values = dict(pairs)
        for name, value in pairs:
            if "\x00" in value:
                raise InvalidInput(f"query parameter {name!r} contains a NUL character")
        try:
            return msgspec.convert(values, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"query parameters: {error}") from error

    def json(self, kind: type[T]) -> tuple[T, dict[str, Any]]:
        """The body checked against `kind`, and as the plain document it came as."""
        media_type = (self.header("content-type") or "application/json").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise InvalidInput(f"Content-Type {media_type!r} is not understood; send application/json")
        return wire.decode(kind, self.body)


class Response:
    """What goes back: status, body and extra headers."""

    __slots__ = ("body", "headers", "media_type", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        media_type: bytes = b"application/json",
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.media_type = media_type
        self.headers = headers


def json_response(value: object, status: int = 200) -> Response:
    return Response(status, json_bytes(value))


def no_content() -> Response:
    return Response(204)
