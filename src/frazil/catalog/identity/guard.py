"""Decides who is asking: the one door that every request but the public ones goes through."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Iterable, Sequence

from frazil.catalog.identity.bearer import NoToken, Rejected, Unverified, bearer_token, unverified
from frazil.catalog.identity.cache import TokenCache
from frazil.catalog.identity.clients import Clients
from frazil.catalog.identity.oidc import Provider
from frazil.catalog.identity.principal import ANONYMOUS, BOOTSTRAP, Principal, client_principal
from frazil.core.errors import FrazilError, Unauthenticated

#: How long a deleted client or an old secret may still be honoured.
CLIENT_SECONDS = 5.0
#: How long a token of an identity provider is not checked again.
_PROVIDER_SECONDS = 300.0
#: How soon a server that asks nobody notices that its first client was made.
WATCH_SECONDS = 2.0
_MISSING = (
    "this server wants to know who is asking: send an access token as 'Authorization: Bearer …'; a client "
    "gets one for its name and secret at /catalog/v1/oauth/tokens"
)
#: The same for every token, so that nobody learns from it how to make a better one.
_INVALID = "the access token is not valid here, or not any more: get a new one"

_log = logging.getLogger(__name__)


class Guard:
    """Checks bearer tokens; while no way to log in is set up, everybody is anonymous."""

    def __init__(
        self, clients: Clients, *, providers: Sequence[Provider] = (), bootstrap_token: str | None = None
    ) -> None:
        self.clients = clients
        self.providers = tuple(providers)
        self._bootstrap = _digest(bootstrap_token.encode()) if bootstrap_token else None
        self._cache = TokenCache()
        #: Whether anybody is asked at all. Once true it stays so while the server runs.
        self.on = self._bootstrap is not None or bool(self.providers)
        for provider in self.providers:
            provider.on_new_keys(self._cache.clear)

    @property
    def ways(self) -> list[str]:
        """The ways to prove who one is; none: everybody is anonymous."""
        if not self.on:
            return []
        found = [*(provider.name for provider in self.providers), "client"]
        return found if self._bootstrap is None else [*found, "bootstrap-token"]

    async def principal(self, headers: Iterable[tuple[bytes, bytes]], request_id: str) -> Principal:
        """Who sent these headers, or Unauthenticated; Unavailable if that cannot be found out."""
        if not self.on:
            return ANONYMOUS
        try:
            token = bearer_token(headers)
            return self._cache.get(token) or await self._checked(token)
        except NoToken:
            raise Unauthenticated(_MISSING) from None
        except Rejected as reason:
            _log.info("request %s: its token was refused: %s", request_id, reason)
            raise Unauthenticated(_INVALID, code="invalid_token") from None

    async def _checked(self, token: bytes) -> Principal:
        if self._bootstrap is not None and hmac.compare_digest(_digest(token), self._bootstrap):
            return BOOTSTRAP
        text = token.decode("ascii")
        said = unverified(text)
        if said.issuer == self.clients.tokens.issuer:
            ours = await self.clients.verify(text, said)
            principal, expires_at, seconds = client_principal(ours.client_id), ours.expires_at, CLIENT_SECONDS
        else:
            principal, expires_at = await self._provider(said).verify(text, said)
            seconds = _PROVIDER_SECONDS
        self._cache.put(token, principal, min(expires_at, time.time() + seconds))
        return principal

    def _provider(self, said: Unverified) -> Provider:
        for provider in self.providers:
            if provider.may_issue(said.issuer):
                return provider
        raise Rejected(f"its issuer {said.issuer[:200]!r} is not one that this server knows")

    async def look_for_clients(self) -> None:
        """Turn authentication on if there are clients."""
        if not self.on and await self.clients.exist():
            self.on = True
            _log.info("there are clients: from now on every request needs an access token")

    async def watch(self) -> None:
        """Say early what is wrong with a provider; return once authentication is on."""
        for provider in self.providers:
            await provider.warm_up()
        while not self.on:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                await self.look_for_clients()
            except FrazilError as error:
                _log.warning("cannot see whether there are clients: %s", error.message)

    async def close(self) -> None:
        self.clients.close()
        for provider in self.providers:
            await provider.close()


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
