"""Short-lived keys for the files of one generic table."""

from __future__ import annotations

from frazil.catalog import wire
from frazil.catalog.api.delegation import HEADER, delegate
from frazil.catalog.api.generic.routing import TABLE, in_warehouse, routes
from frazil.catalog.api.management.routing import PROJECT_HEADER
from frazil.catalog.http import Request, Response
from frazil.catalog.service import Catalog
from frazil.core.names import split_levels


@routes.add(
    "GET",
    TABLE + "/credentials",
    headers=(HEADER, PROJECT_HEADER),
    answer=wire.LoadCredentialsResponse,
    errors=(400, 404, 503),
)
@in_warehouse
async def load_generic_table_credentials(catalog: Catalog, request: Request) -> Response:
    """Load only the credentials of a generic table."""
    levels = split_levels(request.params["namespace"], "namespace")
    name = request.params["table"]
    warehouse, found = await catalog.load(request.params["prefix"], levels, name, "generic-table")
    delegated = await delegate(catalog, request, warehouse, found.tabular_id, found.location, None)
    return Response(200, b'{"storage-credentials":' + (delegated.credentials or b"[]") + b"}")
