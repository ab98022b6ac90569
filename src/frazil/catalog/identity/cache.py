"""Tokens that were checked a moment ago."""

from __future__ import annotations

import hashlib
import time

from frazil.catalog.identity.principal import Principal

_MOST = 10_000


class TokenCache:
    """Who a token stands for, by the token's digest: the tokens themselves are not kept."""

    def __init__(self) -> None:
        self._held: dict[bytes, tuple[Principal, float]] = {}

    def get(self, token: bytes) -> Principal | None:
        held = self._held.get(hashlib.sha256(token).digest())
        if held is None or held[1] <= time.time():
            return None
        return held[0]

    def put(self, token: bytes, principal: Principal, until: float) -> None:
        if until <= time.time():
            return
        key = hashlib.sha256(token).digest()
        self._held.pop(key, None)
        if len(self._held) >= _MOST:
            # The oldest entry; dictionaries keep the order of insertion.
            del self._held[next(iter(self._held))]
        self._held[key] = (principal, until)

    def clear(self) -> None:
        self._held.clear()

    def __len__(self) -> int:
        return len(self._held)
