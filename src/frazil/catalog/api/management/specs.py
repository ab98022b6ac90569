"""What a request says about a warehouse, judged: storage, place and format versions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from frazil.catalog.db import Connection
from frazil.catalog.service import Catalog
from frazil.catalog.storage import (
    Credential,
    LocalProfile,
    Profile,
    SystemIdentity,
    check_pair,
    credential_type,
    encode_credential,
    open_storage,
    parse_credential,
    parse_profile,
    probe,
    require_passed,
)
from frazil.catalog.store import warehouses
from frazil.catalog.vending import open_vendor
from frazil.catalog.vending.probing import require_vending
from frazil.core.addresses import is_loopback
from frazil.core.errors import Conflict, InvalidInput

FORMAT_VERSIONS = (1, 2, 3)
_CLOUDS = (".amazonaws.com", ".amazonaws.com.cn", ".googleapis.com")
_PORTS = {"http": 80, "https": 443}
_KEYS = {"s3": "access-key", "gcs": "service-account-key", "az": "client-credentials, shared-access-key"}


@dataclass(frozen=True)
class StorageSpec:
    """A profile with the credential that goes with it."""

    profile: Profile
    credential: Credential | None

    def sealed(self, catalog: Catalog, warehouse_id: str) -> bytes | None:
        """The credential as it is stored."""
        if self.credential is None:
            return None
        return catalog.secrets.seal(encode_credential(self.credential), warehouse_id.encode())


def storage_spec(catalog: Catalog, profile: object, credential: object) -> StorageSpec:
    """Profile and credential of a request, each well-formed and made for each other."""
    return storage_pair(catalog, parse_profile(profile), credential)


def storage_pair(catalog: Catalog, profile: Profile, credential: object) -> StorageSpec:
    """A known profile with the credential of a request."""
    parsed = None if credential is None else parse_credential(credential)
    check_pair(profile, parsed)
    if isinstance(parsed, SystemIdentity) and not system_identities_enabled(catalog, parsed.type):
        shown = credential_type(parsed)["credential-type"]
        raise InvalidInput(
            f"storage-credential.credential-type: {shown} would lend the server's own identity to "
            f"every warehouse and is switched off on this server. Legal: {_KEYS[parsed.type]}"
        )
    if isinstance(profile, LocalProfile):
        _check_local(catalog, profile)
    return StorageSpec(profile, parsed)


async def require_usable(spec: StorageSpec) -> None:
    """Really write, read and delete an object, also with vended credentials where they are to be vended.

    The error names the step that failed.
    """
    storage = open_storage(spec.profile, spec.credential)
    vendor = open_vendor(spec.profile, spec.credential)
    try:
        require_passed(await probe(storage))
        await require_vending(storage, vendor)
    finally:
        await storage.close()
        if vendor is not None:
            await vendor.close()


async def require_exclusive(
    connection: Connection, profile: Profile, warehouse_id: str | None = None
) -> None:
    """No two warehouses may share a place: each would purge what the other believes it owns."""
    mine = _place(profile)
    for other_id, name, other in await warehouses.profiles(connection):
        theirs = _place(other)
        if other_id == warehouse_id or mine[:2] != theirs[:2]:
            continue
        if mine[2].startswith(theirs[2]) or theirs[2].startswith(mine[2]):
            raise Conflict(
                f"storage-profile: {profile.base} overlaps with {other.base} of the warehouse {name!r}; "
                "choose another bucket, key-prefix or path",
                kind="StorageProfileOverlap",
            )


def format_versions(allowed: Sequence[int] | None, default: int | None) -> tuple[list[int], int | None]:
    """The format version policy: which versions tables may have, and which a new one gets."""
    legal = ", ".join(map(str, FORMAT_VERSIONS))
    if allowed is None:
        allowed = FORMAT_VERSIONS
    if not allowed:
        raise InvalidInput(
            f"allowed-format-versions: must not be empty. Legal: {legal}", kind="EmptyAllowedFormatVersions"
        )
    unknown = [version for version in allowed if version not in FORMAT_VERSIONS]
    if unknown:
        raise InvalidInput(f"allowed-format-versions: {unknown[0]} is unknown. Legal: {legal}")
    chosen = sorted(set(allowed))
    if default is not None and default not in chosen:
        shown = ", ".join(map(str, chosen))
        raise InvalidInput(f"default-format-version: {default} is not among allowed-format-versions {shown}")
    return chosen, default


def system_identities_enabled(catalog: Catalog, kind: str) -> bool:
    """Whether warehouses may use the identity that the server process has in the cloud of `kind`."""
    settings = catalog.settings
    enabled = {
        "s3": settings.aws_system_identities,
        "gcs": settings.gcp_system_identities,
        "az": settings.azure_system_identities,
    }
    return enabled[kind]


def _check_local(catalog: Catalog, profile: LocalProfile) -> None:
    """The server's own files must not lie inside a warehouse, where a purge could be led to them."""
    own = os.path.realpath(catalog.settings.data_dir)
    path = os.path.realpath(profile.path)
    if f"{own}/".startswith(f"{path}/"):
        raise InvalidInput(f"storage-profile.path: {profile.path!r} holds the server's own data directory")
    if not catalog.settings.allows_local(path):
        raise InvalidInput(
            f"storage-profile.path: {profile.path!r} is not in a directory that this server may make local "
            "warehouses in; the operator sets them with --local-paths"
        )


def _place(profile: Profile) -> tuple[str, str, str]:
    """Kind, store and prefix, in a form in which nesting is a common beginning."""
    if isinstance(profile, LocalProfile):
        return "local", "", f"{os.path.realpath(profile.path)}/"
    # Not every store tells prefixes apart that differ in case only.
    return type(profile).__name__, _store(profile.endpoint), f"{profile.base}/".lower()


def _store(endpoint: str | None) -> str:
    """One name for one store, however its endpoint is written; empty for those of AWS and Google."""
    parts = urlsplit(endpoint or "")
    host = parts.hostname or ""
    if not host or host.endswith(_CLOUDS):
        return ""
    return f"{'localhost' if is_loopback(host) else host}:{parts.port or _PORTS[parts.scheme]}{parts.path}"
