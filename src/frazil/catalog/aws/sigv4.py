"""AWS Signature Version 4 in request headers.

The server signs every request of clients that use remote signing, so this is small and fast, and the
server needs no AWS SDK for it.

Path and query are signed in the one form that a store computes from what it received: decoded, then
encoded again. So a URL that is spelled unusually is signed as the store will read it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote, quote_from_bytes, unquote_to_bytes, urlsplit

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"

_ALGORITHM = "AWS4-HMAC-SHA256"
#: Proxies and HTTP libraries rewrite these on the way.
_NOT_SIGNED = frozenset(
    {"authorization", "connection", "expect", "transfer-encoding", "user-agent", "x-amzn-trace-id"}
)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNRESERVED = "-_.~"


@dataclass(frozen=True, slots=True)
class Keys:
    """What a request is signed with; a session has a token beside its key pair."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def payload_hash(body: bytes) -> str:
    """The hash of a body as the signature covers it."""
    return hashlib.sha256(body).hexdigest()


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body_hash: str,
    *,
    service: str,
    region: str,
    keys: Keys,
    now: datetime,
) -> dict[str, str]:
    """The headers, names in lower case, to add to a request so that it is signed.

    `headers` are those of the request that the signature must cover, several values of one name joined
    by a comma; `body_hash` is `payload_hash(body)` or UNSIGNED_PAYLOAD; `now` is in UTC.
    """
    parts = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": moment}
    if service == "s3":
        added["x-amz-content-sha256"] = body_hash
    if keys.session_token is not None:
        added["x-amz-security-token"] = keys.session_token
    covered = {name.lower().strip(): value for name, value in headers.items()}
    if "host" not in covered:
        port = parts.port
        default = port is None or port == _DEFAULT_PORTS.get(parts.scheme)
        covered["host"] = parts.netloc.rpartition("@")[2] if not default else _bare_host(parts.hostname or "")
    covered.update(added)
    names = sorted(covered.keys() - _NOT_SIGNED)
    lines = "".join([f"{name}:{' '.join(covered[name].split())}\n" for name in names])
    signed = ";".join(names)
    path = _s3_path(parts.path) if service == "s3" else _other_path(parts.path)
    canonical = f"{method}\n{path}\n{_query(parts.query)}\n{lines}\n{signed}\n{body_hash}"
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(keys.secret_access_key, scope)
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    added["authorization"] = (
        f"{_ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={signed}, Signature={signature}"
    )
    return added


@lru_cache(maxsize=256)
def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def _bare_host(hostname: str) -> str:
    return f"[{hostname}]" if ":" in hostname else hostname


def _s3_path(path: str) -> str:
    """S3 takes keys as they are: encoded once, dots and double slashes kept."""
    return quote_from_bytes(unquote_to_bytes(path), safe=f"/{_UNRESERVED}") or "/"


def _other_path(path: str) -> str:
    """Every other service: dot segments resolved, and the encoded path encoded once more."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if kept:
                kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    resolved = "/" + "/".join(kept)
    if kept and path.endswith("/"):
        resolved += "/"
    return quote(resolved, safe=f"/{_UNRESERVED}")


def _query(query: str) -> str:
    if not query:
        return ""
    pairs = []
    for pair in query.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            pairs.append((_encoded(name), _encoded(value)))
    pairs.sort()
    return "&".join([f"{name}={value}" for name, value in pairs])


def _encoded(text: str) -> str:
    # A plus in a query is a space to the stores.
    return quote_from_bytes(unquote_to_bytes(text.replace("+", " ")), safe=_UNRESERVED)
