"""Warehouses: their life, their storage, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from tests.catalog.api.management.conftest import Client

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore

pytestmark = pytest.mark.services

Make = Callable[..., dict[str, Any]]


def test_life_of_a_local_warehouse(client: Client, local_warehouse: Make) -> None:
    body = local_warehouse()
    created = client.post("/warehouse", body)
    assert created.status == 201
    warehouse = created.body
    wid = warehouse["warehouse-id"]
    assert warehouse == {
        "id": wid,
        "warehouse-id": wid,
        "name": body["warehouse-name"],
        "project-id": "00000000-0000-0000-0000-000000000000",
        "status": "active",
        "protected": False,
        "storage-profile": {**body["storage-profile"], "storage-layout": None},
        "storage-credential-type": None,
        "delete-profile": {"type": "hard"},
        "allowed-format-versions": [1, 2, 3],
        "default-format-version": None,
        "managed-by": "self-managed",
        "updated-at": None,
    }
    assert client.get(f"/warehouse/{wid}").body == warehouse
    assert client.get(f"/warehouse/{wid.upper()}").body == warehouse
    assert client.config(body["warehouse-name"]).body["defaults"]["prefix"] == wid
    assert list(Path(body["storage-profile"]["path"]).iterdir()) == []
    assert client.delete(f"/warehouse/{wid}").status == 204
    assert client.get(f"/warehouse/{wid}").error == (404, "NoSuchWarehouseException")
    assert client.delete(f"/warehouse/{wid}").error == (404, "NoSuchWarehouseException")


def test_the_documented_s3_example(
    client: Client, object_store: ObjectStore, s3_warehouse: dict[str, Any]
) -> None:
    created = client.post("/warehouse", s3_warehouse)
    assert created.status == 201, created.text
    warehouse = created.body
    assert warehouse["storage-credential-type"] == {"type": "s3", "credential-type": "access-key"}
    assert warehouse["storage-profile"]["flavor"] == "s3-compat"
    assert warehouse["storage-profile"]["sts-enabled"] is False
    assert client.post(f"/warehouse/{warehouse['id']}/storage/validate-access").body["valid"] is True
    config = client.config(s3_warehouse["warehouse-name"]).body
    assert config["defaults"]["s3.endpoint"] == object_store.endpoint
    assert object_store.catalog.secret not in "".join(client.seen)
    assert client.delete(f"/warehouse/{warehouse['id']}").status == 204


def test_names_are_unique_without_regard_to_case(client: Client, local_warehouse: Make) -> None:
    body = local_warehouse()
    wid = client.post("/warehouse", body).body["id"]
    again = {**local_warehouse(), "warehouse-name": body["warehouse-name"].upper()}
    assert client.post("/warehouse", again).error == (409, "WarehouseAlreadyExists")
    other = client.post("/warehouse", local_warehouse()).body["id"]
    rename = {"new-name": body["warehouse-name"].title()}
    assert client.post(f"/warehouse/{other}/rename", rename).error == (409, "WarehouseAlreadyExists")
    assert client.post(f"/warehouse/{wid}/rename", rename).body["name"] == rename["new-name"]
    renamed = client.post(f"/warehouse/{wid}/rename", {"new-name": f"new-{uuid4().hex[:6]}"}).body
    assert client.config(renamed["name"]).body["defaults"]["prefix"] == wid
    assert client.config(body["warehouse-name"]).status == 404
    assert client.post(f"/warehouse/{uuid4()}/rename", rename).error == (404, "NoSuchWarehouseException")


def test_of_rivals_for_one_place_exactly_one_gets_it(client: Client, local_warehouse: Make) -> None:
    profile = local_warehouse()["storage-profile"]
    bodies = [{**local_warehouse(), "storage-profile": profile} for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: client.post("/warehouse", body), bodies))
    assert sorted(a.status for a in answers) == [201] + [409] * 7
    assert {a.error for a in answers if a.status == 409} == {(409, "StorageProfileOverlap")}


def test_warehouses_do_not_nest(client: Client, local_warehouse: Make) -> None:
    body = local_warehouse()
    assert client.post("/warehouse", body).status == 201
    path = Path(body["storage-profile"]["path"])
    for place in (path, path / "below", path.parent):
        other = {**local_warehouse(), "storage-profile": {"type": "local", "path": str(place)}}
        assert client.post("/warehouse", other).error == (409, "StorageProfileOverlap")
    beside = {**local_warehouse(), "storage-profile": {"type": "local", "path": f"{path}-2"}}
    assert client.post("/warehouse", beside).status == 201


def test_another_spelling_is_no_other_place(client: Client, s3_warehouse: dict[str, Any]) -> None:
    """Each of them would vend keys for, and purge, what the other owns."""
    profile = s3_warehouse["storage-profile"]
    assert client.post("/warehouse", s3_warehouse).status == 201
    port = urlsplit(profile["endpoint"]).port
    for field, value in (
        ("endpoint", f"http://localhost:{port}"),
        ("endpoint", f"http://127.0.0.1:0{port}"),
        ("key-prefix", profile["key-prefix"].upper()),
    ):
        assert value != profile[field]
        again = {"warehouse-name": uuid4().hex, "storage-profile": {**profile, field: value}}
        assert client.post("/warehouse", s3_warehouse | again).error == (409, "StorageProfileOverlap")


def test_the_servers_own_directory_is_no_warehouse(
    client: Client, local_warehouse: Make, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(client.server.data_dir)
    for path in (client.server.data_dir, client.server.data_dir.parent, link):
        profile = {"type": "local", "path": str(path)}
        answer = client.post("/warehouse", {**local_warehouse(), "storage-profile": profile})
        assert answer.status == 400
        assert "storage-profile.path" in answer.message


def test_listing_by_status(client: Client, local_warehouse: Make) -> None:
    project = client.post("/project", {"project-name": "p"}).body["project-id"]
    on, off = (
        client.post("/warehouse", local_warehouse(), x_project_id=project).body["id"] for _ in range(2)
    )
    assert client.post(f"/warehouse/{off}/deactivate").status == 200

    def listed(query: str) -> set[str]:
        found = client.get(f"/warehouse{query}", x_project_id=project).body["warehouses"]
        return {warehouse["id"] for warehouse in found}

    assert listed("") == {on}
    assert listed("?warehouseStatus=active") == {on}
    assert listed("?warehouseStatus=inactive") == {off}
    assert listed("?warehouseStatus=active&warehouseStatus=inactive") == {on, off}
    bad = client.get("/warehouse?warehouseStatus=asleep")
    assert bad.status == 400
    assert "warehouseStatus" in bad.message
    assert "active, inactive" in bad.message


def test_deactivated_warehouses_are_out_of_use(client: Client, local_warehouse: Make) -> None:
    body = local_warehouse()
    wid = client.post("/warehouse", body).body["id"]
    assert client.send("GET", f"/catalog/v1/{wid}/namespaces").status == 200
    assert client.post(f"/warehouse/{wid}/deactivate").status == 200
    assert client.get(f"/warehouse/{wid}").body["status"] == "inactive"
    assert client.send("GET", f"/catalog/v1/{wid}/namespaces").error == (404, "WarehouseNotActive")
    assert client.config(body["warehouse-name"]).status == 404
    assert client.post(f"/warehouse/{wid}/activate").status == 200
    assert client.send("GET", f"/catalog/v1/{wid}/namespaces").status == 200
    assert client.post(f"/warehouse/{uuid4()}/activate").status == 404


def test_full_and_protected_warehouses_stay(client: Client, local_warehouse: Make) -> None:
    wid = client.post("/warehouse", local_warehouse()).body["id"]
    assert client.send("POST", f"/catalog/v1/{wid}/namespaces", {"namespace": ["a"]}).status == 200
    assert client.delete(f"/warehouse/{wid}").error == (409, "WarehouseNotEmpty")
    assert client.delete(f"/warehouse/{wid}?force=true").error == (409, "WarehouseNotEmpty")
    assert client.send("DELETE", f"/catalog/v1/{wid}/namespaces/a").status == 204
    protection = client.post(f"/warehouse/{wid}/protection", {"protected": True}).body
    assert protection["protected"] is True
    assert "updated_at" in protection
    assert client.get(f"/warehouse/{wid}").body["protected"] is True
    assert client.delete(f"/warehouse/{wid}").error == (409, "WarehouseProtected")
    assert client.delete(f"/warehouse/{wid}?force=perhaps").status == 400
    assert client.delete(f"/warehouse/{wid}?force=true").status == 204


def test_statistics_count(client: Client, local_warehouse: Make) -> None:
    wid = client.post("/warehouse", local_warehouse()).body["id"]
    client.send("POST", f"/catalog/v1/{wid}/namespaces", {"namespace": ["a"]})
    field = {"id": 1, "name": "x", "required": False, "type": "int"}
    table = {"name": "t", "schema": {"type": "struct", "fields": [field]}}
    assert client.send("POST", f"/catalog/v1/{wid}/namespaces/a/tables", table).status == 200
    statistics = client.get(f"/warehouse/{wid}/statistics?page_size=10").body
    assert statistics["warehouse-ident"] == wid
    assert statistics["next-page-token"] is None
    (entry,) = statistics["stats"]
    assert (entry["number-of-tables"], entry["number-of-views"]) == (1, 0)
    assert client.get(f"/warehouse/{wid}/statistics?page_token=x").error == (400, "InvalidPaginationToken")
    assert client.get(f"/warehouse/{wid}/statistics?page_size=0").status == 400
    assert client.get(f"/warehouse/{uuid4()}/statistics").status == 404


def test_policies(client: Client, local_warehouse: Make) -> None:
    soft = {"type": "soft", "expiration-seconds": 604800}
    body = local_warehouse(
        **{"delete-profile": soft, "allowed-format-versions": [3, 2], "default-format-version": 3}
    )
    warehouse = client.post("/warehouse", body).body
    assert warehouse["delete-profile"] == soft
    assert (warehouse["allowed-format-versions"], warehouse["default-format-version"]) == ([2, 3], 3)
    path = f"/warehouse/{warehouse['id']}"
    changed = client.post(f"{path}/delete-profile", {"delete-profile": {"type": "hard"}}).body
    assert changed["delete-profile"] == {"type": "hard"}
    assert changed["updated-at"]
    policy = {"allowed-format-versions": [1], "default-format-version": None}
    assert client.post(f"{path}/format-version-policy", policy).body["allowed-format-versions"] == [1]
    assert (
        client.post(f"{path}/managed-by", {"managed-by": "instance-admin"}).body["managed-by"]
        == "instance-admin"
    )


@pytest.mark.parametrize(
    ("where", "body", "field"),
    [
        ("delete-profile", {}, "delete-profile"),
        ("delete-profile", {"delete-profile": {"type": "gone"}}, "delete-profile.type"),
        ("delete-profile", {"delete-profile": {"type": "soft"}}, "expiration-seconds"),
        (
            "delete-profile",
            {"delete-profile": {"type": "soft", "expiration-seconds": -1}},
            "expiration-seconds",
        ),
        ("format-version-policy", {}, "allowed-format-versions"),
        ("format-version-policy", {"allowed-format-versions": []}, "allowed-format-versions"),
        ("format-version-policy", {"allowed-format-versions": [4]}, "allowed-format-versions"),
        ("format-version-policy", {"allowed-format-versions": ["2"]}, "allowed-format-versions"),
        (
            "format-version-policy",
            {"allowed-format-versions": [1], "default-format-version": 2},
            "default-format-version",
        ),
        ("protection", {"protected": "yes"}, "protected"),
        ("managed-by", {"managed-by": "me"}, "managed-by"),
        ("rename", {"new-name": ""}, "new-name"),
        ("rename", {"new-name": None}, "new-name"),
        ("storage", {}, "storage-profile"),
        ("storage", {"storage-profile": None}, "storage-profile"),
        ("storage", {"storage-profile": {"type": "s3"}}, "storage-profile.bucket"),
        ("storage-credential", {"new-storage-credential": {"type": "ftp"}}, "storage-credential.type"),
        ("storage-credential", {"new-storage-credential": 5}, "storage-credential"),
    ],
)
def test_bad_changes_name_the_field(
    client: Client, local_warehouse: Make, where: str, body: dict[str, Any], field: str
) -> None:
    warehouse = client.post("/warehouse", local_warehouse()).body
    answer = client.post(f"/warehouse/{warehouse['id']}/{where}", body)
    assert answer.status == 400
    assert field in answer.message
    assert client.get(f"/warehouse/{warehouse['id']}").body == warehouse


def test_bad_warehouse_ids(client: Client) -> None:
    for path in ("x", "%00", "..%2f", "123"):
        assert client.get(f"/warehouse/{path}").status == 400


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"warehouse-name": None}, "warehouse-name"),
        ({"warehouse-name": ""}, "warehouse-name"),
        ({"warehouse-name": "x" * 1024}, "warehouse-name"),
        ({"warehouse-name": "a\u0007b"}, "warehouse-name"),
        ({"storage-profile": None}, "storage-profile"),
        ({"storage-profile": []}, "storage-profile"),
        ({"storage-profile": {"type": "ftp"}}, "Legal: s3, gcs, adls, local"),
        ({"storage-profile": {"type": "local", "path": "relative"}}, "storage-profile.path"),
        ({"storage-profile": {"type": "local", "path": "/a/../b"}}, "storage-profile.path"),
        ({"storage-profile": {"type": "s3", "bucket": "abc", "region": "x"}}, "storage-credential: required"),
        ({"storage-credential": {"type": "s3"}}, "storage-credential.credential-type"),
        ({"project-id": "no spaces"}, "project-id"),
        ({"managed-by": "x"}, "managed-by"),
        ({"allowed-format-versions": [9]}, "allowed-format-versions"),
        ({"delete-profile": {"type": "x"}}, "delete-profile"),
    ],
)
def test_bad_creates_name_the_field_and_change_nothing(
    client: Client, local_warehouse: Make, change: dict[str, Any], field: str
) -> None:
    before = client.get("/warehouse").body
    answer = client.post("/warehouse", {**local_warehouse(), **change})
    assert answer.status == 400
    assert field in answer.message
    assert client.get("/warehouse").body == before


def test_system_identity_is_off(client: Client, s3_warehouse: dict[str, Any]) -> None:
    identity = {"type": "s3", "credential-type": "aws-system-identity"}
    answer = client.post("/warehouse", {**s3_warehouse, "storage-credential": identity})
    assert answer.status == 400
    assert "storage-credential.credential-type" in answer.message


def test_storage_that_does_not_work_is_not_accepted(
    client: Client, local_warehouse: Make, s3_warehouse: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    local = {**local_warehouse(), "storage-profile": {"type": "local", "path": str(tmp_path / "file" / "wh")}}
    dead = f"http://127.0.0.1:{free_port()}"
    unreachable = {**s3_warehouse, "storage-profile": {**s3_warehouse["storage-profile"], "endpoint": dead}}
    credential = {**s3_warehouse["storage-credential"], "aws-secret-access-key": "wrong-and-secret"}
    denied = {**s3_warehouse, "storage-credential": credential}
    for body in (local, unreachable, denied):
        answer = client.post("/warehouse", body)
        assert answer.error == (400, "StorageValidationFailed")
        assert "the write step failed" in answer.message
        assert "wrong-and-secret" not in answer.text
    assert "SignatureDoesNotMatch" in answer.message


def test_changing_storage_and_credential(
    client: Client, object_store: ObjectStore, s3_warehouse: dict[str, Any], local_warehouse: Make
) -> None:
    wid = client.post("/warehouse", s3_warehouse).body["id"]
    profile, keys = s3_warehouse["storage-profile"], s3_warehouse["storage-credential"]
    path = f"/warehouse/{wid}"
    admin = {
        "type": "s3",
        "credential-type": "access-key",
        "access-key-id": object_store.admin.access,
        "secret-access-key": object_store.admin.secret,
    }
    assert client.post(f"{path}/storage-credential", {"new-storage-credential": admin}).status == 200
    wrong = {**admin, "secret-access-key": "wrong-and-secret"}
    refused = client.post(f"{path}/storage-credential", {"new-storage-credential": wrong})
    assert refused.error == (400, "StorageValidationFailed")
    assert client.post(f"{path}/storage-credential", {}).status == 400
    layout = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}-{uuid}"}
    updated = client.post(
        f"{path}/storage",
        {"storage-profile": {**profile, "storage-layout": layout}, "storage-credential": keys},
    )
    assert updated.body["storage-profile"]["storage-layout"] == layout
    for field, value in (("bucket", "another"), ("key-prefix", "elsewhere")):
        body = {"storage-profile": {**profile, field: value}, "storage-credential": keys}
        answer = client.post(f"{path}/storage", body)
        assert answer.status == 400
        assert f"storage-profile.{field}" in answer.message
    local = client.post(f"{path}/storage", {"storage-profile": local_warehouse()["storage-profile"]})
    assert "storage-profile.type" in local.message
    seen = "".join(client.seen)
    for secret in (object_store.admin.secret, object_store.catalog.secret, "wrong-and-secret"):
        assert secret not in seen
    assert client.delete(path).status == 204


def test_secrets_are_sealed_on_disk(
    frazil_sqlite: FrazilServer, object_store: ObjectStore, s3_warehouse: dict[str, Any]
) -> None:
    """Database, write-ahead log and server log alike."""
    assert Client(frazil_sqlite).post("/warehouse", s3_warehouse).status == 201
    contents: dict[str, bytes] = {}
    for folder, _, names in os.walk(frazil_sqlite.directory):
        for path in (Path(folder, name) for name in names):
            # Files of tables that other tests dropped are deleted meanwhile.
            with suppress(FileNotFoundError):
                contents[str(path)] = path.read_bytes()
    name = s3_warehouse["warehouse-name"].encode()
    assert any(name in content for content in contents.values())
    for place, content in contents.items():
        assert object_store.catalog.secret.encode() not in content, place
