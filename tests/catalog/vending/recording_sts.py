"""An STS in front of the store's own that writes down what it was asked.

The store ignores external ids and session tags, and shows nothing of a request. So what our server sends is
read here, on its way; the answer is the store's own. Told to `forget`, it leaves the session policy out, as
stores do whose STS knows none.
"""

from __future__ import annotations

import datetime as dt
import http.client
import http.server
import threading
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from frazil.catalog.aws import Keys, payload_hash, sign
from frazil.devstack.seaweed import ObjectStore


class RecordingSts:
    """Passes AssumeRole on to the STS of `store`."""

    def __init__(self, store: ObjectStore, *, forget: bool = False) -> None:
        self.asked: list[dict[str, str]] = []
        #: Answers to give instead of the store's, first one first.
        self.instead: list[tuple[int, bytes]] = []
        self._store = store
        self._forget = forget
        recorder = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status, answer = recorder._answer(body)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, body: bytes) -> tuple[int, bytes]:
        form = dict(parse_qsl(body.decode()))
        self.asked.append(dict(form))
        if self.instead:
            return self.instead.pop(0)
        if self._forget:
            del form["Policy"]
        return self._pass_on(urlencode(form).encode())

    def _pass_on(self, body: bytes) -> tuple[int, bytes]:
        keys = Keys(self._store.catalog.access, self._store.catalog.secret)
        url = f"{self._store.sts_endpoint}/"
        headers = {"content-type": "application/x-www-form-urlencoded"}
        headers |= sign(
            "POST",
            url,
            headers,
            payload_hash(body),
            service="sts",
            region=self._store.region,
            keys=keys,
            now=dt.datetime.now(dt.UTC),
        )
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
        try:
            connection.request("POST", "/", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
