"""The URL of a request to an S3 store, taken apart strictly.

What is signed is never the caller's spelling but the one URL that is made of the parts understood here.
So a store cannot read something else in it than was judged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

from frazil.catalog.aws import partition_of
from frazil.catalog.signing.reach import shown
from frazil.catalog.storage import S3Profile
from frazil.core.errors import NotAllowed

# Every client percent-encodes what is not listed here. A raw plus is a space to some readers, a raw
# semicolon begins a parameter to others.
_URL = re.compile(
    r"(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
    r"(/[A-Za-z0-9._~!*'()=:@,$&%/-]*)?(?:\?([A-Za-z0-9._~!*'()=:@,$&%/-]*))?"
)
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SLASH = re.compile(r"%2f", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][A-Za-z-]*")
_URL_LIMIT = 8192
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """One way in which a bucket is addressed."""

    #: Scheme, host and port unless it is the scheme's own, in lower case.
    origin: str
    #: What comes before the key: the endpoint's own path and, in path style, the bucket.
    path: str
    path_style: bool


@dataclass(frozen=True, slots=True)
class Address:
    """What a URL means: an object, or with an empty `key` the bucket itself."""

    place: Place
    key: str
    #: Decoded; None for a parameter without "=".
    query: Mapping[str, str | None]

    @property
    def url(self) -> str:
        """The one spelling of this address."""
        pairs = [
            name if value is None else f"{name}={quote(value, safe='')}" for name, value in self.query.items()
        ]
        path = f"{self.place.path}/{quote(self.key, safe='/')}"
        if not self.key and self.place.path:
            path = self.place.path
        return f"{self.place.origin}{path}{'?' if pairs else ''}{'&'.join(pairs)}"


def places(profile: S3Profile) -> tuple[Place, ...]:
    """Every way in which clients may address the bucket of a warehouse."""
    if profile.endpoint:
        endpoints = [profile.endpoint]
    else:
        domain = partition_of(profile.region).domain
        names = [f"s3.{profile.region}", f"s3.dualstack.{profile.region}"]
        if profile.region == "us-east-1":
            names.append("s3")
        endpoints = [f"https://{name}.{domain}" for name in names]
    found = []
    for endpoint in endpoints:
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        base = parts.path.rstrip("/")
        if profile.remote_signing_url_style != "virtual_host":
            found.append(Place(_origin(parts.scheme, host, parts.port), f"{base}/{profile.bucket}", True))
        if profile.remote_signing_url_style != "path":
            virtual = f"{profile.bucket}.{host}"
            found.append(Place(_origin(parts.scheme, virtual, parts.port), base, False))
    return tuple(found)


def parse_url(url: str, known: tuple[Place, ...]) -> Address:
    """What `url` means, or NotAllowed when it is not one of this bucket or has no single meaning."""
    match = _URL.fullmatch(url) if len(url) <= _URL_LIMIT else None
    if match is None:
        raise NotAllowed(
            f"uri: {shown(url)} is not a plain http(s) URL: no user, no fragment, at most {_URL_LIMIT} "
            "characters, everything special percent-encoded"
        )
    scheme, host, port, path, query = match.groups()
    origin = _origin(scheme, host.lower(), int(port) if port else None)
    path = path or ""
    if _BROKEN_ESCAPE.search(path) or _BROKEN_ESCAPE.search(query or ""):
        raise NotAllowed(f"uri: {shown(url)} has a '%' that two hex digits do not follow")
    for place in known:
        if origin == place.origin and (path == place.path or path.startswith(f"{place.path}/")):
            return Address(place, _key(path[len(place.path) + 1 :]), _query(query))
    legal = " or ".join(f"{place.origin}{place.path}/" for place in known)
    raise NotAllowed(f"uri: {shown(url)} is not of this warehouse's bucket, which is at {legal}")


def decoded(text: str, what: str) -> str:
    """`text` percent-decoded once, which must give UTF-8."""
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise NotAllowed(f"{what} {shown(text)} is not percent-encoded UTF-8") from None


def _key(raw: str) -> str:
    if _ENCODED_SLASH.search(raw):
        raise NotAllowed(f"uri: the key {shown(raw)} has an encoded slash")
    return decoded(raw, "uri: the key")


def _query(raw: str | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for pair in raw.split("&") if raw else ():
        name, equals, value = pair.partition("=")
        if not _NAME.fullmatch(name) or name in found:
            raise NotAllowed(f"uri: the query parameter {shown(name)} is given twice or not legal")
        found[name] = decoded(value, f"uri: the query parameter {name}") if equals else None
    return found


def _origin(scheme: str, host: str, port: int | None) -> str:
    return f"{scheme}://{host}" if port in (None, _PORTS[scheme]) else f"{scheme}://{host}:{port}"
