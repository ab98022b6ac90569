"""A small HTTP/1.1 client: keep-alive, one request at a time, no more work for an answer than needed."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

Answer = tuple[int, bytes]


class Connection(asyncio.Protocol):
    """One keep-alive connection. Requests go out as the bytes that they are."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()
        self._status = 0
        self._body_at = 0
        self._end: int | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, "127.0.0.1", port)
        return connection

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a whole request; the future holds status and body of its answer."""
        assert self._transport is not None
        assert self._waiting is None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if self._body_at == 0:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self._read_head(bytes(buffer[:end]).lower(), end + 4)
        if self._end is None:
            # Chunked; JSON has no raw line ends, so only the last chunk can look like this.
            if buffer.endswith(b"\r\n0\r\n\r\n"):
                self._finish(_unchunked(bytes(buffer[self._body_at :])))
        elif len(buffer) >= self._end:
            self._finish(bytes(buffer[self._body_at :]))

    def _read_head(self, head: bytes, body_at: int) -> None:
        self._status = int(head[9:12])
        self._body_at = body_at
        at = head.find(b"\r\ncontent-length:")
        if at >= 0:
            end = head.find(b"\r\n", at + 2)
            self._end = body_at + int(head[at + 17 : end if end >= 0 else None])
        elif b"\r\ntransfer-encoding: chunked" in head:
            self._end = None
        else:
            self._end = body_at

    def _finish(self, body: bytes) -> None:
        waiting, status = self._waiting, self._status
        self._waiting, self._buffer, self._body_at, self._end = None, bytearray(), 0, None
        assert waiting is not None
        if not waiting.done():
            waiting.set_result((status, body))


def _unchunked(data: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end].partition(b";")[0], 16)
        if size == 0:
            return b"".join(pieces)
        pieces.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def get(path: str, **headers: str) -> bytes:
    """Names of headers with underscores for dashes."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n{more}\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def ask(connection: Connection, request: bytes, *accepted: int) -> Any:
    """The JSON of an answer that must have one of the accepted statuses (200 if none are named)."""
    status, body = await connection.send(request)
    if status not in (accepted or (200,)):
        raise RuntimeError(f"{request[:120]!r} was answered {status}: {body[:500]!r}")
    return json.loads(body) if body else None
