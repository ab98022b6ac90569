"""Credentials for Azure Data Lake Storage: a signature that opens one directory.

An application or a managed identity has Azure make a user delegation key and signs with that: the signature
may do no more than the identity. An account key signs by itself and may do everything.

Only accounts with a hierarchical namespace have directories; the others refuse these signatures.
"""

from __future__ import annotations

import asyncio
import time
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING

from frazil.catalog.clouds.azure import azure_tokens
from frazil.catalog.clouds.http import CloudClient
from frazil.catalog.storage import AdlsProfile, AzSharedAccessKey
from frazil.catalog.storage.adls import client_config
from frazil.catalog.storage.credentials import AzCredential
from frazil.catalog.vending.adls_trial import AdlsTrial
from frazil.catalog.vending.base import Access, Vended
from frazil.catalog.vending.sas import VERSION, DelegationKey, Resource, sas_token
from frazil.core.errors import InvalidInput, StorageError

if TYPE_CHECKING:
    from frazil.catalog.clouds.tokens import Tokens

# Read, add, create, write, delete, list and move: the file systems of Hadoop rename within a table.
_PERMISSIONS = {Access.READ: "rl", Access.READ_WRITE: "racwdlm"}
_KEY_FIELDS = (
    "SignedOid",
    "SignedTid",
    "SignedStart",
    "SignedExpiry",
    "SignedService",
    "SignedVersion",
    "Value",
)
_SKEW = timedelta(minutes=15)
_KEY_RESERVE = timedelta(hours=1)
_KEY_LIMIT = timedelta(days=7)


class DelegationKeys:
    """User delegation keys of one account, each used while it outlives what it signs."""

    def __init__(self, endpoint: str, tokens: Tokens, client: CloudClient | None = None) -> None:
        self._url = f"{endpoint}/?restype=service&comp=userdelegationkey"
        self._tokens = tokens
        self._client = client or CloudClient()
        self._held: DelegationKey | None = None
        self._asking = asyncio.Lock()
        self._until = datetime.min.replace(tzinfo=UTC)

    async def key(self, until: datetime) -> DelegationKey:
        """A key that is good until then."""
        async with self._asking:
            if self._held is None or self._until < until:
                now = datetime.now(UTC)
                expiry = min(until + _KEY_RESERVE, now.replace(microsecond=0) + _KEY_LIMIT)
                self._held, self._until = await self._ask(now - _SKEW, expiry), expiry
            return self._held

    async def close(self) -> None:
        await self._tokens.close()
        await self._client.close()

    async def _ask(self, start: datetime, expiry: datetime) -> DelegationKey:
        token = await self._tokens.token()
        headers = {
            "authorization": f"Bearer {token.value}",
            "x-ms-version": VERSION,
            "x-ms-date": format_datetime(datetime.now(UTC), usegmt=True),
            "content-type": "application/xml",
        }
        body = f"<KeyInfo><Start>{_time(start)}</Start><Expiry>{_time(expiry)}</Expiry></KeyInfo>".encode()
        answer = await self._client.send(
            "user delegation key", "POST", self._url, headers=headers, content=body, secrets=(token.value,)
        )
        return _delegation_key(answer)


class AdlsVendor:
    """Signs for the directories of one file system."""

    def __init__(
        self, profile: AdlsProfile, credential: AzCredential, keys: DelegationKeys | None = None
    ) -> None:
        self._profile = profile
        self._root = f"abfss://{profile.filesystem}@{profile.account_name}.{profile.host}/"
        self._keys: DelegationKeys | str
        if isinstance(credential, AzSharedAccessKey):
            self._keys = credential.key
        else:
            self._keys = keys or DelegationKeys(
                profile.blob_endpoint, azure_tokens(credential, profile.authority_host)
            )

    async def vend(self, location: str, access: Access) -> Vended:
        profile = self._profile
        if not location.startswith(self._root):
            raise InvalidInput(f"location: {location[:200]!a} is not below {self._root}")
        expiry = datetime.fromtimestamp(int(time.time()) + profile.sas_token_validity_seconds, UTC)
        key = self._keys if isinstance(self._keys, str) else await self._keys.key(expiry)
        # An emulator speaks no TLS; whatever does is not to be reached without.
        protocol = "https,http" if profile.blob_endpoint.startswith("http://") else "https"
        resource = Resource(profile.account_name, profile.filesystem, location.removeprefix(self._root))
        token = sas_token(resource, _PERMISSIONS[access], expiry, key, protocol)
        host = f"{profile.account_name}.{profile.host}"
        expires_at_ms = int(expiry.timestamp()) * 1000
        config = {
            **client_config(profile),
            f"adls.sas-token.{host}": token,
            f"adls.sas-token-expires-at-ms.{host}": str(expires_at_ms),
            # PyIceberg's reader on Arrow knows this name only.
            "adls.sas-token": token,
            "expiration-time": str(expires_at_ms),
        }
        return Vended(location, config, expires_at_ms)

    def trial(self, vended: Vended) -> AdlsTrial:
        """The file system as the holder of the signature sees it."""
        return AdlsTrial(self._profile, vended.config["adls.sas-token"])

    async def close(self) -> None:
        if not isinstance(self._keys, str):
            await self._keys.close()


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _delegation_key(answer: bytes) -> DelegationKey:
    """XML without document types and entities: those are only ever an attack here."""
    text = answer.decode("utf-8-sig", "replace")
    try:
        root = ET.fromstring(text) if "<!" not in text else None  # noqa: S314 (nothing that expands)
    except ET.ParseError:
        root = None
    fields = [(root.findtext(name) or "") if root is not None else "" for name in _KEY_FIELDS]
    if not all(field and field.isascii() and field.isprintable() for field in fields):
        raise StorageError("user delegation key: the answer has no key", kind="CredentialsNotVended")
    return DelegationKey(*fields)
