"""Storage credentials: Lakekeeper's JSON in, a secret that never prints out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from frazil.catalog.storage.parsing import convert, require_object
from frazil.core.errors import InvalidInput

_FIELD = "storage-credential"
_ALIASES = {"aws-access-key-id": "access-key-id", "aws-secret-access-key": "secret-access-key"}
_LIMIT = 1024


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


Credential = S3AccessKey | S3SystemIdentity

_KINDS: dict[tuple[str, str], type[S3AccessKey] | type[S3SystemIdentity]] = {
    ("s3", "access-key"): S3AccessKey,
    ("s3", "aws-system-identity"): S3SystemIdentity,
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
