"""How a caller gets at a table's files: what the answer says about storage, and for how long."""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.catalog.http import Request
from frazil.catalog.service import Catalog
from frazil.catalog.warehouses import Warehouse

HEADER = "X-Iceberg-Access-Delegation"


@dataclass(frozen=True, slots=True)
class Delegated:
    """The parts of an answer that let its reader reach the files."""

    #: The `config` of the answer, as JSON.
    config: bytes
    #: Its `storage-credentials`, as JSON; empty: left out, because an entry without keys misleads clients.
    credentials: bytes = b""
    expires_at_ms: int | None = None
    #: What of all this the answer's ETag must tell apart.
    variant: str = field(default="")


async def delegate(
    catalog: Catalog,
    request: Request,
    warehouse: Warehouse,
    tabular_id: str,
    location: str,
    refresh_endpoint: str | None,
) -> Delegated:
    """What the caller of `request` is given for the tabular at `location`.

    `refresh_endpoint` is the path, relative to the catalog's URI, at which clients renew credentials.
    """
    return Delegated(warehouse.table_config)
