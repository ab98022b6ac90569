"""Addresses of servers, as people give them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from frazil.core.errors import InvalidConfig

DEFAULT_URI = "http://localhost:8181"

#: People paste the address that they give to Spark, or one that `frazil serve` prints.
_API = re.compile(r"(/(catalog|management|lakekeeper))?(/v1)?/*$")


def server_uri(given: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The address of the server: as given, else `LAKEKEEPER` or `FRAZIL_URI`, else the usual one."""
    text = given or environment.get("LAKEKEEPER") or environment.get("FRAZIL_URI") or DEFAULT_URI
    check_url(text, "the server's URI", "the address of a server, such as http://localhost:8181")
    parts = urlsplit(text)
    if parts.query or parts.fragment:
        raise InvalidConfig("the server's URI has a query or fragment; give the address alone")
    return _API.sub("", text.rstrip("/"))


def check_url(text: str, what: str, legal: str) -> None:
    """Refuse what is no URL of http. One with a password in it is not repeated."""
    try:
        parts = urlsplit(text)
        _ = parts.port
        if parts.username is not None or parts.password is not None:
            raise InvalidConfig(f"{what} has a user or password in it; legal is {legal}, without them")
        # What the HTTP library or the resolver would stumble over.
        httpx.URL(text).raw_host.decode().encode("idna")
    except (ValueError, httpx.InvalidURL):
        raise InvalidConfig(f"{what} is not legal. Legal: {legal}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", parts.netloc):
        raise InvalidConfig(f"{what}: {text!r} is not legal. Legal: {legal}")
