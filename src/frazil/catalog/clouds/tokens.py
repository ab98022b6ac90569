"""OAuth2 access tokens that are asked for once and used until shortly before they expire."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from frazil.catalog.clouds.http import CloudClient
from frazil.core.errors import StorageError

_MARGIN_SECONDS = 240


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token."""

    value: str = field(repr=False)
    #: Seconds since the epoch.
    expires_at: float

    @property
    def expiry(self) -> datetime:
        return datetime.fromtimestamp(self.expires_at, UTC)


class Tokens(ABC):
    """One identity's tokens; however many callers want one, it is asked for once."""

    def __init__(self, client: CloudClient) -> None:
        self._client = client
        self._held: Token | None = None
        self._asking = asyncio.Lock()

    async def token(self, seconds: float = _MARGIN_SECONDS) -> Token:
        """A token that is good for `seconds` more, if the cloud gives such."""
        async with self._asking:
            if self._held is None or self._held.expires_at - time.time() < seconds:
                self._held = await self._ask()
            return self._held

    async def close(self) -> None:
        await self._client.close()

    @abstractmethod
    async def _ask(self) -> Token:
        """A token from the cloud."""


def parse_token(what: str, answer: dict[str, Any], asked_at: float) -> Token:
    """The token in an answer; Azure's metadata service writes numbers as strings."""
    value = answer.get("access_token")
    try:
        seconds = float(answer["expires_in"])
    except (KeyError, TypeError, ValueError):
        seconds = 0.0
    clean = isinstance(value, str) and value.isascii() and value.isprintable() and " " not in value
    if not value or not clean or seconds <= 0:
        raise StorageError(f"{what}: the answer has no access token with a lifetime")
    return Token(str(value), asked_at + seconds)
