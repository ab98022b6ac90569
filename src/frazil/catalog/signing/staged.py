"""Signing for a table that does not exist yet.

An engine that creates a table together with its rows writes the files first, and only the commit makes
the table. Until then no row says where it lies; the server's own sealed word, handed out with the staged
table, does.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from frazil.catalog.secrets import SecretBox
from frazil.core.errors import InvalidConfig, NotAllowed, Unavailable

#: Longer than any session of vended keys: nothing renews it.
_LIFETIME_MS = 24 * 3600 * 1000


class _Staged(msgspec.Struct, frozen=True, array_like=True):
    location: str
    expires_at: int


def seal(secrets: SecretBox, warehouse_id: str, location: str, now_ms: int) -> str:
    """The server's word that a table was staged at `location`."""
    plain = msgspec.json.encode(_Staged(location, now_ms + _LIFETIME_MS))
    return base64.urlsafe_b64encode(secrets.seal(plain, _context(warehouse_id))).decode().rstrip("=")


def unseal(secrets: SecretBox, warehouse_id: str, token: str, now_ms: int) -> str:
    """The location that `seal` was given, or NotAllowed."""
    try:
        sealed = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
        staged = msgspec.json.decode(secrets.open(sealed, _context(warehouse_id)), type=_Staged)
    except (binascii.Error, ValueError, InvalidConfig, Unavailable):
        raise NotAllowed("this staged table is not of this server; create it again") from None
    if staged.expires_at < now_ms:
        raise NotAllowed("this table was staged too long ago; create it again")
    return staged.location


def _context(warehouse_id: str) -> bytes:
    return f"staged in {warehouse_id}".encode()
