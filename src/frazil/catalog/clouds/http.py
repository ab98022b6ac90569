"""Asking the small HTTP services of a cloud: tokens, token exchange, delegation keys."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from frazil.catalog.outgoing import http_client
from frazil.catalog.storage.object_errors import masked
from frazil.core.errors import StorageError

_ANSWER_LIMIT = 64 * 1024
_MESSAGE_LIMIT = 300
_DEADLINE_SECONDS = 20
_TIMEOUT = httpx.Timeout(10, connect=5)
_PAUSES = (0.1, 0.5)
_RETRIED = frozenset({429, 500, 502, 503, 504})


class CloudClient:
    """Sends requests whose repetition does no harm; its errors name no secret."""

    def __init__(self, secrets: Iterable[str] = (), *, context: ssl.SSLContext | None = None) -> None:
        self._secrets = tuple(secrets)
        self._context = context
        self._client: httpx.AsyncClient | None = None

    async def send(
        self,
        what: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        content: bytes | None = None,
        secrets: Iterable[str] = (),
    ) -> bytes:
        """The body of the answer; StorageError, with what the service said, if it is not a success.

        `secrets` are those of this request alone.
        """
        hidden = (*self._secrets, *secrets)
        data = dict(form) if form is not None else None
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                for pause in (*_PAUSES, None):
                    try:
                        status, body = await self._once(method, url, headers, data, content)
                    except httpx.TransportError:
                        if pause is None:
                            raise
                    else:
                        if status not in _RETRIED or pause is None:
                            break
                    await asyncio.sleep(pause)
        except TimeoutError:
            raise _failure(hidden, what, f"no answer within {_DEADLINE_SECONDS} s") from None
        except (httpx.HTTPError, ValueError) as error:
            raise _failure(hidden, what, f"no answer: {str(error) or type(error).__name__}") from None
        if status != 200:
            raise _failure(hidden, what, f"HTTP {status} {_said(body)}".strip())
        return body

    async def send_json(self, what: str, method: str, url: str, **request: Any) -> dict[str, Any]:
        """The JSON object that the service answers with."""
        body = await self.send(what, method, url, **request)
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _failure((), what, "the answer is not a JSON object")
        return answer

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _once(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        data: dict[str, str] | None,
        content: bytes | None,
    ) -> tuple[int, bytes]:
        if self._client is None:
            self._client = http_client(url, timeout=_TIMEOUT, context=self._context)
        async with self._client.stream(method, url, headers=headers, data=data, content=content) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > _ANSWER_LIMIT:
                    raise ValueError(f"the answer is longer than {_ANSWER_LIMIT} bytes")
        return response.status_code, bytes(body)


def _failure(hidden: Iterable[str], what: str, said: str) -> StorageError:
    said = "".join(c if c.isprintable() else " " for c in masked(said, hidden))
    return StorageError(f"{what}: {said[:_MESSAGE_LIMIT]}", kind="CredentialsNotVended")


def _said(body: bytes) -> str:
    """What an OAuth2 error means; other answers may not be for the caller's eyes."""
    try:
        answer = json.loads(body)
        return f"{answer['error']}: {answer.get('error_description', '')}".removesuffix(": ")
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
