"""The keys that an identity provider publishes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

#: Which algorithms a key may be used with, by its type and curve. None of them has a shared secret: a
#: public key can never be taken for one.
_ALGORITHMS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
ALGORITHMS = frozenset(name for names in _ALGORITHMS.values() for name in names)
_SMALLEST_RSA_BITS = 2048
_MOST_KEYS = 100


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures may be checked with, bound to each algorithm that it is meant for."""

    key_id: str | None
    bound: Mapping[str, jwt.PyJWK]


class KeySet:
    """The usable keys of a JWKS document; the others are left out."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        entries = document.get("keys")
        if not isinstance(entries, list):
            raise ValueError("the key document has no list of keys")
        self.entries = entries[:_MOST_KEYS]
        self._keys = [key for key in map(_public_key, self.entries) if key is not None]

    def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK | None:
        """The key of that id for that algorithm; a token without an id gets the only one that fits."""
        fitting = [key for key in self._keys if algorithm in key.bound and key_id in (None, key.key_id)]
        return fitting[0].bound[algorithm] if len(fitting) == 1 else None

    def __len__(self) -> int:
        return len(self._keys)


def _public_key(entry: object) -> PublicKey | None:
    if not isinstance(entry, dict):
        return None
    kind, curve, key_id = entry.get("kty"), entry.get("crv"), entry.get("kid")
    algorithms = _ALGORITHMS.get((kind, curve)) if isinstance(kind, str) else None
    if not algorithms or not (key_id is None or isinstance(key_id, str)) or not _for_signatures(entry):
        return None
    if "alg" in entry:
        algorithms = tuple(name for name in algorithms if name == entry["alg"])
    try:
        bound = {name: jwt.PyJWK(entry, name) for name in algorithms}
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return None if any(map(_weak, bound.values())) else PublicKey(key_id, bound)


def _weak(key: jwt.PyJWK) -> bool:
    return isinstance(key.key, RSAPublicKey) and key.key.key_size < _SMALLEST_RSA_BITS


def _for_signatures(entry: Mapping[str, Any]) -> bool:
    operations = entry.get("key_ops")
    return entry.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
