"""Credentials for Google Cloud Storage: the warehouse's token, narrowed to one prefix.

The narrowing is a Credential Access Boundary: the token exchange gives a token for it that can do what the
first one can and the boundary allows.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from frazil.catalog.clouds.google import EXCHANGE_SCOPE, google_tokens
from frazil.catalog.clouds.http import CloudClient
from frazil.catalog.clouds.tokens import Token, Tokens, parse_token
from frazil.catalog.storage import GcsProfile, GcsServiceAccountKey
from frazil.catalog.storage.credentials import GcsCredential
from frazil.catalog.storage.gcs import client_config, gcs_store
from frazil.catalog.vending.base import Access, Vended
from frazil.catalog.vending.gcs_trial import GcsTrial
from frazil.core.errors import InvalidInput

if TYPE_CHECKING:
    from obstore.store import GCSCredential as Bearer

EXCHANGE_URL = "https://sts.googleapis.com/v1/token"
_ROLES = {Access.READ: "roles/storage.objectViewer", Access.READ_WRITE: "roles/storage.objectUser"}
_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a name)
# What comes out of the exchange lives no longer than what goes in.
_LEAST_SECONDS = 3000


class GcsVendor:
    """Narrows the tokens of one warehouse's credential."""

    def __init__(
        self,
        profile: GcsProfile,
        credential: GcsCredential,
        *,
        tokens: Tokens | None = None,
        exchange_url: str = EXCHANGE_URL,
    ) -> None:
        self._profile = profile
        self._root = f"gs://{profile.bucket}/"
        self._project = credential.key.project_id if isinstance(credential, GcsServiceAccountKey) else None
        self._tokens = tokens or google_tokens(credential, EXCHANGE_SCOPE)
        self._exchange_url = exchange_url
        self._client = CloudClient(credential.secrets())

    async def vend(self, location: str, access: Access) -> Vended:
        if not location.startswith(self._root):
            raise InvalidInput(f"location: {location[:200]!a} is not below {self._root}")
        boundary = access_boundary(self._profile.bucket, location.removeprefix(self._root), access)
        token = await self._exchange(boundary)
        expires = str(int(token.expires_at) * 1000)
        config = {
            **client_config(self._profile),
            "gcs.oauth2.token": token.value,
            "gcs.oauth2.token-expires-at": expires,
            "expiration-time": expires,
        }
        if self._project is not None:
            config["gcs.project-id"] = self._project
        return Vended(location, config, int(expires))

    def trial(self, vended: Vended) -> GcsTrial:
        """The bucket as the holder of the token sees it."""
        token = vended.config["gcs.oauth2.token"]

        async def provide() -> Bearer:
            return {"token": token, "expires_at": None}

        return GcsTrial(gcs_store(self._profile, provide), self._root)

    async def close(self) -> None:
        await self._tokens.close()
        await self._client.close()

    async def _exchange(self, boundary: dict[str, Any]) -> Token:
        source = await self._tokens.token(_LEAST_SECONDS)
        now = time.time()
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "requested_token_type": _TOKEN_TYPE,
            "subject_token_type": _TOKEN_TYPE,
            "subject_token": source.value,
            # The service decodes it once more than a form is decoded.
            "options": quote(json.dumps(boundary, separators=(",", ":")), safe=""),
        }
        what = "downscoped token"
        answer = await self._client.send_json(
            what, "POST", self._exchange_url, form=form, secrets=(source.value,)
        )
        # The service leaves the lifetime out where it is that of the first token.
        answer.setdefault("expires_in", source.expires_at - now)
        token = parse_token(what, answer, now)
        return Token(token.value, min(token.expires_at, source.expires_at))


def access_boundary(bucket: str, prefix: str, access: Access) -> dict[str, Any]:
    """What a token may do: objects below `prefix`, and lists that ask for nothing outside it."""
    below = f"{prefix}/"
    tests = [
        f"resource.name.startsWith({_literal(f'projects/_/buckets/{bucket}/objects/{below}')})",
        f"resource.name.startsWith({_literal(f'projects/_/buckets/{bucket}/folders/{below}')})",
        f"api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith({_literal(below)})",
    ]
    rule = {
        "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
        "availablePermissions": [f"inRole:{_ROLES[access]}"],
        "availabilityCondition": {"title": "one table", "expression": " || ".join(tests)},
    }
    return {"accessBoundary": {"accessBoundaryRules": [rule]}}


def _literal(text: str) -> str:
    """A string of CEL; one that ended early would let the rest of a location rewrite the rule."""
    if not text.isprintable():
        raise InvalidInput(f"location: {text[:200]!a} holds a character that no access boundary can express")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
