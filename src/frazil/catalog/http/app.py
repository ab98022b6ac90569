"""The ASGI application: reads a request, finds its endpoint, answers, logs and counts."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from frazil.catalog.http.bodies import (
    MAX_BODY_BYTES,
    MAX_PUBLIC_BODY_BYTES,
    BodyReader,
    Disconnected,
    Receive,
)
from frazil.catalog.http.errors import error_body, error_response
from frazil.catalog.http.message import Request, Response
from frazil.catalog.http.routing import Endpoint, Router
from frazil.catalog.identity import ANONYMOUS, Guard
from frazil.catalog.logs import RequestLog
from frazil.catalog.metrics import RequestMetrics
from frazil.core.errors import FrazilError, NotAllowed

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

_NO_BODY = frozenset({204, 304})
#: Request ids: unique in this process by number, among processes by chance.
_PROCESS = os.urandom(6).hex()
_numbers = itertools.count(1)


class HttpApp:
    """Serves a set of endpoints; `state` is handed to every handler."""

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        *,
        state: Any,
        log: RequestLog,
        metrics: RequestMetrics,
        hosts: frozenset[str] | None = None,
        guard: Guard | None = None,
    ) -> None:
        """`hosts` are the names that callers may know this server by; None: any.

        Without a `guard` nobody is asked who they are.
        """
        self._router = Router(endpoints)
        self._bodies = BodyReader()
        self._hosts = hosts
        self._guard = guard
        self._state = state
        self._log = log
        self._metrics = metrics

    @property
    def authentication(self) -> list[str]:
        """The ways to prove who one is; none: nobody is asked."""
        return self._guard.ways if self._guard is not None else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        method: str = scope["method"]
        request_id = _request_id(scope["headers"])
        endpoint: Endpoint | None = None
        request: Request | None = None
        try:
            endpoints, params = self._router.find(scope["raw_path"])
            endpoint = endpoints.get(method)
            if endpoint is None:
                response = _no_endpoint(method, scope["raw_path"], endpoints)
            else:
                request = await self._request(scope, receive, endpoint, params, request_id)
                response = await endpoint.handler(self._state, request)
        except Disconnected:
            return
        except FrazilError as error:
            response = error_response(error)
        except Exception as error:  # noqa: BLE001 (the last line of defence)
            self._log.failure(request_id, error)
            message = f"internal error; the server's log has the details under request id {request_id}"
            response = Response(500, error_body(500, "InternalServerError", message))
        await _send(send, method, response, request_id)
        elapsed = time.perf_counter() - started
        self._metrics.observe(endpoint, response.status, elapsed)
        principal = request.principal if request is not None else ANONYMOUS
        self._log.request(request_id, scope, endpoint, response, elapsed, principal)

    async def _request(
        self, scope: Scope, receive: Receive, endpoint: Endpoint, params: dict[str, str], request_id: str
    ) -> Request:
        method: str = scope["method"]
        headers = _headers(scope["headers"])
        if self._hosts is not None and _host_name(headers.get(b"host", b"")) not in self._hosts:
            # A page whose name was pointed at this machine (DNS rebinding) is of the same origin.
            raise NotAllowed("the Host header names another server; set --base-uri if this is a proxy's")
        principal = ANONYMOUS
        if self._guard is not None and self._guard.on and not endpoint.public:
            principal = await self._guard.principal(scope["headers"], request_id)
        body = b""
        if method not in ("GET", "HEAD"):
            _refuse_other_sites(headers)
            body = await self._bodies.read(
                receive, MAX_PUBLIC_BODY_BYTES if endpoint.public else MAX_BODY_BYTES
            )
        query: bytes = scope["query_string"]
        path, scheme = scope["path"], scope["scheme"]
        return Request(method, path, params, headers, query, body, request_id, scheme, principal)


def _headers(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Headers by name; one that is given several times is one list, as HTTP has it."""
    headers = dict(pairs)
    if len(headers) < len(pairs):
        headers.clear()
        for name, value in pairs:
            headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    return headers


def _host_name(host: bytes) -> str:
    name = host.decode("latin-1").lower()
    return name[: name.rfind("]") + 1] if name.startswith("[") else name.partition(":")[0]


def _no_endpoint(method: str, raw_path: bytes, endpoints: dict[str, Endpoint]) -> Response:
    path = raw_path.decode("ascii", "replace")
    if endpoints:
        allowed = ", ".join(sorted(endpoints))
        body = error_body(405, "MethodNotAllowed", f"{method} is not offered at {path}, only {allowed}")
        return Response(405, body, headers=[(b"allow", allowed.encode())])
    return Response(404, error_body(404, "NoSuchEndpoint", f"there is no {method} {path}; see /openapi.json"))


def _refuse_other_sites(headers: dict[bytes, bytes]) -> None:
    """A page of another origin in the user's browser must not change a server on the user's machine."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none"):
        raise NotAllowed("requests from pages of other sites are refused")


async def _send(send: Send, method: str, response: Response, request_id: str) -> None:
    headers = [(b"x-request-id", request_id.encode())]
    if response.status not in _NO_BODY:
        headers.append((b"content-type", response.media_type))
        headers.append((b"content-length", b"%d" % len(response.body)))
    if response.headers:
        headers.extend(response.headers)
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = b"" if method == "HEAD" else response.body
    await send({"type": "http.response.body", "body": body})


def _request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The caller's id if it is harmless in a log line, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and len(value) <= 128 and value.isascii():
            text = value.decode()
            if text and all(char.isalnum() or char in "-_.:" for char in text):
                return text
    return f"{_PROCESS}-{next(_numbers):x}"
