"""Keys for jobs that outlive them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic

from frazil.client.credentials import VendedCredentials
from frazil.core.errors import FrazilError, Outcome

#: Seconds for which a server that failed is not asked again, while there are keys that work.
_PAUSE = 5.0


class _Held:
    """The newest keys and the moment from which others are wanted."""

    def __init__(self, margin: float) -> None:
        self._margin = margin
        self._held: tuple[VendedCredentials, float] | None = None

    def ready(self) -> VendedCredentials | None:
        held = self._held
        if held is None or monotonic() >= held[1]:
            return None
        # That clock stands still while a machine sleeps.
        return None if held[0].expires_soon(0.0) else held[0]

    def keep(self, credentials: VendedCredentials) -> VendedCredentials:
        """A server may give keys from its cache again: they are kept for half of what they have left."""
        renew_in = float("inf")
        if credentials.expires_at is not None:
            left = (credentials.expires_at - datetime.now(UTC)).total_seconds()
            renew_in = max(left - self._margin, left / 2)
        self._held = (credentials, monotonic() + renew_in)
        return credentials

    def bridge(self, error: FrazilError) -> VendedCredentials:
        """The old keys, if the failure may pass and as long as they open anything."""
        held = self._held
        if held is None or error.outcome is Outcome.FATAL or held[0].expires_soon(0.0):
            raise error
        self._held = (held[0], monotonic() + _PAUSE)
        return held[0]


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
            except FrazilError as error:
                return self._held.bridge(error)


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
            except FrazilError as error:
                return self._held.bridge(error)
