"""Answers in the shapes that Lakekeeper's API description has, where they differ from our server's."""

from __future__ import annotations

import json

import pytest
from tests.client.faulty import FaultyNetwork, Reply

from frazil.client import Client
from frazil.core.errors import AlreadyExists, CommitFailed, Conflict, NoSuchWarehouse, NotAllowed, Unavailable

ID = "3b2f4d0e-8c0a-11f0-9a4e-0242ac120002"
WAREHOUSE = {
    "id": ID,
    "warehouse-id": ID,
    "name": "demo",
    "project-id": "00000000-0000-0000-0000-000000000000",
    "status": "active",
    "protected": False,
    "storage-profile": {"type": "s3", "bucket": "examples", "sts-enabled": True, "flavor": "s3-compat"},
    "storage-credential-type": {"type": "s3", "credential-type": "access-key"},
    "delete-profile": {"type": "soft", "expiration-seconds": 604800},
    "allowed-format-versions": [1, 2, 3],
    "default-format-version": None,
    "managed-by": "self-managed",
    "updated-at": None,
}
PREFIX = "s3://examples/wh/0197"
KEYS = {
    "s3.access-key-id": "a",
    "s3.secret-access-key": "b",
    "s3.session-token": "c",
    "s3.session-token-expires-at-ms": "4102444800000",
    "expiration-time": "4102444800000",
    "s3.region": "local-01",
    "s3.endpoint": "http://minio:9000/",
    "s3.path-style-access": "true",
    "client.region": "local-01",
}


def reply(document: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(document).encode(), {"Content-Type": "application/json"})


def refusal(status: int, kind: str) -> Reply:
    stack = ["somewhere", "deep"]
    return reply({"error": {"message": "no", "type": kind, "code": status, "stack": stack}}, status)


def test_a_warehouse(faulty: Client, network: FaultyNetwork) -> None:
    network.faults = [reply({"warehouses": [WAREHOUSE]})]
    found = faulty.warehouses.get("DEMO")
    assert found.warehouse_id == ID
    assert found.delete_profile["expiration-seconds"] == 604800


def test_the_prefix_is_the_id_that_config_tells(faulty: Client, network: FaultyNetwork) -> None:
    config = {"defaults": {"prefix": ID}, "overrides": {"uri": "http://elsewhere.example/catalog"}}
    network.faults = [reply(config), reply({"namespaces": [["a"]], "next-page-token": None})]
    assert list(faulty.at("demo").namespaces.list()) == [("a",)]
    assert network.seen[0].path == "/catalog/v1/config?warehouse=demo"
    assert network.seen[1].path.startswith(f"/catalog/v1/{ID}/namespaces?")


def test_an_id_that_config_does_not_know_is_the_prefix(faulty: Client, network: FaultyNetwork) -> None:
    """Lakekeeper's config finds warehouses by name only."""
    network.faults = [refusal(404, "NoSuchWarehouseException"), reply({"identifiers": []})]
    assert list(faulty.at(ID.upper()).generic_tables.list("a")) == []
    assert network.seen[1].path.startswith(f"/lakekeeper/v1/{ID}/namespaces/a/generic-tables?")


def test_a_generic_table_with_keys(faulty: Client, network: FaultyNetwork) -> None:
    table = {"name": "t", "format": "lance", "base-location": PREFIX, "protected": False}
    document = {"table": table, "config": KEYS, "storage-credentials": [{"prefix": PREFIX, "config": KEYS}]}
    network.faults = [reply({"defaults": {"prefix": ID}, "overrides": {}}), reply(document)]
    keys = faulty.generic_tables.load("a", "t", vended=True).credentials()
    assert keys.to_s3a()["fs.s3a.bucket.examples.endpoint"] == "http://minio:9000"
    assert network.seen[1].headers["x-iceberg-access-delegation"] == "vended-credentials"


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (409, "GenericTableAlreadyExists", AlreadyExists),
        (409, "WarehouseAlreadyExists", AlreadyExists),
        (409, "ConcurrentUpdateError", CommitFailed),
        (409, "LocationAlreadyTaken", Conflict),
        (404, "WarehouseNotActive", NoSuchWarehouse),
        (403, "WarehouseActionForbidden", NotAllowed),
        (503, "AuthorizationBackendError", Unavailable),
        (503, "NoSuchWarehouseException", Unavailable),
    ],
)
def test_errors(
    faulty: Client, network: FaultyNetwork, status: int, kind: str, expected: type[Exception]
) -> None:
    network.faults = [refusal(status, kind)] * 4
    with pytest.raises(expected) as caught:
        faulty.projects.create("x")
    assert type(caught.value) is expected
    assert getattr(caught.value, "kind", None) == kind
