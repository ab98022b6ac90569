"""Keys for jobs that outlive them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic

from frazil.client.credentials import VendedCredentials
from frazil.core.errors import CommitStateUnknown, Unavailable

#: Failures of a renewal that old keys can bridge.
_PASSING = (Unavailable, CommitStateUnknown)


class _Held:
    """The newest keys and the moment from which others are wanted."""

    def __init__(self, margin: float) -> None:
        self._margin = margin
        self._held: tuple[VendedCredentials, float] | None = None

    def ready(self) -> VendedCredentials | None:
        held = self._held
        return held[0] if held is not None and monotonic() < held[1] else None

    def keep(self, credentials: VendedCredentials) -> VendedCredentials:
        """A server may give keys from its cache again: they are kept for half of what they have left."""
        renew_in = float("inf")
        if credentials.expires_at is not None:
            left = (credentials.expires_at - datetime.now(UTC)).total_seconds()
            renew_in = max(left - self._margin, left / 2)
        self._held = (credentials, monotonic() + renew_in)
        return credentials

    def bridge(self) -> VendedCredentials | None:
        """The old keys, as long as they open anything."""
        held = self._held
        return held[0] if held is not None and not held[0].expires_soon(0.0) else None


class Renewing:
    """Gives keys that last for at least about `margin` seconds; fetches new ones shortly before the end.

    May be used by several threads: one of them fetches, the others wait for it.

    >>> keys = Renewing(lambda: client.generic_tables.credentials("sensors", "raw"))  # doctest: +SKIP
    >>> keys.current().to_pyarrow()  # doctest: +SKIP
    """

    def __init__(self, fetch: Callable[[], VendedCredentials], margin: float = 60.0) -> None:
        self._fetch = fetch
        self._held = _Held(margin)
        self._lock = threading.Lock()

    def current(self) -> VendedCredentials:
        """Keys that can be used now."""
        if (ready := self._held.ready()) is not None:
            return ready
        with self._lock:
            if (ready := self._held.ready()) is not None:
                return ready
            try:
                return self._held.keep(self._fetch())
            except _PASSING:
                if (old := self._held.bridge()) is not None:
                    return old
                raise


class AsyncRenewing:
    """The same on an event loop."""

    def __init__(self, fetch: Callable[[], Awaitable[VendedCredentials]], margin: float = 60.0) -> None:
        self._fetch = fetch
        self._held = _Held(margin)
        self._lock = asyncio.Lock()

    async def current(self) -> VendedCredentials:
        """Keys that can be used now."""
        if (ready := self._held.ready()) is not None:
            return ready
        async with self._lock:
            if (ready := self._held.ready()) is not None:
                return ready
            try:
                return self._held.keep(await self._fetch())
            except _PASSING:
                if (old := self._held.bridge()) is not None:
                    return old
                raise
