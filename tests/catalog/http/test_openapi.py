from __future__ import annotations

import re
from typing import Any

from frazil.catalog.http import openapi_document
from frazil.catalog.server import endpoints

DOCUMENT = openapi_document(endpoints(), title="frazil", version="1")
TOKENS = "/catalog/v1/oauth/tokens"
PUBLIC = {TOKENS, "/health", "/health/ready", "/docs", "/docs/{asset}", "/openapi.json"}


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, op) for path, item in DOCUMENT["paths"].items() for method, op in item.items()]


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        found = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
        return found.union(*(references(value) for value in node.values()))
    if isinstance(node, list):
        return set[str]().union(*(references(value) for value in node))
    return set()


def test_every_reference_leads_somewhere() -> None:
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert references(DOCUMENT) <= known


def test_every_operation_is_described() -> None:
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for path, method, operation in operations():
        assert operation["summary"], (method, path)
        named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert named == set(re.findall(r"{(.+?)}", path))


def test_every_write_declares_its_errors() -> None:
    for path, method, operation in operations():
        if method in ("post", "delete"):
            assert "400" in operation["responses"], (method, path)
        if "requestBody" in operation:
            assert operation["requestBody"]["required"]


def test_every_error_has_the_spec_s_shape() -> None:
    for path, method, operation in operations():
        for status, response in operation["responses"].items():
            if int(status) >= 400 and method != "head":
                schema = response["content"]["application/json"]["schema"]
                # OAuth2 has a shape of its own.
                shape = "OAuthError" if path == TOKENS else "IcebergErrorResponse"
                assert schema == {"$ref": f"#/components/schemas/{shape}"}, (path, status)


def test_a_server_with_authentication_says_what_needs_a_token() -> None:
    assert not any("security" in operation for _, _, operation in operations())
    guarded = openapi_document(endpoints(), title="frazil", version="1", authenticated=True)
    for path, methods in guarded["paths"].items():
        for operation in methods.values():
            public = path in PUBLIC
            assert ("security" not in operation) is public, path
            assert public or "401" in operation["responses"]
    assert set(guarded["components"]["securitySchemes"]) == {"bearer", "client"}


def test_the_token_endpoint_takes_a_form() -> None:
    operation = DOCUMENT["paths"][TOKENS]["post"]
    assert set(operation["requestBody"]["content"]) == {"application/x-www-form-urlencoded"}
