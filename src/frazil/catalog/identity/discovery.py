"""Fetches what an OpenID provider publishes about itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from frazil.catalog.identity.jwks import KeySet
from frazil.core.addresses import is_loopback

if TYPE_CHECKING:
    import httpx

_MOST_BYTES = 1024 * 1024
_SECONDS = 10.0
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Unreachable(Exception):
    """The documents could not be had, or cannot be meant; the text says why."""


@dataclass(frozen=True, slots=True)
class Published:
    #: Exactly as tokens must name it.
    issuer: str
    keys: KeySet


async def published(http: httpx.AsyncClient, uri: str) -> Published:
    """Issuer and keys of the provider at `uri`, or Unreachable."""
    address = uri.rstrip("/") + "/.well-known/openid-configuration"
    try:
        async with asyncio.timeout(_SECONDS):
            about = await _document(http, address)
            issuer, keys_at = about.get("issuer"), about.get("jwks_uri")
            # OpenID Connect Discovery 4.3: otherwise one provider could speak for another.
            if not isinstance(issuer, str) or issuer.rstrip("/") != uri.rstrip("/"):
                raise Unreachable(f"{address} describes another issuer: {str(issuer)[:200]!r}")
            if not isinstance(keys_at, str) or not trustworthy(keys_at):
                raise Unreachable(f"the jwks_uri in {address} is not an https address")
            return Published(issuer, KeySet(await _document(http, keys_at)))
    except TimeoutError:
        raise Unreachable(f"{address} and the keys did not arrive within {_SECONDS:g} s") from None
    except ValueError as error:
        raise Unreachable(f"the keys of {uri} cannot be read: {error}") from None


async def _document(http: httpx.AsyncClient, address: str) -> dict[str, Any]:
    """A JSON object of bounded size; redirects are not followed."""
    import httpx

    body = bytearray()
    try:
        async with http.stream("GET", address) as response:
            if response.status_code != 200:
                raise Unreachable(f"{address} answered with status {response.status_code}")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise Unreachable(f"{address} has more than {_MOST_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise Unreachable(f"{address} cannot be fetched: {type(error).__name__}: {error}") from None
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Unreachable(f"{address} is not a JSON object") from None


def trustworthy(address: str) -> bool:
    """Whether keys may be fetched there: over https, or from this machine."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return False
    if not host or parts.username or parts.fragment:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
