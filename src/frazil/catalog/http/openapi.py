"""The OpenAPI document, made from the endpoints and the types they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from frazil.catalog.http.routing import Endpoint

_REF = "#/components/schemas/{name}"
_REASONS = {
    200: "Done",
    201: "Created",
    204: "Done, no content",
    304: "Not modified",
    400: "The request cannot be meant; the message names the field",
    401: "The server does not know who is asking",
    403: "Understood and refused",
    404: "No such thing",
    406: "Not offered by this server",
    409: "The present state does not allow it",
    413: "Body too large",
    422: "Contradicts itself or an earlier request",
    500: "Outcome unknown or internal error",
    503: "Nothing was done; try again",
}


_DESCRIPTION = """\
An Iceberg REST catalog under `/catalog`; in Lakekeeper's wire format, management under `/management/v1`
and generic tables under `/lakekeeper/v1`; what is frazil's own under `/frazil/v1`.

`{prefix}` is the id of a warehouse: ask `GET /catalog/v1/config?warehouse=<name>` for it. Levels of a nested
`{namespace}` are joined by `%1F`. Errors are `{"error": {"message", "type", "code"}}` throughout.
"""
_FORM = "application/x-www-form-urlencoded"
_SECURITY = {
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "client": {
        "type": "oauth2",
        "flows": {
            "clientCredentials": {
                "tokenUrl": "/catalog/v1/oauth/tokens",
                "scopes": {"catalog": "Everything that the client may do."},
            }
        },
    },
}
_TAGS = {
    "Authentication": "Access tokens for clients that the server itself knows.",
    "Configuration": "How a client finds its warehouse.",
    "Namespaces": "Nested up to 32 levels; names keep their case and compare without it.",
    "Tables": "Create, register, load, drop, rename.",
    "Commits": "Changes of tables, each checked against the state that it replaces.",
    "Views": "Create, register, load, replace, drop, rename.",
    "Jobs": "Which jobs of Flink, Spark and frazil wrote which tables, also after their snapshots expired.",
    "Generic tables": "Tables of any format in Lakekeeper's wire format; a warehouse is given by id or name.",
    "Remote signing": "Signatures for S3 requests that stay inside one table.",
    "Management": "Server, projects and warehouses.",
    "Operations": "Health, metrics and this description.",
}


def openapi_document(
    endpoints: Sequence[Endpoint], *, title: str, version: str, authenticated: bool = False
) -> dict[str, Any]:
    """An OpenAPI 3.1 document of all endpoints; `authenticated`: all but the public ones want a token."""
    types = _types(endpoints)
    refs, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(map(id, types), refs, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, schema_of, authenticated and not endpoint.public)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": title,
            "version": version,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [
            {"name": tag, "description": _TAGS.get(tag, "")}
            for tag in dict.fromkeys(endpoint.tag for endpoint in endpoints)
        ],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    found: dict[int, Any] = {}
    for endpoint in endpoints:
        for kind in (endpoint.error, endpoint.body, endpoint.form, endpoint.answer):
            if kind is not None:
                found[id(kind)] = kind
    return list(found.values())


def _operation(
    endpoint: Endpoint, schema_of: dict[int, dict[str, Any]], authenticated: bool
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": _REASONS[endpoint.status]}
    if endpoint.answer is not None:
        answer["content"] = {"application/json": {"schema": schema_of[id(endpoint.answer)]}}
    error = {"content": {"application/json": {"schema": schema_of[id(endpoint.error)]}}}
    if endpoint.method == "HEAD":
        error = {}
    responses = {str(endpoint.status): answer}
    for status in (*((401,) if authenticated else ()), *endpoint.errors):
        responses[str(status)] = {"description": _REASONS[status], **({} if status == 304 else error)}
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        # Unlike a description, a summary is plain text.
        "summary": endpoint.summary.replace("`", ""),
        "tags": [endpoint.tag],
        "parameters": _parameters(endpoint),
        "responses": responses,
    }
    for kind, media_type in ((endpoint.body, "application/json"), (endpoint.form, _FORM)):
        if kind is not None:
            content = {media_type: {"schema": schema_of[id(kind)]}}
            operation["requestBody"] = {"required": True, "content": content}
    if authenticated:
        operation["security"] = [{name: []} for name in _SECURITY]
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(.+?)}", endpoint.path)
    ]
    if endpoint.query is not None:
        (_, components) = msgspec.json.schema_components([endpoint.query], ref_template=_REF)
        for name, schema in components.pop(endpoint.query.__name__)["properties"].items():
            named = [components[kind] for kind in components if schema.get("$ref") == _REF.format(name=kind)]
            found = named[0] if named else schema
            parameters.append({"name": name, "in": "query", "required": False, "schema": found})
    return parameters + [
        {"name": name, "in": "header", "required": False, "schema": _HEADER_SCHEMAS[name]}
        for name in endpoint.headers
    ]


_HEADER_SCHEMAS: dict[str, dict[str, Any]] = {
    "Idempotency-Key": {"type": "string", "format": "uuid"},
    "If-None-Match": {"type": "string"},
    "X-Frazil-Access": {"type": "string", "enum": ["read", "read-write"]},
    "X-Iceberg-Access-Delegation": {"type": "string"},
    "x-project-id": {"type": "string"},
}
