"""Vended credentials that are still good, so that most loads ask no cloud.

An entry is handed out while it has a decent life left and is renewed in the background before that ends.
However many callers want one credential, it is asked for once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict

from frazil.catalog.vending.base import Access, Vended, Vendor
from frazil.core.errors import FrazilError, StorageError

Key = tuple[str, int, str, Access]

#: Iceberg's clients renew what has 5 minutes left; what they are given must have more, or they would
#: come back at once.
_MARGIN_SECONDS = 600.0
_RETRY_SECONDS = 15.0
_CAPACITY = 2048

_log = logging.getLogger(__name__)


class Held:
    """A credential with what was made of it, and how long it may be handed out.

    Both clocks must agree: the wall clock may be set back, and the other one stops while a machine sleeps.
    """

    __slots__ = ("_until", "_until_ms", "rendered", "renew_at", "serial", "vended")

    def __init__(self, vended: Vended, started: float, started_ms: int) -> None:
        """`started` is when the credential was asked for, by the monotonic clock and the wall clock."""
        self.vended = vended
        #: Tells this credential apart from any other of the same place.
        self.serial = secrets.token_hex(8)
        #: JSON by the endpoint at which the credential is renewed.
        self.rendered: dict[str | None, tuple[bytes, bytes]] = {}
        lifetime = max(0.0, (vended.expires_at_ms - started_ms) / 1000)
        margin = min(_MARGIN_SECONDS, lifetime / 2)
        self._until = started + lifetime - margin
        self._until_ms = vended.expires_at_ms - round(margin * 1000)
        self.renew_at = self._until - margin / 4

    def fresh(self, now: float) -> bool:
        return now < self._until and time.time() * 1000 < self._until_ms


class VendedCache:
    """The credentials used last."""

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self._held: OrderedDict[Key, Held] = OrderedDict()
        self._flights: dict[Key, asyncio.Task[Held]] = {}

    async def get(self, key: Key, vendor: Vendor) -> Held:
        """The credential of `key`: (warehouse id, version of its row, location, access)."""
        held = self._held.get(key)
        now = time.monotonic()
        if held is not None and held.fresh(now):
            self._held.move_to_end(key)
            if now >= held.renew_at:
                # If it fails there is time to try again, but not with every request.
                held.renew_at = now + _RETRY_SECONDS
                self._fly(key, vendor)
            return held
        # Shielded: a caller that goes away does not take the credential from the others.
        try:
            return await asyncio.shield(self._fly(key, vendor))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise StorageError("the server is stopping", kind="CredentialsNotVended") from None

    async def close(self) -> None:
        for flight in list(self._flights.values()):
            flight.cancel()
        await asyncio.gather(*self._flights.values(), return_exceptions=True)
        self._held.clear()

    def _fly(self, key: Key, vendor: Vendor) -> asyncio.Task[Held]:
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(self._vend(key, vendor))
            flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    async def _vend(self, key: Key, vendor: Vendor) -> Held:
        started, started_ms = time.monotonic(), time.time_ns() // 1_000_000
        _, _, location, access = key
        held = Held(await vendor.vend(location, access), started, started_ms)
        self._held[key] = held
        self._held.move_to_end(key)
        while len(self._held) > self._capacity:
            self._held.popitem(last=False)
        return held

    def _landed(self, key: Key, flight: asyncio.Task[Held]) -> None:
        del self._flights[key]
        if flight.cancelled():
            return
        # Asked for here, or a failure that nobody waited for would be reported as forgotten.
        error = flight.exception()
        if isinstance(error, FrazilError):
            _log.warning("no credential for %s: %s", key[2], error.message)
        elif error is not None:
            _log.error("no credential for %s", key[2], exc_info=error)
