from __future__ import annotations

import json
from pathlib import Path

from tests.catalog.api.client import (
    Answer,
    Catalog,
    Json,
    column,
    identifier,
    key,
    local_path,
    schema,
    set_properties,
    view_version,
)

Levels = tuple[str, ...]
LATEST: Json = {"action": "set-current-view-version", "view-version-id": -1}
UUID = "11111111-2222-3333-4444-555555555555"


def replace(catalog: Catalog, ns: Levels, name: str, *updates: Json, **more: object) -> Answer:
    return catalog.send("POST", catalog.table_path(ns, name, "views"), {"updates": list(updates), **more})


def test_create_load_list_exists_drop(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_view(ns, "v", properties={"a": "b"}).ok()
    metadata = created["metadata"]
    assert metadata["format-version"] == 1
    assert metadata["current-version-id"] == 1
    assert metadata["properties"] == {"a": "b"}
    assert json.loads(Path(local_path(created["metadata-location"])).read_bytes()) == metadata
    path = catalog.table_path(ns, "v", "views")
    assert catalog.send("GET", path).ok() == created
    listed = catalog.send("GET", catalog.namespace_path(ns, "views")).ok()["identifiers"]
    assert listed == [{"namespace": list(ns), "name": "v"}]
    assert catalog.send("GET", catalog.namespace_path(ns, "tables")).ok()["identifiers"] == []
    assert catalog.send("HEAD", path).status == 204
    assert catalog.send("HEAD", catalog.table_path(ns, "v")).status == 404
    catalog.load(ns, "v").refused(404, "NoSuchTableException")
    catalog.create_view(ns, "V").refused(409, "AlreadyExistsException", "View already exists")
    catalog.create_table(ns, "v").refused(409, "AlreadyExistsException", "View with same name")
    catalog.send("DELETE", catalog.table_path(ns, "v")).refused(404, "NoSuchTableException")
    catalog.send("DELETE", path).ok(204)
    catalog.send("GET", path).refused(404, "NoSuchViewException", "v")
    assert catalog.send("HEAD", path).status == 404
    catalog.send("DELETE", path).refused(404, "NoSuchViewException")
    catalog.create_table(ns, "t").ok()
    catalog.create_view(ns, "t").refused(409, "AlreadyExistsException", "Table with same name")
    catalog.send("GET", catalog.table_path(ns, "t", "views")).refused(404, "NoSuchViewException")
    catalog.create_view((*ns, "none"), "v").refused(404, "NoSuchNamespaceException")


def test_replace(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_view(ns, "v").ok()["metadata"]
    same = [{"type": "assert-view-uuid", "uuid": created["view-uuid"]}]
    added = {"action": "add-view-version", "view-version": view_version(2, "SELECT 2")}
    answer = replace(catalog, ns, "v", added, LATEST, requirements=same).ok()
    assert "/metadata/00001-" in answer["metadata-location"]
    assert answer["metadata"]["current-version-id"] == 2
    assert [v["version-id"] for v in answer["metadata"]["versions"]] == [1, 2]
    assert [v["version-id"] for v in answer["metadata"]["version-log"]] == [1, 2]
    wider = {"action": "add-schema", "schema": schema(column(1, "other"))}
    third = {"action": "add-view-version", "view-version": view_version(3, "SELECT 3", **{"schema-id": -1})}
    answer = replace(catalog, ns, "v", wider, third, LATEST, set_properties(x="y")).ok()
    assert answer["metadata"]["versions"][-1]["schema-id"] == 1
    assert answer["metadata"]["properties"] == {"x": "y"}
    assert catalog.send("GET", catalog.table_path(ns, "v", "views")).ok()["metadata"] == answer["metadata"]
    nothing = replace(catalog, ns, "v").ok()
    assert nothing["metadata-location"] == answer["metadata-location"]


def test_replacements_that_are_refused(catalog: Catalog, ns: Levels) -> None:
    before = catalog.create_view(ns, "v").ok()
    other = [{"type": "assert-view-uuid", "uuid": UUID}]
    replace(catalog, ns, "v", set_properties(a="b"), requirements=other).refused(409, "CommitFailedException")
    replace(catalog, ns, "none", set_properties(a="b")).refused(404, "NoSuchViewException")
    catalog.create_table(ns, "t").ok()
    replace(catalog, ns, "t", set_properties(a="b")).refused(404, "NoSuchViewException")
    trino = [{"type": "sql", "sql": "SELECT 2", "dialect": "trino"}]
    lost = {"action": "add-view-version", "view-version": view_version(2, representations=trino)}
    replace(catalog, ns, "v", lost, LATEST).refused(400, None, "spark", "replace.drop-dialect.allowed")
    replace(catalog, ns, "v", LATEST).refused(400, None, "updates[0]")
    replace(catalog, ns, "v", {"action": "assign-uuid", "uuid": UUID}).refused(400, None, "updates[0]")
    replace(catalog, ns, "v", {"action": "add-snapshot"}).refused(400, None, "updates[0]")
    replace(catalog, ns, "v", {"action": "set-location", "location": "file:///tmp/x"}).refused(
        400, None, "location"
    )
    current = catalog.send("GET", catalog.table_path(ns, "v", "views")).ok()
    assert current == before
    assert len(list(Path(local_path(before["metadata-location"])).parent.iterdir())) == 1


def test_the_identifier_in_the_body_must_be_the_path_s(catalog: Catalog, ns: Levels) -> None:
    catalog.create_view(ns, "v").ok()
    replace(catalog, ns, "v", set_properties(a="b"), identifier=identifier(ns, "V")).ok()
    for other in (identifier(ns, "w"), identifier((*ns, "x"), "v")):
        answer = replace(catalog, ns, "v", set_properties(c="d"), identifier=other)
        answer.refused(400, "BadRequestException", "identifier")
    metadata = catalog.send("GET", catalog.table_path(ns, "v", "views")).ok()["metadata"]
    assert metadata["properties"] == {"a": "b"}


def test_create_refuses_what_cannot_be_a_view(catalog: Catalog, ns: Levels) -> None:
    twice = [{"type": "sql", "sql": "SELECT 1", "dialect": d} for d in ("spark", "SPARK")]
    for representations, word in (([], "representation"), (twice, "dialect")):
        bad = view_version(representations=representations)
        catalog.create_view(ns, "v", **{"view-version": bad}).refused(400, None, word)
    negative = view_version(-5)
    catalog.create_view(ns, "v", **{"view-version": negative}).refused(400, None, "version-id")
    other = [{"type": "sparkle", "sql": "x", "dialect": "y"}]
    catalog.create_view(ns, "v", **{"view-version": view_version(representations=other)}).refused(
        400, None, "view-version.representations[0].type"
    )


def test_rename(catalog: Catalog, ns: Levels) -> None:
    other = (*ns, "other")
    catalog.create_namespace(*other).ok()
    created = catalog.create_view(ns, "v").ok()
    catalog.rename((ns, "v"), (other, "w"), "views").ok(204)
    assert catalog.send("GET", catalog.table_path(other, "w", "views")).ok() == created
    catalog.rename((ns, "v"), (other, "x"), "views").refused(404, "NoSuchViewException")
    catalog.create_table(ns, "t").ok()
    catalog.rename((other, "w"), (ns, "t"), "views").refused(409, "AlreadyExistsException")
    catalog.rename((ns, "t"), (ns, "x"), "views").refused(404, "NoSuchViewException")
    catalog.rename((other, "w"), ((*ns, "no"), "x"), "views").refused(404, "NoSuchNamespaceException")


def test_register(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_view(ns, "v").ok()
    catalog.send("DELETE", catalog.table_path(ns, "v", "views")).ok(204)
    path = catalog.namespace_path(ns, "register-view")
    body = {"name": "back", "metadata-location": created["metadata-location"]}
    assert catalog.send("POST", path, body).ok()["metadata"] == created["metadata"]
    catalog.send("POST", path, body).refused(409, "AlreadyExistsException")
    table = catalog.create_table(ns, "t").ok()
    wrong = {"name": "x", "metadata-location": table["metadata-location"]}
    catalog.send("POST", path, wrong).refused(400, "BadRequestException", "the metadata file")
    none = {"name": "x", "metadata-location": created["metadata-location"] + ".none"}
    catalog.send("POST", path, none).refused(400, None, "metadata-location")


def test_history_is_bounded(catalog: Catalog, ns: Levels) -> None:
    catalog.create_view(ns, "v", properties={"version.history.num-entries": "3"}).ok()
    for number in range(2, 8):
        added = {"action": "add-view-version", "view-version": view_version(number, f"SELECT {number}")}
        metadata = replace(catalog, ns, "v", added, LATEST).ok()["metadata"]
    assert [v["version-id"] for v in metadata["versions"]] == [5, 6, 7]


def test_idempotent_views(catalog: Catalog, ns: Levels) -> None:
    headers = key()
    body = {"name": "v", "schema": schema(), "view-version": view_version(), "properties": {}}
    path = catalog.namespace_path(ns, "views")
    first = catalog.send("POST", path, body, headers).ok()
    assert catalog.send("POST", path, body, headers).ok() == first
    catalog.send("POST", path, body).refused(409)
    headers = key()
    change = {"updates": [set_properties(a="b")]}
    target = catalog.table_path(ns, "v", "views")
    changed = catalog.send("POST", target, change, headers).ok()
    assert catalog.send("POST", target, change, headers).ok() == changed
    headers = key()
    assert [catalog.send("DELETE", target, headers=headers).status for _ in range(2)] == [204, 204]
