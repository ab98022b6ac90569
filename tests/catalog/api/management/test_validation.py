"""Dry runs of creating and changing a warehouse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.catalog.api.management.conftest import Client

pytestmark = pytest.mark.services

Make = Callable[..., dict[str, Any]]


def outcome(body: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["status"] for check in body["checks"]}


def test_a_creation_that_would_work(client: Client, local_warehouse: Make) -> None:
    body = local_warehouse()
    answer = client.post("/warehouse-creation-validation", body).body
    assert answer["valid"] is True
    assert outcome(answer) == {
        "warehouse-name-valid": "passed",
        "format-version-policy-consistent": "passed",
        "profile-well-formed": "passed",
        "location-exclusive": "passed",
        "lakekeeper-read-write": "passed",
        "cleanup": "passed",
        "vended-credentials-issued": "skipped",
        "vended-credentials-read-write": "skipped",
        "vended-credentials-scope-enforced": "skipped",
    }
    names = [w["name"] for w in client.get("/warehouse").body["warehouses"]]
    assert body["warehouse-name"] not in names


def test_a_creation_that_would_not(
    client: Client, local_warehouse: Make, s3_warehouse: dict[str, Any]
) -> None:
    taken = local_warehouse()
    client.post("/warehouse", taken)
    again = client.post("/warehouse-creation-validation", taken).body
    assert again["valid"] is False
    assert outcome(again)["warehouse-name-valid"] == "failed"
    assert outcome(again)["location-exclusive"] == "failed"
    malformed = client.post(
        "/warehouse-creation-validation", {**local_warehouse(), "storage-profile": {"type": "x"}}
    ).body
    assert outcome(malformed)["profile-well-formed"] == "failed"
    assert outcome(malformed)["lakekeeper-read-write"] == "skipped"
    credential = {**s3_warehouse["storage-credential"], "aws-secret-access-key": "wrong-and-secret"}
    denied = client.post("/warehouse-creation-validation", {**s3_warehouse, "storage-credential": credential})
    (check,) = [c for c in denied.body["checks"] if c["status"] == "failed"]
    assert check["name"] == "lakekeeper-read-write"
    assert "the write step failed" in check["error"]["message"]
    assert check["error"]["type"] == "StorageValidationFailed"
    assert "wrong-and-secret" not in denied.text


def test_changes_that_would_work_or_not(
    client: Client, s3_warehouse: dict[str, Any], local_warehouse: Make
) -> None:
    warehouse = client.post("/warehouse", s3_warehouse).body
    path = f"/warehouse/{warehouse['id']}/storage"
    profile, keys = s3_warehouse["storage-profile"], s3_warehouse["storage-credential"]
    assert client.post(f"{path}/validate-access").body["valid"] is True
    assert client.post(f"{path}/validate-credential", {"new-storage-credential": keys}).body["valid"] is True
    wrong = {**keys, "aws-secret-access-key": "wrong"}
    assert (
        client.post(f"{path}/validate-credential", {"new-storage-credential": wrong}).body["valid"] is False
    )
    assert client.post(f"{path}/validate-credential", {}).body["valid"] is False
    same = {"storage-profile": profile, "storage-credential": keys}
    assert client.post(f"{path}/validate-profile", same).body["valid"] is True
    moved = {"storage-profile": {**profile, "bucket": "another"}, "storage-credential": keys}
    refused = client.post(f"{path}/validate-profile", moved).body
    assert outcome(refused)["profile-compatible"] == "failed"
    local = client.post(
        f"{path}/validate-profile", {"storage-profile": local_warehouse()["storage-profile"]}
    ).body
    assert local["valid"] is False
    assert client.get(f"/warehouse/{warehouse['id']}").body == warehouse


def test_bad_bodies(client: Client) -> None:
    assert client.post("/warehouse-creation-validation", b"{").status == 400
    assert client.post("/warehouse-creation-validation", {}).status == 400
    assert client.post("/warehouse/x/storage/validate-access").status == 400
