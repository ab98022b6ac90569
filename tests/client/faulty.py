"""A stretch of network between the client and a real server, with faults in the order a test wants."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self, cast


class Fault(Enum):
    """What happens to one request."""

    PASS = "the server gets it, and its answer comes back"
    LOSE = "the server gets it, and its answer is lost with the connection"
    DROP = "the connection dies before the server gets it"
    STALL = "nobody answers"


@dataclass(frozen=True)
class Reply:
    """An answer that the server never gave: a load balancer's, or a broken server's."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class FaultyNetwork:
    """Passes requests on to `port`, one fault after the other; when they are used up, all pass."""

    def __init__(self, port: int) -> None:
        self.upstream = port
        self.faults: list[Fault | Reply] = []
        self.seen: list[Seen] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        cast("Any", self._server).network = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next_fault(self, seen: Seen) -> Fault | Reply:
        with self._lock:
            self.seen.append(seen)
            return self.faults.pop(0) if self.faults else Fault.PASS

    def keys(self, method: str = "POST") -> list[str | None]:
        """The idempotency keys of the requests that came."""
        return [seen.headers.get("idempotency-key") for seen in self.seen if seen.method == method]

    def stall(self) -> None:
        self._closing.wait(120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self._network.connections += 1

    @property
    def _network(self) -> FaultyNetwork:
        network: FaultyNetwork = cast("Any", self.server).network
        return network

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        match self._network.next_fault(Seen(self.command, self.path, headers, body)):
            case Reply(status, answer, more):
                self._answer(status, answer, dict(more))
            case Fault.PASS:
                self._answer(*self._forward(body))
            case Fault.LOSE:
                self._forward(body)
                self.close_connection = True
            case Fault.DROP:
                self.close_connection = True
            case Fault.STALL:
                self._network.stall()
                self.close_connection = True

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = _serve  # noqa: N815 (the library's names)

    def _forward(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self._network.upstream, timeout=60)
        try:
            sent = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request(self.command, self.path, body or None, sent)
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""
