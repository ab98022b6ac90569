"""Who the server is to Google: a warehouse's service account, or the identity of the machine."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from urllib.parse import urlencode

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from frazil.catalog.clouds.http import CloudClient
from frazil.catalog.clouds.tokens import Token, Tokens, parse_token
from frazil.catalog.storage.credentials import GcsCredential, GcsServiceAccountKey, GcsServiceKey
from frazil.core.errors import InvalidConfig, InvalidInput

#: Reads and writes objects.
OBJECTS_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
#: What the token exchange asks of a token that it narrows.
EXCHANGE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 (an address)
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_METADATA = "computeMetadata/v1/instance/service-accounts/default/token"
_LIFETIME_SECONDS = 3600


class ServiceAccountTokens(Tokens):
    """Tokens for a statement that the account's own key signed."""

    def __init__(self, key: GcsServiceKey, scope: str, *, url: str = TOKEN_URL) -> None:
        super().__init__(CloudClient((key.private_key, key.private_key_id)))
        self._key = key
        self._scope = scope
        self._url = url
        self._private_key = _private_key(key.private_key)

    async def _ask(self) -> Token:
        now = time.time()
        claims = {
            "iss": self._key.client_email,
            "scope": self._scope,
            "aud": TOKEN_URL,
            "iat": int(now),
            "exp": int(now) + _LIFETIME_SECONDS,
        }
        assertion = jwt.encode(
            claims, self._private_key, algorithm="RS256", headers={"kid": self._key.private_key_id}
        )
        what = f"token for {self._key.client_email}"
        form = {"grant_type": _GRANT, "assertion": assertion}
        answer = await self._client.send_json(what, "POST", self._url, form=form, secrets=(assertion,))
        return parse_token(what, answer, now)


class MetadataTokens(Tokens):
    """Tokens of the service account that Google runs this machine as."""

    def __init__(self, scope: str) -> None:
        super().__init__(CloudClient())
        # The name that Google's own libraries give the variable.
        host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
        self._url = f"http://{host}/{_METADATA}?{urlencode({'scopes': scope})}"

    async def _ask(self) -> Token:
        now = time.time()
        what = "token for the identity of this machine"
        headers = {"Metadata-Flavor": "Google"}
        return parse_token(what, await self._client.send_json(what, "GET", self._url, headers=headers), now)


def google_tokens(credential: GcsCredential, scope: str) -> Tokens:
    """The tokens of a stored credential."""
    if isinstance(credential, GcsServiceAccountKey):
        return ServiceAccountTokens(credential.key, scope)
    path = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    return ServiceAccountTokens(_key_file(path), scope) if path else MetadataTokens(scope)


def _key_file(path: str) -> GcsServiceKey:
    try:
        return msgspec.convert(json.loads(Path(path).read_bytes()), GcsServiceKey)
    except (OSError, ValueError, InvalidInput):
        raise InvalidConfig(
            f"GOOGLE_APPLICATION_CREDENTIALS: {path!r} is not the key file of a service account; without it "
            "the identity of the machine is used"
        ) from None


def _private_key(pem: str) -> RSAPrivateKey:
    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise InvalidInput(
            "storage-credential.key.private_key: must be an RSA key in PEM form, not encrypted"
        )
    return key
