"""Where clients renew the credentials of a table."""

from __future__ import annotations

import msgspec

from frazil.catalog import wire
from frazil.catalog.api.answers import credentials_answer
from frazil.catalog.api.delegation import HEADERS, delegate, refresh_endpoint
from frazil.catalog.http import Request, Response, Routes
from frazil.catalog.service import Catalog, no_such, now_ms
from frazil.catalog.signing.staged import unseal
from frazil.catalog.storage import ancestors
from frazil.catalog.store import tabulars
from frazil.catalog.vending import Access
from frazil.catalog.warehouses import Warehouse
from frazil.core.names import check_name, split_levels

routes = Routes("/catalog/v1", tag="Tables")


class CredentialsQuery(msgspec.Struct, frozen=True):
    #: What the session to be renewed may do; a client's header may ask for less.
    access: Access = Access.READ_WRITE
    #: The server's word about a table that is only staged.
    staged: str | None = None


@routes.add(
    "GET",
    "/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    query=CredentialsQuery,
    headers=HEADERS,
    answer=wire.LoadCredentialsResponse,
    errors=(400, 403, 404, 409, 503),
)
async def load_credentials(catalog: Catalog, request: Request) -> Response:
    """Credentials for the files of a table; none where the warehouse does not vend them."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = check_name(request.params["table"], "table")
    query = request.query(CredentialsQuery)
    place = await catalog.find(request.params["prefix"], levels, name)
    warehouse, found = place.warehouse, place.found
    endpoint = refresh_endpoint(warehouse.warehouse_id, levels, name)
    if found is not None and found.kind == "table":
        tabular_id, location = found.tabular_id, found.location
    elif query.staged is not None:
        tabular_id, location = None, await _staged_location(catalog, warehouse, query.staged)
        endpoint += f"?staged={query.staged}"
    else:
        raise no_such("table", levels, name)
    return credentials_answer(
        await delegate(catalog, request, warehouse, tabular_id, location, endpoint, query.access)
    )


async def _staged_location(catalog: Catalog, warehouse: Warehouse, token: str) -> str:
    """Where a staged table lies, as long as no other one does."""
    location = unseal(catalog.secrets, warehouse.warehouse_id, token, now_ms())
    above = ancestors(location, warehouse.storage.base)
    await tabulars.refuse_overlap(catalog.database, warehouse.warehouse_id, location, above, "")
    return location
