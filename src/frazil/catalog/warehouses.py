"""Warehouses as the catalog uses them: opened storage, kept while the database row stays the same."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from frazil.catalog.db import Database, Row
from frazil.catalog.http.message import json_bytes
from frazil.catalog.secrets import SecretBox
from frazil.catalog.signing import S3Signer, open_signer
from frazil.catalog.storage import Profile, Storage, inside, open_storage, parse_credential, parse_profile
from frazil.catalog.vending import Vendor, open_vendor
from frazil.core.errors import InvalidInput, NoSuchWarehouse, NotFound
from frazil.core.names import is_uuid


@dataclass(frozen=True)
class Warehouse:
    """A warehouse that may be used: active, its storage open."""

    warehouse_id: str
    project_id: str
    name: str
    version: int
    profile: Profile
    storage: Storage
    #: None: credentials are not vended here, whatever a request asks for.
    vendor: Vendor | None
    #: None: no requests are signed here.
    signer: S3Signer | None
    allowed_format_versions: frozenset[int]
    default_format_version: int
    #: How long the files of a purged table stay (`delete-profile: soft`).
    purge_delay_ms: int
    #: The `config` of a load-table answer, already JSON.
    table_config: bytes

    def checked_location(self, location: str, field: str = "location") -> str:
        """A caller's location in its canonical form; InvalidInput unless it lies inside the warehouse."""
        return inside(self.storage.base, location, alternatives=self.profile.alternatives, field=field)


class Warehouses:
    """Opens warehouses and keeps them; `version` tells when a kept one is out of date."""

    def __init__(self, database: Database, secrets: SecretBox) -> None:
        self._database = database
        self._secrets = secrets
        self._open: dict[str, Warehouse] = {}

    def held(self, warehouse_id: str) -> Warehouse | None:
        """The copy in memory; only right if its version is the row's."""
        return self._open.get(warehouse_id)

    async def get(self, prefix: str) -> Warehouse:
        """The active warehouse with this id."""
        warehouse_id = checked_id(prefix)
        row = await self._database.fetchrow("SELECT * FROM warehouse WHERE warehouse_id = $1", warehouse_id)
        if row is None:
            self._open.pop(warehouse_id, None)
            raise NoSuchWarehouse(f"Warehouse does not exist: {prefix}")
        return await self._use(row)

    async def by_name(self, project_id: str, key: str) -> Warehouse | None:
        row = await self._database.fetchrow(
            "SELECT * FROM warehouse WHERE project_id = $1 AND name_key = $2", project_id, key
        )
        return await self._use(row) if row else None

    async def close(self) -> None:
        for warehouse in self._open.values():
            await warehouse.storage.close()
            if warehouse.vendor is not None:
                await warehouse.vendor.close()
        self._open.clear()

    async def _use(self, row: Row) -> Warehouse:
        warehouse_id = row["warehouse_id"]
        if row["status"] != "active":
            self._open.pop(warehouse_id, None)
            raise NotFound(
                f"Warehouse {row['name']!r} is not active; activate it first", kind="WarehouseNotActive"
            )
        held = self._open.get(warehouse_id)
        if held is not None and held.version == row["version"]:
            return held
        # The old storage is not closed here: a request may still be using it.
        opened = self._open[warehouse_id] = open_warehouse(row, self._secrets)
        return opened


def open_warehouse(row: Row, secrets: SecretBox) -> Warehouse:
    """Open the storage that a row of the warehouse table describes."""
    profile = parse_profile(msgspec.json.decode(row["storage_profile"]))
    credential = None
    if row["storage_credential"] is not None:
        sealed = secrets.open(row["storage_credential"], row["warehouse_id"].encode())
        credential = parse_credential(msgspec.json.decode(sealed))
    storage = open_storage(profile, credential)
    allowed = frozenset(msgspec.json.decode(row["allowed_format_versions"], type=list[int]))
    return Warehouse(
        warehouse_id=row["warehouse_id"],
        project_id=row["project_id"],
        name=row["name"],
        version=row["version"],
        profile=profile,
        storage=storage,
        vendor=open_vendor(profile, credential),
        signer=open_signer(profile, credential),
        allowed_format_versions=allowed,
        default_format_version=row["default_format_version"] or (2 if 2 in allowed else max(allowed)),
        purge_delay_ms=1000 * msgspec.json.decode(row["delete_profile"]).get("expiration-seconds", 0),
        table_config=json_bytes(storage.client_config()),
    )


def checked_id(prefix: str) -> str:
    """A warehouse id in lower case; InvalidInput for anything that is not a UUID."""
    if not is_uuid(prefix):
        raise InvalidInput(
            f"the prefix {prefix!r} is not a warehouse id; GET /catalog/v1/config?warehouse=<name> gives it",
            kind="PrefixIsNotWarehouseID",
        )
    return prefix.lower()
