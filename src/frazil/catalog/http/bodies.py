"""Reads request bodies, within limits for each and for all together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

from frazil.core.errors import InvalidInput, PayloadTooLarge, Unavailable

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY_BYTES = 32 * 1024 * 1024
#: What is read of somebody who has not said who they are.
MAX_PUBLIC_BODY_BYTES = 64 * 1024
#: What all requests together may hold in memory before they are whole.
_MAX_UNFINISHED_BYTES = 128 * 1024 * 1024
_READ_SECONDS = 60.0
#: What is read and thrown away of a body that is too large: a caller whose connection is closed while it
#: still sends may never see the answer.
_DISCARDED_BYTES = 8 * 1024 * 1024
_DISCARD_SECONDS = 5.0


class Disconnected(Exception):
    """The caller went away before its request was whole."""


class BodyReader:
    """One for the whole server: it knows how much is being received at the moment."""

    def __init__(self) -> None:
        self._unfinished = 0

    async def read(self, receive: Receive, most: int = MAX_BODY_BYTES) -> bytes:
        """The whole body, or PayloadTooLarge, Unavailable, InvalidInput (too slow), Disconnected."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        first: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(first) > most:
                raise _too_large(most)
            return first
        try:
            async with asyncio.timeout(_READ_SECONDS):
                return await self._rest(first, receive, most)
        except TimeoutError:
            raise InvalidInput(f"the body did not arrive within {_READ_SECONDS:g} s") from None

    async def _rest(self, first: bytes, receive: Receive, most: int) -> bytes:
        chunks = [first]
        size = len(first)
        self._unfinished += size
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                chunk: bytes = message.get("body", b"")
                chunks.append(chunk)
                size += len(chunk)
                self._unfinished += len(chunk)
                if size > most:
                    chunks.clear()
                    if message.get("more_body"):
                        await _discard(receive)
                    raise _too_large(most)
                if self._unfinished > _MAX_UNFINISHED_BYTES:
                    raise Unavailable("too many large requests are being received; try again")
                if not message.get("more_body"):
                    return b"".join(chunks)
        finally:
            self._unfinished -= size


async def _discard(receive: Receive) -> None:
    left = _DISCARDED_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_SECONDS):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                if not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))


def _too_large(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {most} bytes")
