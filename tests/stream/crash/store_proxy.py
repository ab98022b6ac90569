"""A store that refuses writes for a while: a proxy in front of the real one."""

from __future__ import annotations

import http.client
import http.server
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_HOP = ("connection", "content-length", "transfer-encoding", "date", "server")
_REFUSAL = b"<Error><Code>ServiceUnavailable</Code><Message>not now</Message></Error>"


class StoreProxy:
    """Passes requests on as they are signed; while `refusing`, writes are answered with 503."""

    def __init__(self, upstream: str) -> None:
        self.refusing = False
        self.refused = 0
        proxy = self

        class Handler(_Handler):
            target = urlsplit(upstream).netloc
            owner = proxy

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: str
    owner: StoreProxy

    def _pass(self) -> None:
        chunked = "chunked" in self.headers.get("transfer-encoding", "")
        body = self._chunks() if chunked else self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.owner.refusing and self.command in ("PUT", "POST"):
            self.owner.refused += 1
            self._answer(503, [("content-type", "application/xml")], _REFUSAL)
            return
        connection = http.client.HTTPConnection(self.target, timeout=300)
        try:
            # With the Host that the caller signed: the store checks the signature.
            sent = [body] if chunked else body or None
            connection.request(self.command, self.path, sent, dict(self.headers), encode_chunked=chunked)
            answer = connection.getresponse()
            self._answer(
                answer.status, answer.getheaders(), answer.read(), answer.getheader("content-length")
            )
        finally:
            connection.close()

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, length: str | None = None
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        # Of a HEAD the length is that of a body that does not come.
        known = length if self.command == "HEAD" and length is not None else str(len(body))
        if status != 204:
            self.send_header("content-length", known)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Not news."""
