"""A warehouse that is to vend credentials is tried first: they must work, and only inside."""

from __future__ import annotations

from typing import Any

from tests.catalog.api.client import Client
from tests.catalog.vending.recording_sts import RecordingSts
from tests.catalog.vending.support import BUCKET, Json, admin, warehouse_body

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.ports import free_port
from frazil.devstack.seaweed import ObjectStore

ISSUED, READ_WRITE, SCOPE = (
    "vended-credentials-issued",
    "vended-credentials-read-write",
    "vended-credentials-scope-enforced",
)


def validated(server: FrazilServer, body: Json) -> dict[str, Any]:
    """The checks of a dry run, by name."""
    path = "/management/v1/warehouse-creation-validation"
    answer = Client(server.port).send("POST", path, body).ok()
    checks = {check["name"]: check for check in answer["checks"]}
    assert answer["valid"] == all(check["status"] != "failed" for check in checks.values())
    return checks


def statuses(checks: dict[str, Any]) -> list[str]:
    return [checks[name]["status"] for name in (ISSUED, READ_WRITE, SCOPE)]


def left_over(store: ObjectStore, body: Json) -> list[str]:
    prefix = body["storage-profile"]["key-prefix"]
    found = admin(store).list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/").get("Contents", [])
    return [entry["Key"] for entry in found]


def test_a_store_that_enforces_policies_passes(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    body = warehouse_body(object_store)
    assert statuses(validated(frazil_sqlite, body)) == ["passed"] * 3
    assert left_over(object_store, body) == []


def test_nothing_is_tried_where_nothing_is_vended(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    checks = validated(frazil_sqlite, warehouse_body(object_store, **{"sts-enabled": False}))
    assert statuses(checks) == ["skipped"] * 3
    assert checks[ISSUED]["reason"] == "the profile does not vend credentials"


def test_a_store_that_forgets_policies_is_refused(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    with RecordingSts(object_store, forget=True) as sts:
        body = warehouse_body(object_store, **{"sts-endpoint": sts.endpoint})
        checks = validated(frazil_sqlite, body)
        assert statuses(checks) == ["passed", "passed", "failed"]
        assert "does not enforce session policies" in checks[SCOPE]["error"]["message"]
        answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
        answer.refused(400, "StorageValidationFailed", SCOPE, "sts-enabled")
        assert left_over(object_store, body) == []


def test_a_warehouse_cannot_be_changed_to_forgetful_vending(
    object_store: ObjectStore, frazil_sqlite: FrazilServer
) -> None:
    client = Client(frazil_sqlite.port)
    body = warehouse_body(object_store)
    warehouse = client.send("POST", "/management/v1/warehouse", body).ok(201)
    with RecordingSts(object_store, forget=True) as sts:
        profile = {**body["storage-profile"], "sts-endpoint": sts.endpoint}
        change = {"storage-profile": profile, "storage-credential": body["storage-credential"]}
        path = f"/management/v1/warehouse/{warehouse['id']}"
        client.send("POST", f"{path}/storage", change).refused(400, "StorageValidationFailed", SCOPE)
        tried = client.send("POST", f"{path}/storage/validate-profile", change).ok()
        assert not tried["valid"]
    assert client.send("GET", path).ok()["storage-profile"] == warehouse["storage-profile"]


def test_a_role_that_is_not_there_is_named(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> None:
    role = "arn:aws:iam::000000000000:role/Nobody"
    body = warehouse_body(object_store, **{"sts-role-arn": role})
    checks = validated(frazil_sqlite, body)
    assert statuses(checks) == ["failed", "skipped", "skipped"]
    message = checks[ISSUED]["error"]["message"]
    assert role in message
    assert object_store.catalog.secret not in message
    answer = Client(frazil_sqlite.port).send("POST", "/management/v1/warehouse", body)
    answer.refused(400, "StorageValidationFailed", ISSUED, role)


def test_an_sts_that_does_not_answer_is_named(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> None:
    body = warehouse_body(object_store, **{"sts-endpoint": f"http://127.0.0.1:{free_port()}"})
    checks = validated(frazil_sqlite, body)
    assert statuses(checks) == ["failed", "skipped", "skipped"]
    assert "no answer" in checks[ISSUED]["error"]["message"]
