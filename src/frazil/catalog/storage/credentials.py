"""Storage credentials: Lakekeeper's JSON in, a secret that never prints out."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from frazil.catalog.storage.parsing import convert, require_object
from frazil.core.errors import InvalidInput

_FIELD = "storage-credential"
_ALIASES = {"aws-access-key-id": "access-key-id", "aws-secret-access-key": "secret-access-key"}
_LIMIT = 1024
_KEY_LIMIT = 16 * 1024
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,127}")
# The server posts there. New keys name the first; the others are in keys of earlier years.
_GOOGLE_TOKEN_URIS = (
    "https://oauth2.googleapis.com/token",
    "https://accounts.google.com/o/oauth2/token",
    "https://www.googleapis.com/oauth2/v4/token",
)


def _check_token(field: str, value: str) -> None:
    """Keys travel in HTTP headers; the message must not repeat the value."""
    if not value or len(value) > _LIMIT or not value.isascii() or not value.isprintable() or " " in value:
        raise InvalidInput(f"{_FIELD}.{field}: must be 1 to {_LIMIT} printable ASCII characters, no spaces")


class S3AccessKey(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="credential-type", tag="access-key"
):
    """A static key pair."""

    access_key_id: str
    secret_access_key: str
    external_id: str | None = None
    type: Literal["s3"] = "s3"

    def __post_init__(self) -> None:
        _check_token("access-key-id", self.access_key_id)
        _check_token("secret-access-key", self.secret_access_key)

    def __repr__(self) -> str:
        return "S3AccessKey(***)"

    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return tuple(s for s in (self.secret_access_key, self.access_key_id, self.external_id) if s)


class S3SystemIdentity(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="aws-system-identity",
):
    """Whatever AWS identity the server process itself has."""

    external_id: str | None = None
    type: Literal["s3"] = "s3"

    def __repr__(self) -> str:
        return "S3SystemIdentity(***)"

    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return (self.external_id,) if self.external_id else ()


class GcsServiceKey(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON key of a service account as Google hands it out; what is not needed is not kept."""

    type: str
    project_id: str
    private_key_id: str
    private_key: str
    client_email: str
    token_uri: str = _GOOGLE_TOKEN_URIS[0]
    universe_domain: str = "googleapis.com"

    def __post_init__(self) -> None:
        if self.type != "service_account":
            raise InvalidInput(f"{_FIELD}.key.type: {_shown(self.type)} is not legal. Legal: service_account")
        for field in ("project_id", "private_key_id", "client_email"):
            _check_token(f"key.{field}", getattr(self, field))
        if "-----BEGIN " not in self.private_key or len(self.private_key) > _KEY_LIMIT:
            raise InvalidInput(f"{_FIELD}.key.private_key: must be a private key in PEM form")
        if self.token_uri not in _GOOGLE_TOKEN_URIS:
            raise InvalidInput(
                f"{_FIELD}.key.token_uri: is not one of Google's. Legal: {', '.join(_GOOGLE_TOKEN_URIS)}"
            )
        if self.universe_domain != "googleapis.com":
            raise InvalidInput(
                f"{_FIELD}.key.universe_domain: {_shown(self.universe_domain)} is not legal. "
                "Legal: googleapis.com"
            )

    def __repr__(self) -> str:
        return "GcsServiceKey(***)"


class GcsServiceAccountKey(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="service-account-key",
):
    """A Google service account, by its key."""

    key: GcsServiceKey
    type: Literal["gcs"] = "gcs"

    def __repr__(self) -> str:
        return "GcsServiceAccountKey(***)"

    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return (self.key.private_key, self.key.private_key_id)


class GcsSystemIdentity(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="gcp-system-identity",
):
    """Whatever Google identity the server process itself has."""

    type: Literal["gcs"] = "gcs"

    def secrets(self) -> tuple[str, ...]:
        """Nothing: the credential is not here."""
        return ()


class AzClientCredentials(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="client-credentials",
):
    """An application of Microsoft Entra ID, by its secret."""

    client_id: str
    tenant_id: str
    client_secret: str
    type: Literal["az"] = "az"

    def __post_init__(self) -> None:
        _check_token("client-id", self.client_id)
        _check_token("client-secret", self.client_secret)
        # It becomes part of the path of a URL.
        if not _TENANT.fullmatch(self.tenant_id):
            raise InvalidInput(f"{_FIELD}.tenant-id: must be the UUID or the domain name of a tenant")

    def __repr__(self) -> str:
        return "AzClientCredentials(***)"

    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return (self.client_secret,)


class AzSharedAccessKey(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="shared-access-key",
):
    """A key of the whole storage account."""

    key: str
    type: Literal["az"] = "az"

    def __post_init__(self) -> None:
        _check_token("key", self.key)
        try:
            base64.b64decode(self.key, validate=True)
        except binascii.Error:
            raise InvalidInput(f"{_FIELD}.key: must be base64") from None

    def __repr__(self) -> str:
        return "AzSharedAccessKey(***)"

    def secrets(self) -> tuple[str, ...]:
        """What must never appear in a message."""
        return (self.key,)


class AzSystemIdentity(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="kebab",
    tag_field="credential-type",
    tag="azure-system-identity",
):
    """Whatever Azure identity the server process itself has."""

    type: Literal["az"] = "az"

    def secrets(self) -> tuple[str, ...]:
        """Nothing: the credential is not here."""
        return ()


S3Credential = S3AccessKey | S3SystemIdentity
GcsCredential = GcsServiceAccountKey | GcsSystemIdentity
AzCredential = AzClientCredentials | AzSharedAccessKey | AzSystemIdentity
Credential = S3Credential | GcsCredential | AzCredential
#: What lends a warehouse the identity of the server itself.
SystemIdentity = S3SystemIdentity | GcsSystemIdentity | AzSystemIdentity

_KINDS: dict[tuple[str, str], type[Credential]] = {
    ("s3", "access-key"): S3AccessKey,
    ("s3", "aws-system-identity"): S3SystemIdentity,
    ("gcs", "service-account-key"): GcsServiceAccountKey,
    ("gcs", "gcp-system-identity"): GcsSystemIdentity,
    ("az", "client-credentials"): AzClientCredentials,
    ("az", "shared-access-key"): AzSharedAccessKey,
    ("az", "azure-system-identity"): AzSystemIdentity,
}


def parse_credential(raw: object) -> Credential:
    """Read a `storage-credential`; `aws-`-prefixed key names are accepted aliases."""
    given = require_object(raw, _FIELD)
    fields: dict[str, Any] = {}
    for name, value in given.items():
        plain = _ALIASES.get(name, name)
        if plain in fields and fields[plain] != value:
            raise InvalidInput(f"{_FIELD}.{plain}: given twice, once as an alias, with different values")
        fields[plain] = value
    kind = (fields.get("type"), fields.get("credential-type"))
    _check_kind(kind)
    return convert(fields, _KINDS[kind], _FIELD)  # type: ignore[index]


def _check_kind(kind: tuple[object, object]) -> None:
    types = sorted({t for t, _ in _KINDS})
    if kind[0] not in types:
        raise InvalidInput(f"{_FIELD}.type: {_shown(kind[0])} is unknown. Legal: {', '.join(types)}")
    legal = sorted(c for t, c in _KINDS if t == kind[0])
    if kind[1] not in legal:
        shown = _shown(kind[1])
        raise InvalidInput(f"{_FIELD}.credential-type: {shown} is unknown. Legal: {', '.join(legal)}")


def _shown(value: object) -> str:
    return "a missing value" if value is None else repr(value)[:80]


def encode_credential(credential: Credential) -> bytes:
    """The JSON to seal; `parse_credential` reads it back."""
    return msgspec.json.encode(credential)


def credential_type(credential: Credential) -> Mapping[str, str]:
    """The `storage-credential-type` of an answer: what kind it is, nothing of its content."""
    tag = credential.__struct_config__.tag
    return {"type": credential.type, "credential-type": str(tag)}
