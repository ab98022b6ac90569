"""Identity providers that speak OpenID Connect: their tokens, checked with their published keys."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt

from frazil.catalog.identity.bearer import Rejected, Unverified
from frazil.catalog.identity.discovery import Published, Unreachable, published
from frazil.catalog.identity.jwks import ALGORITHMS
from frazil.catalog.identity.principal import Principal, UserType
from frazil.core.errors import Unavailable

if TYPE_CHECKING:
    import httpx

#: Keys are fetched at most this often, however many tokens name a key that is not there.
_BETWEEN_FETCHES = 10.0
#: Keys are fetched again after this, so that one that was withdrawn is not honoured for long.
_FRESH = 600.0
#: A provider that cannot be reached is taken at its last word for this long.
_TRUSTED = 3600.0
_LONGEST_SUBJECT = 256

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider as it is configured."""

    name: str
    uri: str
    additional_issuers: frozenset[str] = frozenset()
    #: One of them must be in the token's `aud`; none: `aud` is not looked at.
    audiences: tuple[str, ...] = ()
    #: The first claim that is there says who the caller is.
    subject_claims: tuple[str, ...] = ("oid", "sub")
    leeway: int = 60


class Provider:
    """One identity provider."""

    def __init__(self, settings: ProviderSettings, http: httpx.AsyncClient | None = None) -> None:
        self.settings = settings
        self.name = settings.name
        self._http = http or _http_client(settings.uri)
        self._published: Published | None = None
        self._fetched_at = self._tried_at = float("-inf")
        self._reached = False
        self._fetching = asyncio.Lock()
        self._on_new_keys: Callable[[], None] = lambda: None

    def on_new_keys(self, call: Callable[[], None]) -> None:
        """Call this whenever the published keys are others than before."""
        self._on_new_keys = call

    def may_issue(self, issuer: str) -> bool:
        """Whether a token that claims this issuer is this provider's to check; which settles nothing else."""
        return (
            issuer.rstrip("/") == self.settings.uri.rstrip("/") or issuer in self.settings.additional_issuers
        )

    async def verify(self, token: str, said: Unverified) -> tuple[Principal, float]:
        """Who the token stands for and when it ends; Rejected, or Unavailable without the keys."""
        if said.algorithm not in ALGORITHMS:
            raise Rejected("its algorithm is not one of those that are allowed")
        key, issuer = await self._key(said)
        issuers = [issuer, *self.settings.additional_issuers]
        if said.issuer not in issuers:
            raise Rejected("its issuer differs from the one that the provider names")
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[said.algorithm],
                issuer=issuers,
                audience=self.settings.audiences or None,
                leeway=self.settings.leeway,
                options={
                    "require": ["exp", "iss"] + ["aud"] * bool(self.settings.audiences),
                    "verify_aud": bool(self.settings.audiences),
                },
            )
        except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError) as error:
            raise Rejected(f"it is not valid ({type(error).__name__})") from None
        return _principal(self.name, claims, self.settings.subject_claims), float(claims["exp"])

    async def warm_up(self) -> None:
        """Fetch the keys before the first token needs them; a failure is only logged."""
        await self._fetch()

    async def close(self) -> None:
        await self._http.aclose()

    async def _key(self, said: Unverified) -> tuple[jwt.PyJWK, str]:
        age = time.monotonic() - self._fetched_at
        # While keys are fetched, those that are held serve everybody but the one who noticed.
        if age > _TRUSTED or (age > _FRESH and not self._fetching.locked()):
            await self._fetch()
        key = self._held(said)
        if key is None:
            await self._fetch()
            key = self._held(said)
        if key is None:
            if not self._reached:
                raise Unavailable(f"the keys of the identity provider {self.name} cannot be had; try again")
            key_id = (said.key_id or "")[:80]
            raise Rejected(f"the provider publishes no key {key_id!r} for {said.algorithm}")
        assert self._published is not None
        return key, self._published.issuer

    def _held(self, said: Unverified) -> jwt.PyJWK | None:
        if self._published is None or time.monotonic() - self._fetched_at > _TRUSTED:
            return None
        return self._published.keys.find(said.key_id, said.algorithm)

    async def _fetch(self) -> None:
        async with self._fetching:
            if time.monotonic() - self._tried_at < _BETWEEN_FETCHES:
                return
            try:
                found = await published(self._http, self.settings.uri)
            except Unreachable as error:
                self._reached = False
                _log.warning("identity provider %s: %s", self.name, error)
            else:
                before, self._published = self._published, found
                self._fetched_at = time.monotonic()
                self._reached = True
                if before is not None and before.keys.entries != found.keys.entries:
                    _log.info("identity provider %s: it has other keys now", self.name)
                    self._on_new_keys()
            finally:
                self._tried_at = time.monotonic()


def _http_client(uri: str) -> httpx.AsyncClient:
    # Imported late: a server without providers never loads an HTTP client.
    from frazil.catalog.outgoing import http_client

    return http_client(uri, timeout=5, headers={"accept": "application/json"})


def _principal(provider: str, claims: Mapping[str, Any], subject_claims: Sequence[str]) -> Principal:
    subject = next((claims[name] for name in subject_claims if name in claims), None)
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise Rejected(f"it has no usable {' or '.join(subject_claims)}")
    names = (_text(claims, claim) for claim in ("name", "preferred_username", "client_id"))
    name = next((found for found in names if found), subject)
    return Principal(provider, subject, name=name, email=_text(claims, "email"), user_type=_user_type(claims))


def _text(claims: Mapping[str, Any], name: str) -> str | None:
    value = claims.get(name)
    return value[:_LONGEST_SUBJECT] if isinstance(value, str) and value else None


def _user_type(claims: Mapping[str, Any]) -> UserType:
    """Programs as Keycloak, Entra and Auth0 mark them."""
    program = (
        str(claims.get("preferred_username", "")).startswith("service-account-")
        or claims.get("idtyp") == "app"
        or claims.get("gty") == "client-credentials"
    )
    return "application" if program else "human"
