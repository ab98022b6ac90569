"""How a caller gets at a table's files: what the answer says about storage, and for how long.

The header `X-Iceberg-Access-Delegation` is understood as Lakekeeper does: a list of what the caller can
use, of which the warehouse gives what it offers. Without it credentials are vended where they can be;
requests are signed only for those who name it, whereas Lakekeeper falls back on it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from frazil.catalog.http import Request, json_bytes
from frazil.catalog.service import Catalog
from frazil.catalog.signing.config import signer_config
from frazil.catalog.vending import Access, Held
from frazil.catalog.warehouses import Warehouse
from frazil.core.errors import InvalidInput
from frazil.core.names import LEVEL_SEPARATOR

HEADER = "X-Iceberg-Access-Delegation"
ACCESS_HEADER = "X-Frazil-Access"
HEADERS = (HEADER, ACCESS_HEADER)

#: The property, by the scheme of a location, that tells Iceberg's clients where to renew.
_REFRESH = {
    "s3": "client.refresh-credentials-endpoint",
    "gs": "gcs.oauth2.refresh-credentials-endpoint",
    "abfs": "adls.refresh-credentials-endpoint",
    "abfss": "adls.refresh-credentials-endpoint",
    "wasb": "adls.refresh-credentials-endpoint",
    "wasbs": "adls.refresh-credentials-endpoint",
}
#: A table may have several names in its life; hardly ever more than these at once.
_RENDERED_LIMIT = 4


class Delegated(NamedTuple):
    """The parts of an answer that let its reader reach the files."""

    #: The `config` of the answer, as JSON.
    config: bytes
    #: Its `storage-credentials`, as JSON; empty: left out, because an entry without keys misleads clients.
    credentials: bytes = b""
    expires_at_ms: int | None = None
    #: What of all this the answer's ETag must tell apart.
    variant: str = ""

    def __repr__(self) -> str:
        return f"Delegated(until {self.expires_at_ms})"


class Asked(NamedTuple):
    """What the caller says that it can use."""

    vended: bool = False
    signing: bool = False
    #: It has its own keys and wants nothing.
    managed: bool = False


class Choice(NamedTuple):
    """What the caller gets."""

    vend: bool
    sign: bool
    access: Access
    asked: Asked


@lru_cache(maxsize=64)
def asked(header: str | None) -> Asked:
    """The value of the header; what is unknown in it is passed over, for later versions of the spec."""
    modes = {mode.strip().lower() for mode in (header or "").split(",")}
    vended, signing = "vended-credentials" in modes, "remote-signing" in modes
    return Asked(vended, signing, "client-managed" in modes and not vended and not signing)


def choose(request: Request, warehouse: Warehouse, permission: Access = Access.READ_WRITE) -> Choice:
    """What `request` gets in `warehouse`, where its caller has `permission`."""
    access = requested_access(request, permission)
    wanted = asked(request.header("x-iceberg-access-delegation"))
    if wanted.managed:
        return Choice(False, False, access, wanted)
    can_vend, can_sign = warehouse.vendor is not None, warehouse.signer is not None
    # Only for those who ask: clients put signing in place of the keys that they have.
    sign = wanted.signing and can_sign
    return Choice(can_vend and (wanted.vended or not sign), sign, access, wanted)


def variant(request: Request, choice: Choice, serial: str = "") -> str:
    """What answers of one table differ in.

    A vended answer is bound to the very credential in it, so that "not modified" is only ever said while
    the caller's copy is the one that would be given.
    """
    vended, signing, managed = choice.asked
    given = choice.access if choice.vend or choice.sign else ""
    return f"{request.principal.id}\n{vended:d}{signing:d}{managed:d}{choice.sign:d}\n{given}\n{serial}"


async def delegate(
    catalog: Catalog,
    request: Request,
    warehouse: Warehouse,
    tabular_id: str | None,
    location: str,
    refresh_endpoint: str | None,
    permission: Access = Access.READ_WRITE,
) -> Delegated:
    """What the caller of `request` is given for the tabular at `location`.

    `refresh_endpoint` is the path, relative to the catalog's URI, at which clients renew credentials;
    `permission` is what the caller may do at most. A tabular without an id is staged.
    """
    choice = choose(request, warehouse, permission)
    signing: dict[str, str] = {}
    if choice.sign:
        signing = signer_config(catalog, request, warehouse, tabular_id, location, choice.access)
    if not choice.vend:
        config = warehouse.table_config
        if signing:
            config = json_bytes({**warehouse.storage.client_config(), **signing})
        return Delegated(config, variant=variant(request, choice))
    assert warehouse.vendor is not None
    key = (warehouse.warehouse_id, warehouse.version, location, choice.access)
    held = await catalog.vended.get(key, warehouse.vendor)
    if refresh_endpoint is not None and choice.access is Access.READ:
        # Clients do not send our header when they renew.
        refresh_endpoint += f"{'&' if '?' in refresh_endpoint else '?'}access={Access.READ}"
    config, credentials = _rendered(warehouse, held, refresh_endpoint)
    if signing:
        config = json_bytes({**msgspec.json.decode(config), **signing})
    return Delegated(config, credentials, held.vended.expires_at_ms, variant(request, choice, held.serial))


@lru_cache(maxsize=1024)
def refresh_endpoint(warehouse_id: str, levels: tuple[str, ...], table: str) -> str:
    """Where Iceberg's clients renew the credentials of a table, relative to the catalog's URI."""
    namespace = quote(LEVEL_SEPARATOR.join(levels), safe="")
    return f"v1/{warehouse_id}/namespaces/{namespace}/tables/{quote(table, safe='')}/credentials"


def requested_access(request: Request, permission: Access = Access.READ_WRITE) -> Access:
    """What the caller asks for, at most what it may."""
    given = request.header("x-frazil-access")
    if given is None:
        return permission
    if given not in (Access.READ, Access.READ_WRITE):
        legal = ", ".join(Access)
        raise InvalidInput(f"{ACCESS_HEADER}: {given[:80]!a} is unknown. Legal: {legal}")
    return Access.READ if given == Access.READ else permission


def _rendered(warehouse: Warehouse, held: Held, endpoint: str | None) -> tuple[bytes, bytes]:
    """`config` and `storage-credentials`. Both have the keys: older clients read only the first."""
    found = held.rendered.get(endpoint)
    if found is None:
        vended = held.vended
        config = dict(vended.config)
        if endpoint is not None:
            config[_REFRESH[vended.prefix.partition(":")[0]]] = endpoint
        found = (
            json_bytes({**warehouse.storage.client_config(), **config}),
            json_bytes([{"prefix": vended.prefix, "config": config}]),
        )
        if len(held.rendered) >= _RENDERED_LIMIT:
            held.rendered.clear()
        held.rendered[endpoint] = found
    return found
