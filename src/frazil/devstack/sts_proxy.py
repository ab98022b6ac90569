"""Credentials that expire within seconds, from a store whose STS gives none below 15 minutes.

A proxy in front of the object store's STS. It passes every request on, and signs the session tokens in the
answers again with an earlier expiry, which it reports too. Who asks (our server) and who checks (the store)
run unchanged.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import http.server
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore

_ACCESS = re.compile(r"(?<=<AccessKeyId>)[^<]+")
_SECRET = re.compile(r"(?<=<SecretAccessKey>)[^<]+")
_TOKEN = re.compile(r"(?<=<SessionToken>)[^<]+")
_EXPIRATION = re.compile(r"(?<=<Expiration>)[^<]+")
_HOP = ("connection", "content-length", "transfer-encoding")


@dataclass(frozen=True)
class Session:
    """Keys that were given, so that a test can look for them where they must not be."""

    access: str
    secret: str = field(repr=False)
    token: str = field(repr=False)
    expires_at: int


class StsProxy:
    """The STS of `store` at an address of its own; what it gives lives `seconds`.

    >>> with ObjectStore() as store, StsProxy(store, seconds=20) as sts:  # doctest: +SKIP
    ...     profile = {"sts-endpoint": sts.endpoint, "sts-role-arn": store.role_arn}
    """

    def __init__(self, store: ObjectStore, seconds: int) -> None:
        self.seconds = seconds
        self._store = store
        self._port = free_port()
        #: What was given so far, in this order.
        self.given: list[Session] = []
        self._server: http.server.ThreadingHTTPServer | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        proxy = self

        class Handler(_Handler):
            upstream = urlsplit(proxy._store.sts_endpoint).netloc
            shorten = staticmethod(proxy._shorten)

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        threading.Thread(target=self._server.serve_forever, name="sts-proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _shorten(self, answer: str) -> str:
        found = _TOKEN.search(answer)
        if found is None:
            return answer
        expiry = int(time.time()) + self.seconds
        answer = _TOKEN.sub(resign(found[0], self._store.signing_key, expiry), answer)
        access, secret, token = (part.findall(answer)[0] for part in (_ACCESS, _SECRET, _TOKEN))
        self.given.append(Session(access, secret, token, expiry))
        return _EXPIRATION.sub(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expiry)), answer)


def resign(token: str, key: bytes, expiry: int) -> str:
    """The session token with another expiry, signed as the store itself would."""
    header, payload, _ = token.split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    claims["exp"] = expiry
    body = f"{header}.{_base64(json.dumps(claims).encode())}"
    return f"{body}.{_base64(hmac.digest(key, body.encode(), 'sha256'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: str
    shorten: Callable[[str], str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        try:
            # With the Host that the caller signed: the store checks the signature.
            connection.request("POST", self.path, body, dict(self.headers))
            answer = connection.getresponse()
            text = self.shorten(answer.read().decode())
        finally:
            connection.close()
        self._send(answer.status, answer.getheaders(), text.encode())

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in (*_HOP, "date", "server"):
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Requests are not news, and their URLs are nobody's business."""
