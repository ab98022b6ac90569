from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.catalog.api.client import Answer, Catalog

PROJECT = "00000000-0000-0000-0000-000000000000"


def config(catalog: Catalog, headers: dict[str, str] | None = None, **query: str) -> Answer:
    return catalog.client.send("GET", f"/catalog/v1/config?{urlencode(query)}", headers=headers)


@pytest.mark.parametrize("named", ["default", "DEFAULT", f"{PROJECT}/default", "uuid", "UUID"])
def test_a_warehouse_is_found_by_each_of_its_names(catalog: Catalog, named: str) -> None:
    named = {"uuid": catalog.prefix, "UUID": catalog.prefix.upper()}.get(named, named)
    assert config(catalog, warehouse=named).ok()["defaults"]["prefix"] == catalog.prefix


def test_a_warehouse_called_like_the_id_of_another_does_not_answer_for_it(
    catalog: Catalog, tmp_path: Path
) -> None:
    body = {
        "warehouse-name": catalog.prefix,
        "storage-profile": {"type": "local", "path": str(tmp_path / "thief")},
    }
    thief = catalog.client.send("POST", "/management/v1/warehouse", body).ok(201)["id"]
    try:
        assert config(catalog, warehouse=catalog.prefix).ok()["defaults"]["prefix"] == catalog.prefix
        assert config(catalog, warehouse=f"{PROJECT}/{catalog.prefix}").ok()["defaults"]["prefix"] == thief
    finally:
        catalog.client.send("DELETE", f"/management/v1/warehouse/{thief}").ok(204)


def test_without_a_warehouse_the_default_one_answers(catalog: Catalog) -> None:
    answer = catalog.client.send("GET", "/catalog/v1/config").ok()
    assert answer["defaults"]["prefix"] == catalog.prefix
    assert answer["overrides"]["uri"] == f"http://127.0.0.1:{catalog.client.port}/catalog"
    assert answer["idempotency-key-lifetime"] == "PT30M"
    assert config(catalog, warehouse="").ok()["defaults"]["prefix"] == catalog.prefix


def test_the_endpoints_are_the_spec_s_own_words(catalog: Catalog) -> None:
    offered = set(config(catalog).ok()["endpoints"])
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    view = "/v1/{prefix}/namespaces/{namespace}/views/{view}"
    assert offered >= {
        "GET /v1/{prefix}/namespaces",
        "POST /v1/{prefix}/namespaces",
        "GET /v1/{prefix}/namespaces/{namespace}",
        "HEAD /v1/{prefix}/namespaces/{namespace}",
        "DELETE /v1/{prefix}/namespaces/{namespace}",
        "POST /v1/{prefix}/namespaces/{namespace}/properties",
        "GET /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/tables",
        "POST /v1/{prefix}/namespaces/{namespace}/register",
        *(f"{method} {table}" for method in ("GET", "HEAD", "POST", "DELETE")),
        f"POST {table}/metrics",
        "POST /v1/{prefix}/tables/rename",
        "POST /v1/{prefix}/transactions/commit",
        "GET /v1/{prefix}/namespaces/{namespace}/views",
        "POST /v1/{prefix}/namespaces/{namespace}/views",
        *(f"{method} {view}" for method in ("GET", "HEAD", "POST", "DELETE")),
        "POST /v1/{prefix}/views/rename",
    }


def test_every_advertised_endpoint_exists(catalog: Catalog) -> None:
    for offered in config(catalog).ok()["endpoints"]:
        method, _, path = offered.partition(" ")
        filled = path.replace("{prefix}", catalog.prefix).replace("{", "no-").replace("}", "")
        answer = catalog.client.send(method, "/catalog" + filled, {} if method == "POST" else None)
        # 403: requests to files on local disk are not signed.
        assert answer.status in (200, 204, 400, 403, 404), offered
        if answer.status == 404 and answer.body:
            assert answer.error()["type"] != "NoSuchEndpoint", offered


@pytest.mark.parametrize(
    "named",
    [
        "nothing",
        f"{PROJECT}/nothing",
        "11111111-2222-3333-4444-555555555555/default",
        "11111111-2222-3333-4444-555555555555",
        "default/",
        "/default",
        " default",
        "défaut",
        "x" * 5000,
    ],
)
def test_an_unknown_warehouse(catalog: Catalog, named: str) -> None:
    config(catalog, warehouse=named).refused(404, "NoSuchWarehouseException")


def test_another_project_has_another_default(catalog: Catalog) -> None:
    other = {"x-project-id": "11111111-2222-3333-4444-555555555555"}
    config(catalog, other, warehouse="default").refused(404, "NoSuchWarehouseException")
    config(catalog, {"x-project-id": PROJECT}, warehouse="default").ok()


@pytest.mark.parametrize(
    "prefix", ["default", "1", "%20", "00000000-0000-0000-0000-00000000000g", "a" * 2000]
)
def test_a_prefix_that_is_not_a_warehouse_id(catalog: Catalog, prefix: str) -> None:
    answer = catalog.client.send("GET", f"/catalog/v1/{prefix}/namespaces")
    answer.refused(400, "PrefixIsNotWarehouseID")


def test_a_prefix_of_no_warehouse(catalog: Catalog) -> None:
    root = "/catalog/v1/11111111-2222-3333-4444-555555555555"
    for path in ("/namespaces", "/namespaces/a", "/namespaces/a/tables", "/namespaces/a/tables/t"):
        catalog.client.send("GET", root + path).refused(404, "NoSuchWarehouseException")
    body = {"namespace": ["a"]}
    catalog.client.send("POST", f"{root}/namespaces", body).refused(404, "NoSuchWarehouseException")


def test_the_prefix_is_not_case_sensitive(catalog: Catalog, ns: tuple[str, ...]) -> None:
    upper = Catalog(catalog.client, catalog.prefix.upper())
    upper.create_table(ns, "t").ok()
    upper.commit(ns, "t", {"action": "set-properties", "updates": {"a": "b"}}).ok()
    assert catalog.load(ns, "t").ok()["metadata"]["properties"]["a"] == "b"
