"""A small HTTP kernel over ASGI: routes as data, typed bodies, one shape of error."""

from frazil.catalog.http.app import HttpApp
from frazil.catalog.http.message import Request, Response, json_bytes, json_response, no_content
from frazil.catalog.http.openapi import openapi_document
from frazil.catalog.http.routing import Endpoint, Routes

__all__ = [
    "Endpoint",
    "HttpApp",
    "Request",
    "Response",
    "Routes",
    "json_bytes",
    "json_response",
    "no_content",
    "openapi_document",
]
