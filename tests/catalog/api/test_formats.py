"""Format versions 1 to 3: what the server does not understand passes through it intact."""

from __future__ import annotations

from typing import Any

import pytest
from tests.catalog.api.client import Catalog, Json, add_snapshot, column, schema, set_properties, set_ref

Levels = tuple[str, ...]


def create(catalog: Catalog, ns: Levels, version: int, **more: Any) -> Json:
    metadata: Json = catalog.create_table(ns, "t", properties={"format-version": str(version)}, **more).ok()[
        "metadata"
    ]
    return metadata


def commit(catalog: Catalog, ns: Levels, *updates: Json) -> Json:
    metadata: Json = catalog.commit(ns, "t", *updates).ok()["metadata"]
    assert catalog.load(ns, "t").ok()["metadata"] == metadata
    return metadata


def test_v1_has_no_sequence_numbers(catalog: Catalog, ns: Levels) -> None:
    metadata = create(catalog, ns, 1)
    assert "last-sequence-number" not in metadata
    assert metadata["schema"] == metadata["schemas"][0]
    assert metadata["partition-spec"] == []
    catalog.commit(ns, "t", add_snapshot(1)).refused(400, None, "sequence numbers")
    first = add_snapshot(1, **{"sequence-number": 0})
    assert commit(catalog, ns, first, set_ref(1))["current-snapshot-id"] == 1
    upgraded = commit(catalog, ns, {"action": "upgrade-format-version", "format-version": 2})
    assert upgraded["format-version"] == 2
    assert "schema" not in upgraded
    assert upgraded["last-sequence-number"] == 0
    catalog.commit(ns, "t", {"action": "upgrade-format-version", "format-version": 1}).refused(
        400, None, "updates[0]"
    )
    catalog.commit(ns, "t", {"action": "upgrade-format-version", "format-version": 4}).refused(
        400, None, "updates[0]"
    )


def test_v2_sequence_numbers_only_grow(catalog: Catalog, ns: Levels) -> None:
    create(catalog, ns, 2)
    assert commit(catalog, ns, add_snapshot(5), set_ref(5))["last-sequence-number"] == 5
    stale = add_snapshot(6, **{"sequence-number": 5, "parent-snapshot-id": 5})
    catalog.commit(ns, "t", stale).refused(409, "CommitFailedException", "sequence number")
    catalog.commit(ns, "t", add_snapshot(5, **{"sequence-number": 6})).refused(400, None, "snapshot 5")


def test_v3_row_lineage(catalog: Catalog, ns: Levels) -> None:
    assert create(catalog, ns, 3)["next-row-id"] == 0
    catalog.commit(ns, "t", add_snapshot(1)).refused(400, None, "first-row-id")
    rows = {"first-row-id": 0, "added-rows": 10, "key-id": "k1"}
    metadata = commit(catalog, ns, add_snapshot(1, **rows), set_ref(1))
    assert metadata["next-row-id"] == 10
    assert metadata["snapshots"][0]["first-row-id"] == 0
    assert metadata["snapshots"][0]["key-id"] == "k1"
    again = add_snapshot(2, **{**rows, "first-row-id": 5})
    catalog.commit(ns, "t", again).refused(409, "CommitFailedException", "first-row-id")
    over = add_snapshot(2, **{"first-row-id": 2**63 - 1, "added-rows": 1})
    catalog.commit(ns, "t", over).refused(400, None, "64-bit")
    assert commit(catalog, ns, add_snapshot(2, **{**rows, "first-row-id": 10}))["next-row-id"] == 20


def test_v3_types_and_default_values(catalog: Catalog, ns: Levels) -> None:
    kinds: list[Any] = [
        "variant",
        "unknown",
        "timestamp_ns",
        "timestamptz_ns",
        "geometry(EPSG:4326)",
        "geography",
    ]
    columns = [column(n, f"c{n}", kind) for n, kind in enumerate(kinds, 1)]
    columns += [
        column(20, "i", "int", **Json({"initial-default": 5, "write-default": 7})),
        column(21, "s", "string", required=True, **{"initial-default": "x", "write-default": "🧊"}),
        column(22, "d", "double", **Json({"initial-default": 0.1})),
        column(23, "b", "binary", **Json({"initial-default": "00ff"})),
    ]
    sent = schema(*columns)
    fields = create(catalog, ns, 3, schema=sent)["schemas"][0]["fields"]
    assert [{**f, "id": 0} for f in fields] == [{**c, "id": 0} for c in columns]
    for version in ("1", "2"):
        for bad in columns:
            answer = catalog.create_table(ns, "u", schema=schema(bad), properties={"format-version": version})
            answer.refused(400, None, "v3", bad["name"])


def test_encryption_keys(catalog: Catalog, ns: Levels) -> None:
    create(catalog, ns, 3)
    secret = {
        "key-id": "k1",
        "encrypted-key-metadata": "aGk=",
        "encrypted-by-id": "kek",
        "properties": {"a": "b"},
    }
    metadata = commit(catalog, ns, {"action": "add-encryption-key", "encryption-key": secret})
    assert metadata["encryption-keys"] == [secret]
    metadata = commit(catalog, ns, {"action": "remove-encryption-key", "key-id": "k1"})
    assert not metadata["encryption-keys"]


def test_statistics(catalog: Catalog, ns: Levels) -> None:
    create(catalog, ns, 2)
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    file: Json = {
        "snapshot-id": 1,
        "statistics-path": "file:///x.puffin",
        "file-size-in-bytes": 10,
        "file-footer-size-in-bytes": 5,
        "blob-metadata": [{**blob, "properties": {"ndv": "3"}}],
    }
    part: Json = {"snapshot-id": 1, "statistics-path": "file:///p.parquet", "file-size-in-bytes": 9}
    metadata = commit(
        catalog,
        ns,
        add_snapshot(1),
        set_ref(1),
        {"action": "set-statistics", "snapshot-id": 1, "statistics": file},
        {"action": "set-partition-statistics", "partition-statistics": part},
    )
    assert metadata["statistics"] == [file]
    assert metadata["partition-statistics"] == [part]
    newer = {**file, "statistics-path": "file:///y.puffin"}
    metadata = commit(catalog, ns, {"action": "set-statistics", "statistics": newer})
    assert metadata["statistics"] == [newer]
    metadata = commit(
        catalog,
        ns,
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "remove-partition-statistics", "snapshot-id": 1},
    )
    assert metadata["statistics"] == metadata["partition-statistics"] == []


def test_branches_tags_and_expiry(catalog: Catalog, ns: Levels) -> None:
    create(catalog, ns, 2)
    for number in (1, 2, 3):
        commit(catalog, ns, add_snapshot(number), set_ref(number))
    limits: Json = {"min-snapshots-to-keep": 2, "max-snapshot-age-ms": 5, "max-ref-age-ms": 6}
    metadata = commit(catalog, ns, set_ref(2, "branch", **limits), set_ref(1, "tag", "tag"))
    assert metadata["refs"]["branch"] == {"snapshot-id": 2, "type": "branch", **limits}
    catalog.commit(ns, "t", set_ref(1, "main", "tag")).refused(400, None, "main")
    metadata = commit(catalog, ns, {"action": "remove-snapshots", "snapshot-ids": [1, 99]})
    assert [s["snapshot-id"] for s in metadata["snapshots"]] == [2, 3]
    assert set(metadata["refs"]) == {"main", "branch"}
    metadata = commit(catalog, ns, {"action": "remove-snapshot-ref", "ref-name": "main"})
    assert metadata["current-snapshot-id"] == -1


UNKNOWN: Json = {"x-future": {"list": [1, "two", None, {"deep": True}], "big": 2**60, "float": 1.5}}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_unknown_fields_pass_through(catalog: Catalog, ns: Levels, version: int) -> None:
    sent = schema(column(1, "id", **UNKNOWN), **UNKNOWN)
    spec = {"fields": [{"source-id": 1, "transform": "identity", "name": "p", **UNKNOWN}], **UNKNOWN}
    create(catalog, ns, version, schema=sent, **{"partition-spec": spec})
    sequence = {"sequence-number": 0} if version == 1 else {}
    lineage = {"first-row-id": 0, "added-rows": 1} if version == 3 else {}
    metadata = commit(catalog, ns, add_snapshot(1, **sequence, **lineage, **UNKNOWN), set_ref(1))
    for place in (
        metadata["schemas"][0],
        metadata["schemas"][0]["fields"][0],
        metadata["partition-specs"][0],
        metadata["partition-specs"][0]["fields"][0],
        metadata["snapshots"][0],
    ):
        assert place["x-future"] == UNKNOWN["x-future"]
    after = commit(catalog, ns, set_properties(a="b"))
    assert after["snapshots"] == metadata["snapshots"]
    assert after["schemas"] == metadata["schemas"]


def test_transforms_of_the_future(catalog: Catalog, ns: Levels) -> None:
    """An unknown transform is legal to read past; the server must not break on it."""
    spec = {"fields": [{"source-id": 1, "transform": "zorder", "name": "z"}]}
    assert catalog.create_table(ns, "t", **Json({"partition-spec": spec})).status in (200, 400)
    bucket = {"fields": [{"source-id": 1, "transform": "bucket[0]", "name": "z"}]}
    catalog.create_table(ns, "u", **Json({"partition-spec": bucket})).refused(400, None, "bucket")
