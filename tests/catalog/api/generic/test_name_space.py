"""Tables, views and generic tables share one name space, and none can be taken for another."""

from __future__ import annotations

import pytest
from tests.catalog.api.client import Catalog, Json, set_properties
from tests.catalog.api.generic.support import Generic, Levels, local_warehouse, wait_until

from frazil.devstack.frazil_server import FrazilServer


def test_a_generic_name_is_taken(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    generic.create(ns, "Taken", format="delta").ok()
    for name in ("Taken", "tAKEN"):
        kind, message = "AlreadyExistsException", "Generic table with same name already exists"
        catalog.create_table(ns, name).refused(409, kind, message)
        catalog.create_table(ns, name, None, **{"stage-create": True}).refused(409, kind, message)
        catalog.create_view(ns, name).refused(409, kind, message)
        generic.create(ns, name).refused(409, "GenericTableAlreadyExists", "Generic table already exists")
    catalog.create_table(ns, "t").ok()
    catalog.create_view(ns, "v").ok()
    catalog.rename((ns, "t"), (ns, "taken")).refused(409, "AlreadyExistsException", "Generic table")
    catalog.rename((ns, "v"), (ns, "taken"), "views").refused(409, "AlreadyExistsException")
    create: Json = {"type": "assert-create"}
    commit = catalog.commit(ns, "taken", set_properties(a="b"), requirements=[create])
    assert commit.status == 409
    assert generic.load(ns, "taken").ok()["table"]["format"] == "delta"


def test_registering_over_a_generic_table(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    made = catalog.create_table(ns, "t").ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    generic.create(ns, "t").ok()
    for overwrite in (False, True):
        body = {"name": "t", "metadata-location": made["metadata-location"], "overwrite": overwrite}
        answer = catalog.send("POST", catalog.namespace_path(ns, "register"), body)
        answer.refused(409, "AlreadyExistsException")
    generic.load(ns, "t").ok()


@pytest.mark.parametrize("kind", ["table", "view"])
def test_an_iceberg_name_is_taken(catalog: Catalog, generic: Generic, ns: Levels, kind: str) -> None:
    (catalog.create_table if kind == "table" else catalog.create_view)(ns, "Taken").ok()
    message = f"{kind.capitalize()} with same name"
    generic.create(ns, "tAKEN").refused(409, "GenericTableAlreadyExists", message)
    generic.create(ns, "g").ok()
    generic.rename((ns, "g"), (ns, "taken")).refused(409, "AlreadyExistsException", kind.capitalize())


def test_not_an_iceberg_table(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    generic.create(ns, "g").ok()
    table, view = catalog.table_path(ns, "g"), catalog.table_path(ns, "g", "views")
    catalog.load(ns, "g").refused(404, "NoSuchTableException", f"Table does not exist: {ns[0]}.g")
    catalog.send("GET", view).refused(404, "NoSuchViewException")
    assert catalog.send("HEAD", table).status == 404
    assert catalog.send("HEAD", view).status == 404
    catalog.commit(ns, "g", set_properties(a="b")).refused(404, "NoSuchTableException")
    catalog.send("DELETE", table, purgeRequested="true").refused(404, "NoSuchTableException")
    catalog.send("DELETE", view).refused(404, "NoSuchViewException")
    for kind in ("tables", "views"):
        assert catalog.send("GET", catalog.namespace_path(ns, kind)).ok()["identifiers"] == []
    generic.load(ns, "g").ok()


def test_an_iceberg_table_is_not_generic(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    catalog.create_view(ns, "v").ok()
    for name in ("t", "v"):
        generic.load(ns, name).refused(404, "NoSuchGenericTableException")
        generic.send("GET", generic.table(ns, name) + "/credentials").refused(
            404, "NoSuchGenericTableException"
        )
        generic.drop(ns, name).refused(404, "NoSuchGenericTableException")
    assert generic.names(ns) == []
    catalog.load(ns, "t").ok()


def test_a_name_that_changes_its_kind(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    """What a server holds in memory of a name is never of the kind that was there before."""
    for _ in range(3):
        generic.create(ns, "t", format="csv").ok()
        assert generic.load(ns, "t").ok()["table"]["format"] == "csv"
        generic.drop(ns, "t", "?purgeRequested=false").ok(204)
        catalog.create_table(ns, "t").ok()
        assert catalog.load(ns, "t").ok()["metadata"]["format-version"] == 2
        catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)


def test_namespaces_and_warehouses_that_are_not_empty(server: FrazilServer, catalog: Catalog) -> None:
    catalog, _ = local_warehouse(server, catalog.client)
    generic = Generic(catalog.client, catalog.prefix)
    warehouse = f"/management/v1/warehouse/{catalog.prefix}"
    generic.create(("ns",), "g").ok()
    catalog.create_table(("ns",), "t").ok()
    catalog.send("DELETE", "/namespaces/ns").refused(409, "NamespaceNotEmptyException")
    catalog.client.send("DELETE", warehouse).refused(409, "WarehouseNotEmpty")
    stats = catalog.client.send("GET", f"{warehouse}/statistics").ok()["stats"][0]
    assert (stats["number-of-tables"], stats["number-of-views"]) == (1, 0)
    catalog.send("DELETE", catalog.table_path(("ns",), "t")).ok(204)
    catalog.send("DELETE", "/namespaces/ns").refused(409, "NamespaceNotEmptyException")
    generic.drop(("ns",), "g").ok(204)
    catalog.send("DELETE", "/namespaces/ns").ok(204)
    wait_until(lambda: catalog.client.send("DELETE", warehouse).status == 204, "the purge to be done")
