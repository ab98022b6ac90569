"""Bearer tokens as they come: the header, and what a JWT claims before anything is checked."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

MAX_TOKEN_BYTES = 16 * 1024
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_PART = re.compile(r"[A-Za-z0-9_-]+")
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Rejected(Exception):
    """A token that proves nothing; the reason is for the log, and never holds the token itself."""


class NoToken(Exception):
    """The request carries no bearer token at all."""


def bearer_token(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The token of a request. Two Authorization headers are refused: proxies disagree on which counts."""
    found = [value for name, value in headers if name == b"authorization"]
    if not found:
        raise NoToken
    if len(found) > 1:
        raise Rejected("there is more than one Authorization header")
    scheme, _, token = found[0].strip().partition(b" ")
    if scheme.lower() != b"bearer":
        raise NoToken
    token = token.strip()
    if len(token) > MAX_TOKEN_BYTES:
        raise Rejected(f"it is longer than {MAX_TOKEN_BYTES} bytes")
    if not _TOKEN.fullmatch(token):
        raise Rejected("it is empty or has characters that no token has")
    return token


@dataclass(frozen=True, slots=True)
class Unverified:
    """What a JWT says of itself; only good for choosing the key that it is checked with."""

    algorithm: str
    key_id: str | None
    kind: str
    issuer: str


def unverified(token: str) -> Unverified:
    """Take a JWT apart, or Rejected."""
    parts = token.split(".")
    if len(parts) != 3:
        raise Rejected("it is not the static token and not a JWT")
    header, claims = _part(parts[0]), _part(parts[1])
    if "crit" in header:
        raise Rejected("its header names extensions that must be understood, and none is")
    algorithm, key_id = header.get("alg"), header.get("kid")
    kind, issuer = header.get("typ", ""), claims.get("iss")
    if not isinstance(algorithm, str) or not isinstance(issuer, str) or not isinstance(kind, str):
        raise Rejected("it has no algorithm or no issuer")
    if key_id is not None and not isinstance(key_id, str):
        raise Rejected("its key id is no text")
    return Unverified(algorithm, key_id, kind.lower(), issuer)


def _part(text: str) -> dict[str, Any]:
    if not _PART.fullmatch(text):
        raise Rejected("it is no JWT: a part is empty or not base64url")
    try:
        return _decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Rejected("it is no JWT: a part is not a JSON object") from None
