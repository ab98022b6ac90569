"""A purge deletes all below a generic table's location and nothing beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from tests.catalog.api.client import Catalog, connect
from tests.catalog.api.generic.support import Generic, local_warehouse, wait_until

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

NS = ("ns",)
SOFT = {"type": "soft", "expiration-seconds": 3600}


def fill(folder: Path, number: int = 30) -> set[Path]:
    names = [f"part-{i}.parquet" for i in range(number)] + [
        "deep/er/x",
        "_delta_log/0.json",
        ".hidden",
        "ü 1%",
    ]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("data")
    return {folder / name for name in names}


@pytest.fixture
def warehouse(server: FrazilServer, catalog: Catalog) -> tuple[Catalog, Generic, Path]:
    own, folder = local_warehouse(server, catalog.client)
    return own, Generic(own.client, own.prefix), folder


def test_all_below_the_location(warehouse: tuple[Catalog, Generic, Path]) -> None:
    """More files than fit in one batch; those of neighbours stay."""
    catalog, generic, root = warehouse
    generic.create(NS, "t1", base_location=f"file://{root}/a/t1").ok()
    generic.create(NS, "t10", base_location=f"file://{root}/a/t10").ok()
    catalog.create_table(NS, "iceberg", location=f"file://{root}/a/t").ok()
    files = fill(root / "a" / "t1", 1200)
    others = fill(root / "a" / "t10") | fill(root / "a" / "t1-old") | fill(root / "a" / "t")
    others |= {root / "a" / "t1.csv", *(path for path in root.rglob("*.metadata.json"))}
    (root / "a" / "t1.csv").write_text("data")
    generic.drop(NS, "t1").ok(204)
    wait_until(lambda: not any(map(os.path.exists, files)), "the files to be deleted")
    wait_until(lambda: not (root / "a" / "t1").exists(), "the emptied folders to be removed")
    assert all(map(os.path.exists, others))
    assert len(others) > 100
    generic.load(NS, "t10").ok()
    catalog.load(NS, "iceberg").ok()


def test_a_location_that_was_never_written_to(warehouse: tuple[Catalog, Generic, Path]) -> None:
    catalog, generic, root = warehouse
    generic.create(NS, "t", base_location=f"file://{root}/x").ok()
    generic.drop(NS, "t").ok(204)
    catalog.send("DELETE", "/namespaces/ns").ok(204)
    management = f"/management/v1/warehouse/{catalog.prefix}"
    wait_until(lambda: catalog.client.send("DELETE", management).status == 204, "the purge to be done")


def test_links_are_removed_and_not_followed(warehouse: tuple[Catalog, Generic, Path], tmp_path: Path) -> None:
    _, generic, root = warehouse
    generic.create(NS, "t", base_location=f"file://{root}/x").ok()
    outside = fill(tmp_path / "outside") | fill(root / "sibling")
    fill(root / "x")
    (root / "x" / "out").symlink_to(tmp_path / "outside")
    (root / "x" / "deep" / "beside").symlink_to(root / "sibling")
    generic.drop(NS, "t").ok(204)
    wait_until(lambda: not (root / "x").exists(), "the purge to be done")
    assert all(map(os.path.exists, outside))


def test_without_purge_the_files_stay(warehouse: tuple[Catalog, Generic, Path]) -> None:
    _, generic, root = warehouse
    generic.create(NS, "kept", base_location=f"file://{root}/kept").ok()
    generic.create(NS, "purged", base_location=f"file://{root}/purged").ok()
    kept = fill(root / "kept")
    fill(root / "purged")
    generic.drop(NS, "kept", "?purgeRequested=false").ok(204)
    generic.drop(NS, "purged", "?purgeRequested=true").ok(204)
    wait_until(lambda: not (root / "purged").exists(), "the other purge to be done")
    assert all(map(os.path.exists, kept))
    # They may be given to a new table.
    generic.create(NS, "again", base_location=f"file://{root}/kept").ok()
    generic.drop(NS, "again").ok(204)
    wait_until(lambda: not (root / "kept").exists(), "the purge to be done")


def test_soft_deletion_keeps_the_files(server: FrazilServer, catalog: Catalog) -> None:
    own, root = local_warehouse(server, catalog.client, **{"delete-profile": SOFT})
    generic = Generic(own.client, own.prefix)
    for name in ("later", "now"):
        generic.create(NS, name, base_location=f"file://{root}/{name}").ok()
    later = fill(root / "later")
    fill(root / "now")
    generic.drop(NS, "later").ok(204)
    generic.drop(NS, "now", "?force=true").ok(204)
    wait_until(lambda: not (root / "now").exists(), "the forced purge to be done")
    assert all(map(os.path.exists, later))


@pytest.fixture
def s3(object_store: ObjectStore) -> Any:
    """The store's own client, which knows nothing of the server."""
    return boto3.client(
        "s3",
        endpoint_url=object_store.endpoint,
        region_name=object_store.region,
        aws_access_key_id=object_store.admin.access,
        aws_secret_access_key=object_store.admin.secret,
    )


@pytest.fixture
def on_s3(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> tuple[Generic, str, str]:
    """A warehouse on S3, its bucket and its prefix."""
    bucket, prefix = "generic-purge", f"wh-{uuid4().hex[:8]}"
    profile, credential = object_store.warehouse_storage(bucket, prefix, **{"sts-enabled": False})
    body = {"warehouse-name": prefix, "storage-profile": profile, "storage-credential": credential}
    client = connect(frazil_sqlite.port).client
    made = client.send("POST", "/management/v1/warehouse", body).ok(201)
    Catalog(client, made["id"]).create_namespace(*NS).ok()
    return Generic(client, made["id"]), bucket, prefix


def keys_of(s3: Any, bucket: str, prefix: str) -> set[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {entry["Key"] for page in pages for entry in page.get("Contents", ())}


ODD = ["a b", "ü", "a%2Fb", "x+y", "k=v/part-0", "'q'&<>", "d.e/f..g", "_delta_log/00.json", "~", "日/本"]


def test_on_a_real_store(s3: Any, on_s3: tuple[Generic, str, str]) -> None:
    generic, bucket, prefix = on_s3
    base = f"s3://{bucket}/{prefix}"
    for name in ("t1", "t10"):
        generic.create(NS, name, base_location=f"{base}/a/{name}").ok()
    mine = {f"{prefix}/a/t1/{name}" for name in (*ODD, *(f"many/{n:04}" for n in range(1100)))}
    others = {f"{prefix}/a/{name}" for name in ("t10/x", "t1.csv", "t1-old/x", "t/x", "t100/a/t1/x")}
    for key in mine | others:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    # What Hadoop's S3A leaves to mark a directory.
    s3.put_object(Bucket=bucket, Key=f"{prefix}/a/t1/marked/", Body=b"")
    assert keys_of(s3, bucket, f"{prefix}/a/") >= mine | others
    generic.drop(NS, "t1").ok(204)
    below: Callable[[], set[str]] = lambda: keys_of(s3, bucket, f"{prefix}/a/t1/")  # noqa: E731
    wait_until(lambda: not below(), "the purge to be done")
    assert keys_of(s3, bucket, f"{prefix}/a/") == others
    wait_until(
        lambda: generic.create(NS, "again", base_location=f"{base}/a/t1").status == 200,
        "the location to be free again",
    )
