"""Iceberg's own REST Compatibility Kit against the server, on both databases."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.rck import Verdict, run_rck

pytestmark = [pytest.mark.jvm, pytest.mark.services, pytest.mark.slow]

CATALOG = "RESTCompatibilityKitCatalogTests"
WAREHOUSE = "kit"
PLACED = "frazil-kit-of-"
TEMPORARY = "/tmp"
SETTINGS = {"java.io.tmpdir": TEMPORARY}
VIEWS = "RESTCompatibilityKitViewCatalogTests"


def _assumed(text: str = "") -> str:
    return (
        f"assumption was not met due to: {text}{' ' if text else ''}Expecting value to be true but was false"
    )


_NESTED = _assumed("[Only valid when the catalog supports nested namespaces]")

# What the kit leaves out by its own fixed choice: it has no setting for nested and empty namespaces
# or for slashes, whatever the server can do. Tests of ours cover them.
ALWAYS_ABORTED = {
    f"{CATALOG}.testListNestedNamespaces": _NESTED,
    f"{CATALOG}.testDropNamespaceWithNestedNamespace": _NESTED,
    f"{CATALOG}.testNamespaceWithSlash": _assumed(),
    f"{CATALOG}.testTableNameWithSlash": _assumed(),
    f"{CATALOG}.createAndDropEmptyNamespace": _assumed(
        "[Only valid for catalogs that support creating/dropping empty namespaces]"
    ),
    f"{CATALOG}.listNamespacesWithEmptyNamespace": _assumed(
        "[Only valid for catalogs that support empty namespaces]"
    ),
    f"{CATALOG}.listTablesInEmptyNamespace": _assumed(
        "[Only valid for catalogs that support listing tables in empty namespaces]"
    ),
    f"{CATALOG}.namespacePropertiesOnEmptyNamespace": _assumed(
        "[Only valid for catalogs that support properties on empty namespaces]"
    ),
    f"{VIEWS}.listViewsInEmptyNamespace": _assumed(
        "[Only valid for catalogs that support listing views in empty namespaces]"
    ),
}
# Off unless asked for; the second test asks.
ABORTED_BY_DEFAULT = {
    f"{CATALOG}.testNamespaceWithDot": _assumed(),
    f"{CATALOG}.testTableNameWithDot": _assumed(),
}
SKIPPED = {f"{CATALOG}.createTableInUniqueLocation": "RESTServerExtension isn’t configurable per test"}  # noqa: RUF001


@contextmanager
def server_for_the_kit(database_url: str | None = None) -> Iterator[FrazilServer]:
    """A server with a warehouse at `/tmp`, and its own data elsewhere.

    Thirteen tests of the kit ask for fixed locations there; the server refuses locations outside
    the warehouse, and a warehouse that holds the server's own data.
    """
    # What the server places itself goes below one directory, which is removed afterwards.
    layout = {"type": "full-hierarchy", "namespace": f"{PLACED}{{name}}", "tabular": "{uuid}"}
    profile = {"type": "local", "path": TEMPORARY, "storage-layout": layout}
    body = json.dumps({"warehouse-name": WAREHOUSE, "storage-profile": profile}).encode()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="frazil-kit-", dir="/var/tmp") as directory,
            FrazilServer(Path(directory), database_url=database_url) as server,
        ):
            headers = {"content-type": "application/json"}
            address = f"{server.management_uri}/warehouse"
            request = urllib.request.Request(address, body, headers, method="POST")
            with urllib.request.urlopen(request) as answer:
                assert answer.status == 201
            yield server
    finally:
        # Not before the server has ended: it is still deleting the files of tables that the kit purged.
        for left in Path(TEMPORARY).glob(f"{PLACED}*"):
            shutil.rmtree(left)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_kit_finds_nothing_wrong(database: str, postgres_url: Callable[[], str]) -> None:
    url = postgres_url() if database == "postgres" else None
    with server_for_the_kit(url) as server:
        result = run_rck(server.catalog_uri, WAREHOUSE, SETTINGS)
    assert result.reasons(Verdict.FAILED) == {}
    assert result.passed == 145
    assert result.reasons(Verdict.ABORTED) == ALWAYS_ABORTED | ABORTED_BY_DEFAULT
    assert result.reasons(Verdict.SKIPPED) == SKIPPED


def test_names_with_dots_pass_as_well() -> None:
    with server_for_the_kit() as server:
        result = run_rck(server.catalog_uri, WAREHOUSE, SETTINGS | {"rck.supports-names-with-dot": "true"})
    assert result.reasons(Verdict.FAILED) == {}
    assert result.reasons(Verdict.ABORTED) == ALWAYS_ABORTED
