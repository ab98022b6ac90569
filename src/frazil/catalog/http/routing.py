"""Routes are data: what dispatches a request also describes it in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from frazil.catalog import wire
from frazil.catalog.http.message import Request, Response
from frazil.core.errors import InvalidInput

Handler = Callable[[Any, Request], Awaitable[Response]]


@dataclass(frozen=True, eq=False)
class Endpoint:
    """One operation of the API."""

    method: str
    path: str
    handler: Handler
    tag: str
    body: Any = None
    query: type | None = None
    headers: tuple[str, ...] = ()
    answer: Any = None
    status: int = 200
    #: The statuses, beside `status`, that a caller must be ready for.
    errors: tuple[int, ...] = (400, 404)
    #: Answers anybody, also where authentication is on.
    public: bool = False
    #: The body is a form of these fields instead of JSON.
    form: Any = None
    #: The shape of its errors, where that is not the REST spec's.
    error: Any = wire.IcebergErrorResponse

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


class Routes:
    """Collects the endpoints of one module.

    >>> routes = Routes("/management/v1", tag="server")
    """

    def __init__(self, prefix: str, tag: str) -> None:
        self.prefix = prefix
        self.tag = tag
        self.endpoints: list[Endpoint] = []

    def add(self, method: str, path: str, **about: Any) -> Callable[[Handler], Handler]:
        """Register the decorated handler; `about` are fields of `Endpoint`."""

        def register(handler: Handler) -> Handler:
            self.endpoints.append(Endpoint(method, self.prefix + path, handler, self.tag, **about))
            return handler

        return register


class _Node:
    __slots__ = ("endpoints", "literal", "parameter", "parameter_name")

    def __init__(self) -> None:
        self.literal: dict[bytes, _Node] = {}
        self.parameter: _Node | None = None
        self.parameter_name = ""
        self.endpoints: dict[str, Endpoint] = {}


class Router:
    """Finds the endpoint for a raw path; parameters are decoded segment by segment.

    Working on the raw path keeps an encoded slash inside a name apart from a path separator.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._root = _Node()
        for endpoint in endpoints:
            self._insert(endpoint)

    def find(self, raw_path: bytes) -> tuple[dict[str, Endpoint], dict[str, str]]:
        """The endpoints at a path by method (empty: no such path) and the path parameters."""
        node = self._root
        params: dict[str, str] = {}
        for segment in raw_path.split(b"/")[1:]:
            child = node.literal.get(segment)
            if child is None:
                child = node.parameter
                if child is None:
                    return {}, params
                params[node.parameter_name] = _decoded(segment, node.parameter_name)
            node = child
        return node.endpoints, params

    def _insert(self, endpoint: Endpoint) -> None:
        node = self._root
        for segment in endpoint.path.split("/")[1:]:
            if segment.startswith("{"):
                if node.parameter is None:
                    node.parameter, node.parameter_name = _Node(), segment[1:-1]
                node = node.parameter
            else:
                node = node.literal.setdefault(segment.encode(), _Node())
        if endpoint.method in node.endpoints:
            raise ValueError(f"two endpoints for {endpoint.method} {endpoint.path}")
        node.endpoints[endpoint.method] = endpoint


def _decoded(segment: bytes, name: str) -> str:
    # Iceberg's Java clients up to 1.11 write a space as "+"; every client writes a plus as "%2B".
    segment = segment.replace(b"+", b" ")
    try:
        text = unquote_to_bytes(segment).decode() if b"%" in segment else segment.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"path parameter {name!r} is not percent-encoded UTF-8") from error
    if not text or "\x00" in text:
        raise InvalidInput(f"path parameter {name!r} is empty or contains a NUL character")
    return text
