"""Judges a request that a client wants signed: the signature must not reach beyond the table."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from frazil.catalog.aws import payload_hash
from frazil.catalog.signing.address import Address, Place, parse_url
from frazil.catalog.signing.bulk import deleted_keys
from frazil.catalog.signing.headers import CONTENT_HASH, checked_headers, payload
from frazil.catalog.signing.operations import Operation, operation
from frazil.catalog.signing.reach import Reach, shown
from frazil.core.errors import NotAllowed


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request to sign, understood but not yet judged."""

    operation: Operation
    address: Address
    headers: Mapping[str, Sequence[str]]
    #: Of DeleteObjects, whose body says what it does.
    body: bytes
    #: All keys and list prefixes that it touches, except for a copy's source; never empty.
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Allowed:
    """A request that may be signed, in the spelling that is signed."""

    method: str
    url: str
    headers: dict[str, str]
    body_hash: str
    #: Harmless with this very body only.
    bound: bool = False


def understood(
    method: str, url: str, headers: Mapping[str, Sequence[str]], body: str | None, known: tuple[Place, ...]
) -> Wanted:
    """What a request does, or NotAllowed."""
    address = parse_url(url, known)
    what = operation(method, address)
    _check_host(headers, address)
    _check_ids(address)
    content = b""
    keys: Sequence[str] = [address.key]
    if what.name == "DeleteObjects":
        if not body:
            raise NotAllowed(
                "body: DeleteObjects is signed only with its body, which says what it deletes; a client that "
                "does not send it (PyIceberg) can delete objects one by one, or leave deleting to the server"
            )
        content = body.encode()
        keys = deleted_keys(content)
    elif what.on_bucket:
        keys = [address.query.get("prefix") or ""]
        if what.name == "ListObjectsV2" and address.query["list-type"] != "2":
            raise NotAllowed("uri: list-type must be 2")
    return Wanted(what, address, headers, content, tuple(keys))


def allowed(wanted: Wanted, reach: Reach) -> Allowed:
    """The request as it is to be signed, or NotAllowed when it reaches beyond `reach`."""
    what = wanted.operation
    if what.write and not reach.write:
        raise NotAllowed(f"{what.name} is not signed: this access is read-only")
    for key in wanted.keys:
        reach.check(key, "the prefix" if what.name.startswith("ListObjects") else "the key")
    headers = checked_headers(wanted.headers, what, reach)
    body_hash = payload(headers, what)
    if wanted.body:
        body_hash = _bound(wanted.body, headers)
    return Allowed(what.method, wanted.address.url, headers, body_hash, bound=bool(wanted.body))


def _bound(body: bytes, headers: Mapping[str, str]) -> str:
    """The hash by which the signature holds for this body and no other."""
    digest = payload_hash(body)
    given = headers.get(CONTENT_HASH, digest)
    if not hmac.compare_digest(given, digest):
        raise NotAllowed(f"headers: {CONTENT_HASH} must be the SHA-256 of the body of DeleteObjects")
    md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    if headers.get("content-md5", md5) != md5:
        raise NotAllowed("headers: content-md5 is not that of the body")
    return digest


def _check_ids(address: Address) -> None:
    """No store has a slash in them, and one that makes a path of them would be led out of the table."""
    for name in ("uploadId", "versionId"):
        value = address.query.get(name) or ""
        if "/" in value or "\\" in value:
            raise NotAllowed(f"uri: {name} {shown(value)} has a slash")


def _check_host(headers: Mapping[str, Sequence[str]], address: Address) -> None:
    """The signature covers the URL's host; another Host header would only make a request that fails."""
    host = address.place.origin.partition("://")[2]
    for name, values in headers.items():
        if name.lower() == "host" and [value.lower() for value in values] != [host]:
            raise NotAllowed(f"headers: Host must be the URL's, {host}")
