"""Shared access signatures of Azure Storage: a grant, written out as query parameters and signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from urllib.parse import quote

#: The version whose rules the string to sign follows; it also goes with the request for a delegation key.
VERSION = "2023-11-03"


@dataclass(frozen=True, slots=True)
class DelegationKey:
    """A key that Azure made for one identity: what it signs may do no more than that identity."""

    oid: str
    tid: str
    start: str
    expiry: str
    service: str
    version: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Resource:
    """What a signature opens: a directory with all below it, a whole container, or one blob."""

    account: str
    container: str
    path: str = ""
    kind: Literal["d", "c", "b"] = "d"

    @property
    def canonical(self) -> str:
        """The path is literal, not percent-encoded."""
        return "/".join(["/blob", self.account, self.container, *([self.path] if self.path else [])])

    @property
    def depth(self) -> str | None:
        """How many levels below the container a directory is."""
        return str(len(self.path.split("/"))) if self.kind == "d" else None


def sas_token(
    resource: Resource,
    permissions: str,
    expiry: datetime,
    key: str | DelegationKey,
    protocol: str = "https",
) -> str:
    """The query parameters that open `resource`; `key` is the account's, in base64, or a delegation key.

    `permissions` must be in Azure's order, which is `racwdlmeop`.
    """
    fields = {
        "sv": VERSION,
        "sr": resource.kind,
        "sdd": resource.depth,
        "sp": permissions,
        "se": expiry.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "spr": protocol,
    }
    if isinstance(key, DelegationKey):
        fields |= {"skoid": key.oid, "sktid": key.tid, "skt": key.start, "ske": key.expiry}
        fields |= {"sks": key.service, "skv": key.version}
    secret = key.value if isinstance(key, DelegationKey) else key
    text = _string_to_sign(fields, resource, isinstance(key, DelegationKey))
    digest = hmac.digest(base64.b64decode(secret), text.encode(), hashlib.sha256)
    fields["sig"] = base64.b64encode(digest).decode()
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items() if value is not None)


def _string_to_sign(fields: dict[str, str | None], resource: Resource, delegated: bool) -> str:
    """Every field that Azure knows for this version, in its order; those that are not used stay empty."""
    start = ""
    parts = [fields["sp"], start, fields["se"], resource.canonical]
    if delegated:
        authorized_user = unauthorized_user = correlation = ""
        parts += [fields[name] for name in ("skoid", "sktid", "skt", "ske", "sks", "skv")]
        parts += [authorized_user, unauthorized_user, correlation]
    else:
        stored_policy = ""
        parts.append(stored_policy)
    addresses = snapshot = encryption_scope = ""
    parts += [addresses, fields["spr"], fields["sv"], fields["sr"], snapshot, encryption_scope]
    # Headers that the answer would be given: Cache-Control and four of Content-*.
    parts += [""] * 5
    return "\n".join(part or "" for part in parts)
