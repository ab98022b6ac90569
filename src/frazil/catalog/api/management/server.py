"""Bootstrap, server info and who the caller is."""

from __future__ import annotations

from frazil import __version__
from frazil.catalog.api.config import DEFAULT_PROJECT
from frazil.catalog.api.management.answers import LicenseStatus, ServerInfo, WhoamiResponse
from frazil.catalog.api.management.bodies import BootstrapRequest
from frazil.catalog.api.management.routing import routes, timestamp
from frazil.catalog.api.management.specs import system_identities_enabled
from frazil.catalog.http import Request, Response, json_response, no_content
from frazil.catalog.identity import ANONYMOUS
from frazil.catalog.service import Catalog, now_ms
from frazil.catalog.store import projects
from frazil.core.errors import InvalidInput

#: The release whose API description was followed.
LAKEKEEPER_VERSION = "0.13.1"


@routes.add("POST", "/bootstrap", body=BootstrapRequest, status=204, errors=(400,))
async def bootstrap(catalog: Catalog, request: Request) -> Response:
    """Accept the terms of use (this server has none) and mark the server as set up; possible once."""
    body, _ = request.json(BootstrapRequest)
    if not body.accept_terms_of_use:
        raise InvalidInput("accept-terms-of-use: must be true", kind="TermsOfUseNotAccepted")
    if not await projects.bootstrap(catalog.database, DEFAULT_PROJECT, now_ms()):
        raise InvalidInput("the catalog was bootstrapped before", kind="CatalogAlreadyBootstrapped")
    return no_content()


@routes.add("GET", "/info", answer=ServerInfo, errors=())
async def info(catalog: Catalog, _request: Request) -> Response:
    """What this server is and what it offers."""
    server = await projects.server(catalog.database)
    return json_response(
        ServerInfo(
            version=__version__,
            lakekeeper_version=LAKEKEEPER_VERSION,
            bootstrapped=server.bootstrapped_at is not None,
            server_id=server.server_id,
            default_project_id=DEFAULT_PROJECT,
            authz_backend="allow-all",
            aws_system_identities_enabled=system_identities_enabled(catalog, "s3"),
            azure_system_identities_enabled=system_identities_enabled(catalog, "az"),
            gcp_system_identities_enabled=system_identities_enabled(catalog, "gcs"),
            queues=["tabular_purge"],
            authentication=catalog.guard.ways,
            license_status=LicenseStatus(valid=True, license_type="Apache-2.0"),
        )
    )


@routes.add("GET", "/whoami", answer=WhoamiResponse, errors=())
async def whoami(_catalog: Catalog, request: Request) -> Response:
    """Who the caller is; everybody is anonymous while there is no authentication. All may do everything."""
    principal = request.principal
    return json_response(
        WhoamiResponse(
            id="anonymous" if principal == ANONYMOUS else principal.id,
            name=principal.name,
            email=principal.email,
            user_type=principal.user_type,
            created_at=timestamp(0),
            last_updated_with="create-endpoint",
            is_instance_admin=True,
        )
    )
