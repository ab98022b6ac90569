"""Health, metrics and the description of the API."""

from __future__ import annotations

import html
import mimetypes
from importlib import resources

from frazil.catalog.http import Request, Response, Routes, json_response
from frazil.catalog.http.errors import error_body
from frazil.catalog.service import Catalog
from frazil.core.errors import FrazilError, NotFound

routes = Routes("", tag="Operations")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>frazil API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css"></head>
<body><div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script>
SwaggerUIBundle({
  url: "/openapi.json", dom_id: "#ui", deepLinking: true, displayRequestDuration: true,
  defaultModelsExpandDepth: 0
})
</script>
</body></html>
"""
_ASSETS = frozenset({"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"})


@routes.add("GET", "/health", errors=(), public=True)
async def health(_catalog: Catalog, _request: Request) -> Response:
    """Liveness: the process answers."""
    return json_response({"status": "ok"})


@routes.add("GET", "/health/ready", errors=(503,), public=True)
async def health_ready(catalog: Catalog, _request: Request) -> Response:
    """Readiness: the database answers too."""
    try:
        await catalog.database.fetchrow("SELECT 1 FROM server")
    except FrazilError as error:
        return Response(503, error_body(503, error.kind, error.message), headers=[(b"retry-after", b"1")])
    return json_response({"status": "ok", "database": "ok"})


@routes.add("GET", "/metrics", errors=())
async def metrics(catalog: Catalog, _request: Request) -> Response:
    """Metrics in Prometheus' text format."""
    return Response(200, catalog.metrics.render(), media_type=b"text/plain; version=0.0.4; charset=utf-8")


@routes.add("GET", "/openapi.json", errors=(), public=True)
async def openapi(catalog: Catalog, _request: Request) -> Response:
    """The OpenAPI document of this server."""
    return Response(200, catalog.openapi)


@routes.add("GET", "/docs", errors=(), public=True)
async def docs(_catalog: Catalog, _request: Request) -> Response:
    """An interactive page of the API."""
    return Response(200, _PAGE.encode(), media_type=b"text/html; charset=utf-8")


@routes.add("GET", "/docs/{asset}", errors=(404,), public=True)
async def docs_asset(_catalog: Catalog, request: Request) -> Response:
    """Script and style of the interactive page."""
    name = request.params["asset"]
    if name not in _ASSETS:
        raise NotFound(f"there is no {html.escape(name)} here")
    data = resources.files("openapi_ui_bundles.swagger_ui").joinpath("vendor", name).read_bytes()
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(200, data, media_type=media_type.encode(), headers=[(b"cache-control", b"max-age=86400")])
