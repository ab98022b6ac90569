"""Keys for a generic table's files, vended by the real store."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from tests.catalog.api.client import Catalog, key
from tests.catalog.api.generic.support import Generic
from tests.catalog.vending.support import BUCKET, create_warehouse, keys_of, s3_of, warehouse_body

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

NS = ("ns",)
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> tuple[Catalog, Generic, str]:
    """A warehouse that vends, and the location that its tables lie below."""
    body = warehouse_body(object_store)
    catalog = create_warehouse(frazil_sqlite.port, body)
    base = f"s3://{BUCKET}/{body['storage-profile']['key-prefix']}"
    return catalog, Generic(catalog.client, catalog.prefix), base


def test_each_answer_has_keys_for_the_location(
    object_store: ObjectStore, lake: tuple[Catalog, Generic, str]
) -> None:
    _, generic, base = lake
    idempotent = VENDED | key()
    table = generic.table(NS, "t1")
    answers = [
        generic.create(NS, "t1", idempotent, base_location=f"{base}/g/t1"),
        generic.create(NS, "t1", idempotent, base_location=f"{base}/g/t1"),
        generic.load(NS, "t1", VENDED),
        generic.send("GET", f"{table}/credentials", None, VENDED),
    ]
    for answer in answers:
        body = answer.ok()
        (credential,) = body["storage-credentials"]
        assert credential["prefix"].rstrip("/") == f"{base}/g/t1"
        assert "client.refresh-credentials-endpoint" not in credential["config"] | body.get("config", {})
        assert answer.headers["cache-control"] == "no-store"
        s3 = s3_of(object_store, credential["config"])
        inside = f"{base}/g/t1/x".removeprefix(f"s3://{BUCKET}/")
        s3.put_object(Bucket=BUCKET, Key=inside, Body=b"x")
        beside = f"{base}/g/t10/x".removeprefix(f"s3://{BUCKET}/")
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.put_object(Bucket=BUCKET, Key=beside, Body=b"x")


def test_only_to_read(object_store: ObjectStore, lake: tuple[Catalog, Generic, str]) -> None:
    _, generic, base = lake
    generic.create(NS, "r", base_location=f"{base}/g/r").ok()
    writer = s3_of(object_store, keys_of(generic.load(NS, "r", VENDED).ok()))
    inside = f"{base}/g/r/x".removeprefix(f"s3://{BUCKET}/")
    writer.put_object(Bucket=BUCKET, Key=inside, Body=b"x")
    read = VENDED | {"X-Frazil-Access": "read"}
    for path in ("", "/credentials"):
        body = generic.send("GET", generic.table(NS, "r") + path, None, read).ok()
        reader = s3_of(object_store, body["storage-credentials"][0]["config"])
        assert reader.get_object(Bucket=BUCKET, Key=inside)["Body"].read() == b"x"
        with pytest.raises(ClientError, match="AccessDenied"):
            reader.put_object(Bucket=BUCKET, Key=inside, Body=b"y")


def test_no_keys_where_none_are_wanted(lake: tuple[Catalog, Generic, str]) -> None:
    _, generic, _ = lake
    managed = {"X-Iceberg-Access-Delegation": "client-managed"}
    created = generic.create(NS, "own keys", managed).ok()
    assert "storage-credentials" not in created
    assert not [name for name in created["config"] if "key" in name or "token" in name]


def test_what_is_refused_leaves_nothing_behind(lake: tuple[Catalog, Generic, str]) -> None:
    _, generic, base = lake
    bad = VENDED | {"X-Frazil-Access": "everything"}
    place = f"{base}/g/refused"
    generic.create(NS, "refused", bad, base_location=place).refused(400, None, "X-Frazil-Access")
    generic.load(NS, "refused").refused(404)
    generic.create(NS, "next", base_location=place).ok()
