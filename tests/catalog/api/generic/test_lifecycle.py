"""Create, list, load, rename, drop: what is said comes back, what is wrong is refused and changes nothing."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from tests.catalog.api.client import Catalog, key, segment
from tests.catalog.api.generic.support import Generic, Levels, local_warehouse

from frazil.catalog.server import endpoints
from frazil.devstack.frazil_server import FrazilServer

MIB = 1024 * 1024


def test_the_life_of_a_generic_table(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    created = generic.create(
        ns, "Embeddings", format="lance", doc="ours", properties={"owner": "ml", "": "é"}
    ).ok()
    location = created["table"]["base-location"]
    assert created["table"] == {
        "name": "Embeddings",
        "format": "lance",
        "base-location": location,
        "protected": False,
        "doc": "ours",
        "properties": {"owner": "ml", "": "é"},
    }
    assert created["config"] == {}
    assert "storage-credentials" not in created
    assert generic.load(ns, "Embeddings").ok() == created
    listed = generic.send("GET", generic.tables(ns)).ok()
    (entry,) = listed["identifiers"]
    assert entry == {"namespace": list(ns), "name": "Embeddings", "format": "lance", "id": entry["id"]}
    assert listed["next-page-token"] is None
    assert generic.send("GET", generic.table(ns, "Embeddings") + "/credentials").ok() == {
        "storage-credentials": []
    }
    catalog.create_namespace(*ns, "inner").ok()
    generic.rename((ns, "Embeddings"), ((*ns, "inner"), "vectors")).ok(204)
    generic.load(ns, "Embeddings").refused(404, "NoSuchGenericTableException", f"{ns[0]}.Embeddings")
    moved = generic.load((*ns, "inner"), "vectors").ok()["table"]
    assert moved == created["table"] | {"name": "vectors"}
    assert generic.names(ns) == []
    assert generic.names((*ns, "inner")) == ["vectors"]
    generic.drop((*ns, "inner"), "vectors").ok(204)
    generic.load((*ns, "inner"), "vectors").refused(404, "NoSuchGenericTableException")
    generic.drop((*ns, "inner"), "vectors").refused(404, "NoSuchGenericTableException")


VERBATIM = [
    '{"z":1,"a":{"y":[],"b":null},"Ü":"ü\\u00fc"}',
    "0.1000000000000000055511151231257827",
    "[1.0,1,1e0,-0.0,1E+2,9007199254740993,123456789012345678901234567890]",
    '"only a string"',
    "false",
    "[]",
    '{"a":1,"a":2}',
]


@pytest.mark.parametrize("value", VERBATIM)
def test_schema_and_statistics_come_back_to_the_letter(generic: Generic, ns: Levels, value: str) -> None:
    """Key order and the digits of numbers included; only white space between tokens may go."""
    body = f'{{"name":"t","format":"delta","schema": {value} ,"statistics":[ {value} ]}}'
    created = generic.send("POST", generic.tables(ns), body.encode())
    created.ok()
    for answer in (created, generic.load(ns, "t")):
        answer.ok()
        assert f'"schema":{value},"statistics":[{value}]'.encode() in answer.body


def test_null_is_not_given(generic: Generic, ns: Levels) -> None:
    nothing = dict.fromkeys(("base_location", "doc", "properties", "schema", "statistics"))
    table = generic.create(ns, "t", **nothing).ok()["table"]
    assert set(table) == {"name", "format", "base-location", "protected", "properties"}
    assert table["properties"] == {}


@pytest.mark.parametrize("field", ["schema", "statistics"])
def test_the_largest_json(generic: Generic, ns: Levels, field: str) -> None:
    largest = "x" * (MIB - 2)
    # White space does not count.
    body = f'{{"name":"t","format":"csv","{field}":{" " * 100}"{largest}"}}'
    generic.send("POST", generic.tables(ns), body.encode()).ok()
    assert generic.load(ns, "t").ok()["table"][field] == largest
    generic.create(ns, "u", None, **{field: largest + "x"}).refused(400, "PayloadTooLarge", field, str(MIB))
    generic.load(ns, "u").refused(404)


def test_a_warehouse_by_name(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    generic.create(ns, "t").ok()
    for name in ("default", "DEFAULT", catalog.prefix.upper()):
        by_name = Generic(catalog.client, name)
        assert by_name.load(ns, "t").ok() == generic.load(ns, "t").ok()
        assert by_name.names(ns) == ["t"]
    headers = key()
    by_name = Generic(catalog.client, "default")
    by_name.create(ns, "u", headers).ok()
    by_name.create(ns, "u", headers).ok()
    by_name.rename((ns, "u"), (ns, "v")).ok(204)
    by_name.drop(ns, "v").ok(204)
    other = {"x-project-id": str(uuid4())}
    by_name.load(ns, "t", other).refused(404, "NoSuchWarehouseException")
    generic.load(ns, "t", other).ok()
    by_name.load(ns, "t", {"x-project-id": "not/one"}).refused(400)
    Generic(catalog.client, "no such").load(ns, "t").refused(404, "NoSuchWarehouseException", "no such")
    Generic(catalog.client, str(uuid4())).load(ns, "t").refused(404, "NoSuchWarehouseException")


def test_a_warehouse_name_that_needs_escaping(catalog: Catalog, tmp_path: Any) -> None:
    name = f"größe/50 % {uuid4().hex[:6]}"
    body = {"warehouse-name": name, "storage-profile": {"type": "local", "path": str(tmp_path / "w")}}
    made = catalog.client.send("POST", "/management/v1/warehouse", body).ok(201)
    Catalog(catalog.client, made["id"]).create_namespace("ns").ok()
    Generic(catalog.client, name).create(("ns",), "t").ok()
    assert Generic(catalog.client, made["id"]).names(("ns",)) == ["t"]
    deactivate = f"/management/v1/warehouse/{made['id']}/deactivate"
    catalog.client.send("POST", deactivate).ok()
    Generic(catalog.client, made["id"]).load(("ns",), "t").refused(404, "WarehouseNotActive")


def test_a_warehouse_called_like_the_id_of_another(server: FrazilServer, catalog: Catalog) -> None:
    """An id is only ever that warehouse's: nobody can take over the requests to another."""
    mine, _ = local_warehouse(server, catalog.client)
    thief, _ = local_warehouse(server, catalog.client)
    rename = {"new-name": mine.prefix}
    catalog.client.send("POST", f"/management/v1/warehouse/{thief.prefix}/rename", rename).ok()
    Generic(catalog.client, mine.prefix).create(("ns",), "t").ok()
    assert Generic(catalog.client, mine.prefix).names(("ns",)) == ["t"]
    assert Generic(catalog.client, thief.prefix).names(("ns",)) == []


def test_pages(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    wanted = sorted(f"t{number:02}" for number in range(7))
    for name in reversed(wanted):
        generic.create(ns, name, format=f"f{name}").ok()
    for name in ("t00a", "t03a"):
        catalog.create_table(ns, name).ok()
    catalog.create_view(ns, "t05a").ok()
    assert generic.names(ns) == wanted
    seen: list[str] = []
    token = ""
    sizes = []
    while True:
        page = generic.send("GET", f"{generic.tables(ns)}?pageSize=3&pageToken={token}").ok()
        sizes.append(len(page["identifiers"]))
        for entry in page["identifiers"]:
            assert entry["format"] == f"f{entry['name']}"
            seen.append(entry["name"])
        if page["next-page-token"] is None:
            break
        token = segment(page["next-page-token"])
    assert (seen, sizes) == (wanted, [3, 3, 1])
    bad = generic.send("GET", f"{generic.tables(ns)}?pageToken=%C3%A9")
    bad.refused(400, "InvalidPaginationToken")
    generic.send("GET", f"{generic.tables(ns)}?pageSize=0").refused(400)
    generic.send("GET", generic.tables(("nowhere",))).refused(404, "NoSuchNamespaceException")


ODD = [
    "a/b",
    "a.b",
    "..",
    " ",
    "t 1",
    "日本",
    "naïve",
    "100%",
    "%2F",
    "a?b#c",
    "'; DROP TABLE x; --",
    "🧊" * 20,
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names(catalog: Catalog, generic: Generic, ns: Levels, name: str) -> None:
    deep = (*ns, name)
    catalog.create_namespace(*deep).ok()
    created = generic.create(deep, name).ok()
    assert created["table"]["name"] == name
    assert generic.load(deep, name).ok() == created
    assert generic.names(deep) == [name]
    generic.create(deep, name.upper()).refused(409)
    generic.rename((deep, name), (ns, name)).ok(204)
    generic.drop(ns, name).ok(204)
    assert generic.names(deep) == generic.names(ns) == []


@pytest.mark.parametrize("name", ["", "a+b", "x" * 256, "a\tb", "a\x1fb", "\x7f"])
def test_bad_names(generic: Generic, ns: Levels, name: str) -> None:
    generic.create(ns, name).refused(400, "InvalidName", "name")
    generic.create(ns, "t").ok()
    generic.rename((ns, "t"), (ns, name)).refused(400, "InvalidName", "destination.name")
    assert generic.names(ns) == ["t"]


@pytest.mark.parametrize("name", ["", "Lance", "1ance", "_x", "-x", "a b", "a.b", "é", "a" * 65, "lance\n"])
def test_bad_formats(generic: Generic, ns: Levels, name: str) -> None:
    generic.create(ns, "t", format=name).refused(400, "InvalidFormat", "format")
    assert generic.names(ns) == []


@pytest.mark.parametrize("name", ["a", "delta", "a-_9", "a" * 64])
def test_good_formats(generic: Generic, ns: Levels, name: str) -> None:
    assert generic.create(ns, "t", format=name).ok()["table"]["format"] == name


@pytest.mark.parametrize(
    "body",
    [
        {"name": "t"},
        {"format": "csv"},
        {"name": "t", "format": None},
        {"name": "t", "format": 1},
        {"name": 1, "format": "csv"},
        {"name": "t", "format": "csv", "doc": 1},
        {"name": "t", "format": "csv", "properties": {"a": 1}},
        {"name": "t", "format": "csv", "properties": {"a": None}},
        {"name": "t", "format": "csv", "properties": []},
        {"name": "t", "format": "csv", "base-location": 1},
        {"name": "t", "format": "csv", "schema": json.loads("[" * 400 + "]" * 400)},
        {"name": "t", "format": "csv", "statistics": {"a": "\0"}},
        ["t"],
    ],
)
def test_bad_bodies(generic: Generic, ns: Levels, body: object) -> None:
    generic.send("POST", generic.tables(ns), body).refused(400)
    assert generic.names(ns) == []


@pytest.mark.parametrize("body", [b"", b"{", b'{"name":"t","format":"csv","schema":}', b'{"schema":1e999}'])
def test_bodies_that_are_no_json(generic: Generic, ns: Levels, body: bytes) -> None:
    generic.send("POST", generic.tables(ns), body).refused(400)
    assert generic.names(ns) == []


def test_rename_refused(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    generic.create(ns, "t").ok()
    generic.create(ns, "u").ok()
    catalog.create_table(ns, "iceberg").ok()
    generic.rename((ns, "none"), (ns, "x")).refused(404, "NoSuchGenericTableException")
    generic.rename((ns, "t"), (("nowhere",), "x")).refused(404, "NoSuchNamespaceException")
    generic.rename((ns, "t"), (ns, "u")).refused(409, "AlreadyExistsException", "Generic table")
    generic.rename((ns, "t"), (ns, "Iceberg")).refused(409, "AlreadyExistsException", "Table")
    generic.rename((ns, "iceberg"), (ns, "x")).refused(404, "NoSuchGenericTableException")
    catalog.rename((ns, "t"), (ns, "x")).refused(404, "NoSuchTableException")
    catalog.rename((ns, "t"), (ns, "x"), "views").refused(404, "NoSuchViewException")
    assert generic.names(ns) == ["t", "u"]
    generic.rename((ns, "t"), (ns, "T")).ok(204)
    assert generic.names(ns) == ["T", "u"]


def test_an_idempotency_key(generic: Generic, ns: Levels) -> None:
    create, rename, drop = key(), key(), key()
    first = generic.create(ns, "t", create, schema=[1.50]).ok()
    assert generic.create(ns, "t", create, schema=[1.50]).ok() == first
    generic.create(ns, "t", create, schema=[2]).refused(422)
    generic.create(ns, "t", key()).refused(409, "GenericTableAlreadyExists")
    for _ in range(2):
        generic.rename((ns, "t"), (ns, "u"), rename).ok(204)
    assert generic.create(ns, "t", create, schema=[1.50]).ok() == first, "also after it was renamed"
    for _ in range(2):
        generic.drop(ns, "u", headers=drop).ok(204)
    assert generic.names(ns) == []


def test_a_query_that_cannot_be_meant(generic: Generic, ns: Levels) -> None:
    generic.create(ns, "t").ok()
    for query in ("?purgeRequested=maybe", "?force=2"):
        generic.drop(ns, "t", query).refused(400)
    assert generic.names(ns) == ["t"]


def test_described_and_not_advertised(catalog: Catalog) -> None:
    """Iceberg's clients are told of the spec's endpoints only."""
    document = catalog.client.send("GET", "/openapi.json").ok()
    ours = {path: set(methods) for path, methods in document["paths"].items() if "/lakekeeper/" in path}
    root = "/lakekeeper/v1/{warehouse}"
    tables = root + "/namespaces/{namespace}/generic-tables"
    assert ours == {
        tables: {"get", "post"},
        tables + "/{table}": {"get", "delete"},
        tables + "/{table}/credentials": {"get"},
        root + "/generic-tables/rename": {"post"},
    }
    assert len([e for e in endpoints() if e.tag == "Generic tables"]) == 6
    advertised = catalog.client.send("GET", "/catalog/v1/config").ok()["endpoints"]
    assert not [endpoint for endpoint in advertised if "generic" in endpoint]
