"""HTTP requests of the server itself: to STS, to token services, to identity providers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

import httpx

from frazil.core.addresses import is_loopback


def http_client(
    url: str,
    *,
    timeout: httpx.Timeout | float,
    headers: Mapping[str, str] | None = None,
    context: ssl.SSLContext | None = None,
) -> httpx.AsyncClient:
    """A client for requests to `url`. Redirects are not followed.

    The proxy of the environment is for what is beyond this machine and its network: an address without
    TLS is in that network, or is one that only this machine knows.
    """
    parts = urlsplit(url)
    outside = parts.scheme == "https" and not is_loopback(parts.hostname or "")
    return httpx.AsyncClient(timeout=timeout, headers=headers, verify=context or _tls(), trust_env=outside)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Reading the list of authorities takes long; one copy does for all."""
    return httpx.create_ssl_context()
