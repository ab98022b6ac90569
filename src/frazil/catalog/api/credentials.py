"""Where clients renew the credentials of a table."""

from __future__ import annotations

import msgspec

from frazil.catalog import wire
from frazil.catalog.api.answers import credentials_answer
from frazil.catalog.api.delegation import HEADERS, delegate, refresh_endpoint
from frazil.catalog.http import Request, Response, Routes
from frazil.catalog.service import Catalog
from frazil.catalog.vending import Access
from frazil.core.names import split_levels

routes = Routes("/catalog/v1", tag="Tables")


class CredentialsQuery(msgspec.Struct, frozen=True):
    #: What the session to be renewed may do; a client's header may ask for less.
    access: Access = Access.READ_WRITE


@routes.add(
    "GET",
    "/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    query=CredentialsQuery,
    headers=HEADERS,
    answer=wire.LoadCredentialsResponse,
    errors=(400, 404, 503),
)
async def load_credentials(catalog: Catalog, request: Request) -> Response:
    """Credentials for the files of a table; none where the warehouse does not vend them."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = request.params["table"]
    access = request.query(CredentialsQuery).access
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "table")
    endpoint = refresh_endpoint(warehouse.warehouse_id, levels, name)
    return credentials_answer(
        await delegate(catalog, request, warehouse, found.tabular_id, found.location, endpoint, access)
    )
