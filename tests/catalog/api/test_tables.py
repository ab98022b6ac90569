from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from tests.catalog.api.client import (
    Catalog,
    Json,
    add_snapshot,
    column,
    local_path,
    schema,
    set_properties,
    set_ref,
)

Levels = tuple[str, ...]


def test_create_load_list_exists_drop(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t", properties={"a": "b"}).ok()
    metadata = created["metadata"]
    assert metadata["format-version"] == 2
    assert metadata["properties"]["a"] == "b"
    assert metadata["last-column-id"] == 2
    assert metadata["snapshots"] == []
    written = json.loads(Path(local_path(created["metadata-location"])).read_bytes())
    assert written == metadata
    assert created["metadata-location"].startswith(metadata["location"] + "/metadata/00000-")
    loaded = catalog.load(ns, "t").ok()
    assert loaded == created
    assert catalog.send("GET", catalog.namespace_path(ns, "tables")).ok()["identifiers"] == [
        {"namespace": list(ns), "name": "t"}
    ]
    head = catalog.send("HEAD", catalog.table_path(ns, "t"))
    assert (head.status, head.body) == (204, b"")
    catalog.create_table(ns, "t").refused(409, "AlreadyExistsException", "t")
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    catalog.load(ns, "t").refused(404, "NoSuchTableException", "t")
    assert catalog.send("HEAD", catalog.table_path(ns, "t")).status == 404
    catalog.send("DELETE", catalog.table_path(ns, "t")).refused(404, "NoSuchTableException")
    assert Path(local_path(created["metadata-location"])).exists(), "a drop without purge keeps the files"


def test_missing_namespaces(catalog: Catalog, ns: Levels) -> None:
    none = (ns[0], "none")
    catalog.create_table(none, "t").refused(404, "NoSuchNamespaceException")
    catalog.send("GET", catalog.namespace_path(none, "tables")).refused(404, "NoSuchNamespaceException")
    catalog.load(none, "t").refused(404, "NoSuchTableException")


def test_field_ids_are_counted_afresh_and_references_follow(catalog: Catalog, ns: Levels) -> None:
    sent = schema(
        column(0, "id", required=True),
        column(7, "nested", {"type": "struct", "fields": [column(3, "x", "int"), column(9, "y", "string")]}),
        column(5, "tags", {"type": "list", "element-id": 2, "element": "string", "element-required": False}),
        column(
            4,
            "m",
            {
                "type": "map",
                "key-id": 6,
                "key": "string",
                "value-id": 8,
                "value": "int",
                "value-required": True,
            },
        ),
        column(20, "ts", "timestamptz"),
        **{"identifier-field-ids": [0]},
    )
    spec = {"spec-id": 5, "fields": [{"source-id": 20, "transform": "day", "name": "d", "field-id": 77}]}
    order = {
        "order-id": 9,
        "fields": [
            {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        ],
    }
    more: Json = {"partition-spec": spec, "write-order": order}
    metadata = catalog.create_table(ns, "t", schema=sent, **more).ok()["metadata"]
    fields = metadata["schemas"][0]["fields"]
    assert [(f["id"], f["name"]) for f in fields] == [
        (1, "id"),
        (2, "nested"),
        (3, "tags"),
        (4, "m"),
        (5, "ts"),
    ]
    assert [(f["id"], f["name"]) for f in fields[1]["type"]["fields"]] == [(6, "x"), (7, "y")]
    assert fields[2]["type"]["element-id"] == 8
    assert (fields[3]["type"]["key-id"], fields[3]["type"]["value-id"]) == (9, 10)
    assert metadata["schemas"][0]["identifier-field-ids"] == [1]
    assert metadata["last-column-id"] == 10
    assert metadata["partition-specs"] == [
        {"spec-id": 0, "fields": [{"source-id": 5, "transform": "day", "name": "d", "field-id": 1000}]}
    ]
    assert metadata["last-partition-id"] == 1000
    assert metadata["sort-orders"][0]["order-id"] == metadata["default-sort-order-id"] == 1
    assert metadata["sort-orders"][0]["fields"][0]["source-id"] == 6


def test_nulls_stand_for_absence(catalog: Catalog, ns: Levels) -> None:
    nothing: Json = dict.fromkeys(("location", "partition-spec", "write-order", "properties", "stage-create"))
    metadata = catalog.create_table(ns, "t", **nothing).ok()["metadata"]
    assert metadata["location"].startswith("file:///")
    assert metadata["partition-specs"][0]["fields"] == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_format_version_is_a_property(catalog: Catalog, ns: Levels, version: int) -> None:
    metadata = catalog.create_table(ns, "t", properties={"format-version": str(version)}).ok()["metadata"]
    assert metadata["format-version"] == version
    assert "format-version" not in metadata["properties"]
    assert ("next-row-id" in metadata) is (version == 3)


@pytest.mark.parametrize("version", ["0", "4", "x", "", "2.0", "-1"])
def test_format_versions_that_do_not_exist(catalog: Catalog, ns: Levels, version: str) -> None:
    answer = catalog.create_table(ns, "t", properties={"format-version": version})
    answer.refused(400, "BadRequestException", "format-version")


def test_a_staged_table_is_created_by_its_commit(catalog: Catalog, ns: Levels) -> None:
    staged = catalog.create_table(ns, "t", **Json({"stage-create": True})).ok()
    assert staged.get("metadata-location") is None
    catalog.load(ns, "t").refused(404)
    assert catalog.send("GET", catalog.namespace_path(ns, "tables")).ok()["identifiers"] == []
    metadata = staged["metadata"]
    updates: list[Json] = [
        {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": metadata["schemas"][0]},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": metadata["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": metadata["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": metadata["location"]},
        set_properties(made="by commit"),
        add_snapshot(1),
        set_ref(1),
    ]
    create = [{"type": "assert-create"}]
    landed = catalog.commit(ns, "t", *updates, requirements=create).ok()
    assert landed["metadata"]["table-uuid"] == metadata["table-uuid"]
    assert catalog.load(ns, "t").ok()["metadata"] == landed["metadata"]
    assert landed["metadata"]["current-snapshot-id"] == 1
    catalog.commit(ns, "t", *updates, requirements=create).refused(409, "CommitFailedException")


def test_a_commit_that_creates_needs_a_whole_table(catalog: Catalog, ns: Levels) -> None:
    create = [{"type": "assert-create"}]
    catalog.commit(ns, "t", set_properties(a="b"), requirements=create).refused(400, "BadRequestException")
    catalog.commit((ns[0], "none"), "t", set_properties(a="b"), requirements=create).refused(400)
    catalog.load(ns, "t").refused(404)


def test_loading_with_refs_leaves_other_snapshots_out(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    for number in (1, 2, 3):
        catalog.commit(ns, "t", add_snapshot(number), set_ref(number)).ok()
    catalog.commit(ns, "t", set_ref(1, "first", "tag")).ok()
    everything = catalog.load(ns, "t", snapshots="all").ok()["metadata"]
    refs = catalog.load(ns, "t", snapshots="refs").ok()["metadata"]
    assert [s["snapshot-id"] for s in everything["snapshots"]] == [1, 2, 3]
    assert [s["snapshot-id"] for s in refs["snapshots"]] == [1, 3]
    assert {**everything, "snapshots": []} == {**refs, "snapshots": []}
    assert catalog.load(ns, "t").ok()["metadata"] == everything
    catalog.load(ns, "t", snapshots="some").refused(400, "BadRequestException", "snapshots")


def test_an_etag_saves_the_body(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t")
    first = catalog.load(ns, "t")
    etag = first.headers["etag"]
    assert created.headers["etag"] == etag
    for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = catalog.load(ns, "t", {"If-None-Match": sent})
        assert (again.status, again.body) == (304, b""), sent
        assert again.headers["etag"] == etag
    assert catalog.load(ns, "t", {"If-None-Match": '"other"'}).status == 200
    committed = catalog.commit(ns, "t", set_properties(a="b"))
    fresh = catalog.load(ns, "t", {"If-None-Match": etag})
    assert fresh.status == 200
    assert fresh.headers["etag"] == committed.headers["etag"] != etag
    assert catalog.load(ns, "t", {"If-None-Match": committed.headers["etag"]}).status == 304


def test_etags_differ_with_what_the_answer_depends_on(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    delegations = [None, "vended-credentials", "remote-signing"]
    tags = set()
    for mode in ("all", "refs"):
        for delegation in delegations:
            headers = {"X-Iceberg-Access-Delegation": delegation} if delegation else {}
            tag = catalog.load(ns, "t", headers, snapshots=mode).headers["etag"]
            tags.add(tag)
            again = catalog.load(ns, "t", {**headers, "If-None-Match": tag}, snapshots=mode)
            assert again.status == 304
    assert len(tags) == 6
    assert catalog.load(ns, "t").headers["etag"] == catalog.load(ns, "t", snapshots="all").headers["etag"]


def test_rename_also_across_namespaces(catalog: Catalog, ns: Levels) -> None:
    other = (*ns, "other")
    catalog.create_namespace(*other).ok()
    before = catalog.create_table(ns, "t").ok()
    catalog.rename((ns, "t"), (other, "u")).ok(204)
    catalog.load(ns, "t").refused(404, "NoSuchTableException")
    assert catalog.load(other, "u").ok() == before
    catalog.commit(other, "u", set_properties(a="b")).ok()
    catalog.rename((ns, "t"), (ns, "x")).refused(404, "NoSuchTableException")
    catalog.create_table(ns, "taken").ok()
    catalog.rename((other, "u"), (ns, "taken")).refused(409, "AlreadyExistsException")
    catalog.create_view(ns, "view").ok()
    catalog.rename((other, "u"), (ns, "view")).refused(409, "AlreadyExistsException")
    catalog.rename((ns, "view"), (ns, "x")).refused(404, "NoSuchTableException")
    catalog.rename((other, "u"), ((*ns, "none"), "u")).refused(404, "NoSuchNamespaceException")
    catalog.rename((other, "u"), (other, "U")).ok(204)
    listed = catalog.send("GET", catalog.namespace_path(other, "tables")).ok()["identifiers"]
    assert [entry["name"] for entry in listed] == ["U"]
    catalog.rename((other, "U"), (other, "U")).ok(204)
    catalog.load(other, "u").ok()


def test_names_keep_their_case_and_lookups_ignore_it(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "Orders").ok()
    catalog.create_table(ns, "orders").refused(409, "AlreadyExistsException")
    catalog.create_view(ns, "ORDERS").refused(409, "AlreadyExistsException")
    shouted = (ns[0].upper(),)
    assert catalog.load(shouted, "ORDERS").ok() == catalog.load(ns, "Orders").ok()
    catalog.commit(shouted, "oRdErS", set_properties(a="b")).ok()
    assert catalog.load(ns, "Orders").ok()["metadata"]["properties"]["a"] == "b"
    listed = catalog.send("GET", catalog.namespace_path(ns, "tables")).ok()["identifiers"]
    assert [entry["name"] for entry in listed] == ["Orders"]
    catalog.send("DELETE", catalog.table_path(shouted, "ORDERS")).ok(204)
    catalog.load(ns, "Orders").refused(404)


def test_register_a_table_by_its_file(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t").ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    path = catalog.namespace_path(ns, "register")
    body: Json = {"name": "back", "metadata-location": created["metadata-location"]}
    registered = catalog.send("POST", path, body).ok()
    assert registered["metadata-location"] == created["metadata-location"]
    assert registered["metadata"] == created["metadata"]
    assert catalog.load(ns, "back").ok() == registered
    moved = catalog.commit(ns, "back", set_properties(a="b")).ok()
    assert "/metadata/00001-" in moved["metadata-location"]
    catalog.send("POST", path, body).refused(409, "AlreadyExistsException")
    catalog.send("POST", path, {**body, "name": "second"}).refused(409, "LocationAlreadyTaken")
    assert catalog.load(ns, "back").ok()["metadata"] == moved["metadata"]
    catalog.send("POST", path, {**body, "overwrite": True}).ok()
    assert catalog.load(ns, "back").ok() == registered


def test_register_overwrites_a_table_with_another(catalog: Catalog, ns: Levels) -> None:
    first = catalog.create_table(ns, "a").ok()
    second = catalog.create_table(ns, "b").ok()
    catalog.send("DELETE", catalog.table_path(ns, "b")).ok(204)
    body = {"name": "a", "metadata-location": second["metadata-location"], "overwrite": True}
    catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()
    assert catalog.load(ns, "a").ok()["metadata"]["table-uuid"] == second["metadata"]["table-uuid"]
    assert Path(local_path(first["metadata-location"])).exists()
    catalog.create_view(ns, "v").ok()
    over_view = {**body, "name": "v"}
    catalog.send("POST", catalog.namespace_path(ns, "register"), over_view).refused(
        409, "AlreadyExistsException"
    )


def test_register_reads_files_of_others(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t", properties={"format-version": "3"}).ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    document = {**created["metadata"], "added-by-the-future": {"deep": [1, 2.5, None]}}
    folder = Path(local_path(created["metadata-location"])).parent
    packed = folder / "v7.gz.metadata.json"
    packed.write_bytes(gzip.compress(json.dumps(document).encode()))
    body = {"name": "t", "metadata-location": f"file://{packed}"}
    registered = catalog.send("POST", catalog.namespace_path(ns, "register"), body).ok()
    assert registered["metadata"]["added-by-the-future"] == {"deep": [1, 2.5, None]}
    committed = catalog.commit(ns, "t", set_properties(a="b")).ok()
    assert committed["metadata"]["added-by-the-future"] == {"deep": [1, 2.5, None]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not valid JSON"),
        (b"[]", "JSON object"),
        (b"{}", "format-version"),
        (b'{"format-version": 9}', "format-version"),
        (b"\x1f\x8bnot gzip", "gzip"),
        (None, "no file at"),
    ],
)
def test_register_files_that_are_none(
    catalog: Catalog, ns: Levels, content: bytes | None, words: str
) -> None:
    created = catalog.create_table(ns, "t").ok()
    file = Path(local_path(created["metadata-location"])).parent / "bad.metadata.json"
    if content is not None:
        file.write_bytes(content)
    body = {"name": "x", "metadata-location": f"file://{file}"}
    answer = catalog.send("POST", catalog.namespace_path(ns, "register"), body)
    answer.refused(400, "BadRequestException", words)
    catalog.load(ns, "x").refused(404)


def test_register_stays_inside_the_warehouse(catalog: Catalog, ns: Levels, tmp_path: Path) -> None:
    created = catalog.create_table(ns, "t").ok()
    outside = tmp_path / "x.metadata.json"
    outside.write_bytes(Path(local_path(created["metadata-location"])).read_bytes())
    path = catalog.namespace_path(ns, "register")
    for location in (
        f"file://{outside}",
        str(outside),
        "/etc/passwd",
        "s3://bucket/x.metadata.json",
        "x",
        "",
    ):
        body = {"name": "x", "metadata-location": location}
        catalog.send("POST", path, body).refused(400, "BadRequestException", "metadata-location")
    inside = Path(local_path(created["metadata-location"])).parent / "moved.metadata.json"
    inside.write_text(json.dumps({**created["metadata"], "location": f"file://{tmp_path}/t"}))
    body = {"name": "x", "metadata-location": f"file://{inside}"}
    catalog.send("POST", path, body).refused(400, "BadRequestException", "location")


def test_a_metadata_file_that_vanished_is_told_apart(catalog: Catalog, ns: Levels) -> None:
    created = catalog.create_table(ns, "t").ok()
    Path(local_path(created["metadata-location"])).unlink()
    catalog.load(ns, "t").refused(404, "NotFoundException", created["metadata-location"])


def test_purge_is_refused_without_garbage_collection(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t", properties={"gc.enabled": "false"}).ok()
    path = catalog.table_path(ns, "t")
    catalog.send("DELETE", path, purgeRequested="true").refused(400, "BadRequestException", "gc.enabled")
    catalog.load(ns, "t").ok()
    catalog.send("DELETE", path, purgeRequested="maybe").refused(400, None, "purgeRequested")
    catalog.send("DELETE", path, purgeRequested="false").ok(204)


@pytest.mark.parametrize("report", ["scan-report", "commit-report", "a-report-of-the-future"])
def test_metrics_reports(catalog: Catalog, ns: Levels, report: str) -> None:
    catalog.create_table(ns, "t").ok()
    body: Json = {
        "report-type": report,
        "table-name": "t",
        "snapshot-id": 5,
        "filter": True,
        "schema-id": 0,
        "projected-field-ids": [1],
        "projected-field-names": ["id"],
        "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2}},
        "metadata": {"engine": "test"},
    }
    path = catalog.table_path(ns, "t") + "/metrics"
    catalog.send("POST", path, body).ok(204)
    none = catalog.send("POST", catalog.table_path(ns, "none") + "/metrics", body)
    if report == "commit-report":
        none.ok(204)  # a table that is being made is told of before it is there
    else:
        none.refused(404, "NoSuchTableException")
    catalog.send("POST", path, {**body, "report-type": 5}).refused(400, None, "report-type")
    catalog.send("POST", path, {"metrics": {}}).refused(400, None, "report-type")


def test_made_up_report_types_do_not_fill_the_memory(catalog: Catalog, ns: Levels) -> None:
    catalog.create_table(ns, "t").ok()
    for number in range(20):
        body = {"report-type": f'made-up-{number}\n"x'}
        catalog.send("POST", catalog.table_path(ns, "t") + "/metrics", body).ok(204)
    metrics = catalog.client.send("GET", "/metrics").body
    assert b"made-up" not in metrics
    assert b'frazil_metrics_reports_total{type="other"}' in metrics
