"""Iceberg's own REST Compatibility Kit against the server, on both databases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.rck import Verdict, run_rck

pytestmark = [pytest.mark.jvm, pytest.mark.services, pytest.mark.slow]

CATALOG = "RESTCompatibilityKitCatalogTests"
# The one every new server has; left to itself the kit asks for one of its own invention.
WAREHOUSE = "default"
VIEWS = "RESTCompatibilityKitViewCatalogTests"

_ASSUMPTION = "assumption was not met due to:"
_SWITCHED_OFF = f"{_ASSUMPTION} Expecting value to be true but was false"
_NESTED = f"{_ASSUMPTION} [Only valid when the catalog supports nested namespaces]"

# What the kit leaves out by its own fixed choice: it has no setting for nested and empty namespaces
# or for slashes, whatever the server can do. Tests of ours cover them.
ALWAYS_ABORTED = {
    f"{CATALOG}.testListNestedNamespaces": _NESTED,
    f"{CATALOG}.testDropNamespaceWithNestedNamespace": _NESTED,
    f"{CATALOG}.testNamespaceWithSlash": _SWITCHED_OFF,
    f"{CATALOG}.testTableNameWithSlash": _SWITCHED_OFF,
    f"{CATALOG}.createAndDropEmptyNamespace": (
        f"{_ASSUMPTION} [Only valid for catalogs that support creating/dropping empty namespaces]"
    ),
    f"{CATALOG}.listNamespacesWithEmptyNamespace": (
        f"{_ASSUMPTION} [Only valid for catalogs that support empty namespaces]"
    ),
    f"{CATALOG}.listTablesInEmptyNamespace": (
        f"{_ASSUMPTION} [Only valid for catalogs that support listing tables in empty namespaces]"
    ),
    f"{CATALOG}.namespacePropertiesOnEmptyNamespace": (
        f"{_ASSUMPTION} [Only valid for catalogs that support properties on empty namespaces]"
    ),
    f"{VIEWS}.listViewsInEmptyNamespace": (
        f"{_ASSUMPTION} [Only valid for catalogs that support listing views in empty namespaces]"
    ),
}
# Off unless asked for; the second test asks.
ABORTED_BY_DEFAULT = {
    f"{CATALOG}.testNamespaceWithDot": _SWITCHED_OFF,
    f"{CATALOG}.testTableNameWithDot": _SWITCHED_OFF,
}
SKIPPED = {f"{CATALOG}.createTableInUniqueLocation": "RESTServerExtension isn’t configurable per test"}  # noqa: RUF001


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_kit_finds_nothing_wrong(database: str, postgres_url: Callable[[], str]) -> None:
    url = postgres_url() if database == "postgres" else None
    with FrazilServer(database_url=url) as server:
        result = run_rck(server.catalog_uri, WAREHOUSE)
    assert result.reasons(Verdict.FAILED) == {}
    assert result.passed == 145
    assert result.reasons(Verdict.ABORTED) == ALWAYS_ABORTED | ABORTED_BY_DEFAULT
    assert result.reasons(Verdict.SKIPPED) == SKIPPED


def test_names_with_dots_pass_as_well() -> None:
    with FrazilServer() as server:
        result = run_rck(server.catalog_uri, WAREHOUSE, properties={"rck.supports-names-with-dot": "true"})
    assert result.reasons(Verdict.FAILED) == {}
    assert result.reasons(Verdict.ABORTED) == ALWAYS_ABORTED
