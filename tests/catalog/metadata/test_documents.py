from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
from tests.catalog.metadata.support import LOCATION, T0, apply, new_table, schema, with_snapshots

from frazil.catalog import metadata as m
from frazil.core.errors import InvalidInput

Json = dict[str, Any]


def test_what_we_write_reads_back_the_same() -> None:
    for version in (2, 3):
        table = with_snapshots(3, version)
        assert m.parse_table_metadata(m.encode(table)) == table
        assert m.parse_table_metadata(gzip.compress(m.encode(table))) == table


def test_an_early_v1_document_gets_its_lists() -> None:
    early: Json = {
        "format-version": 1,
        "location": LOCATION + "/",
        "last-updated-ms": T0,
        "last-column-id": 5,
        "schema": schema(),
        "partition-spec": [{"name": "id", "transform": "identity", "source-id": 1}],
        "properties": {},
        "current-snapshot-id": 7,
        "snapshots": [
            {"snapshot-id": 7, "timestamp-ms": T0, "manifests": ["s3://b/m.avro"], "parent-snapshot-id": None}
        ],
    }
    table = m.parse_table_metadata(json.dumps(early).encode())
    assert table["schemas"][0]["schema-id"] == table["current-schema-id"] == 0
    assert table["schema"] == table["schemas"][0]
    assert table["partition-specs"][0]["fields"][0]["field-id"] == 1000
    assert (table["default-spec-id"], table["last-partition-id"]) == (0, 1000)
    assert table["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert table["refs"] == {"main": {"snapshot-id": 7, "type": "branch"}}
    assert table["snapshots"] == [{"snapshot-id": 7, "timestamp-ms": T0, "manifests": ["s3://b/m.avro"]}]
    assert re.fullmatch(r"[0-9a-f-]{36}", table["table-uuid"])
    assert table["location"] == LOCATION
    upgraded = apply(table, {"action": "upgrade-format-version", "format-version": 2})
    assert m.parse_table_metadata(m.encode(upgraded)) == upgraded


def _without(*keys: str) -> Json:
    return {k: v for k, v in with_snapshots(2).items() if k not in keys}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"format-version": 2}, "missing required field"),
        (with_snapshots(2) | {"format-version": 4}, "format-version"),
        (with_snapshots(2) | {"format-version": 3}, "next-row-id is required"),
        (with_snapshots(2) | {"schemas": []}, "current schema"),
        (with_snapshots(2) | {"current-schema-id": 9}, "current schema"),
        (with_snapshots(2) | {"default-spec-id": 9}, "partition spec 9"),
        (with_snapshots(2) | {"default-sort-order-id": 9}, "sort order 9"),
        (with_snapshots(2) | {"current-snapshot-id": 1}, "branch main is at 2"),
        (with_snapshots(2) | {"current-snapshot-id": 99, "refs": {}}, "99"),
        (with_snapshots(2) | {"current-snapshot-id": -1}, "no current-snapshot-id"),
        (with_snapshots(2) | {"last-sequence-number": 1}, "over last-sequence-number"),
        (with_snapshots(2) | {"snapshots": with_snapshots(2)["snapshots"] * 2}, "two entries"),
        (with_snapshots(2) | {"refs": {"t": {"type": "tag", "snapshot-id": 5}}}, "points at snapshot 5"),
        (with_snapshots(2) | {"table-uuid": "x"}, "UUID"),
        (with_snapshots(2) | {"location": 5}, r"\$.location"),
        (_without("schemas"), "schemas is required"),
        (_without("current-schema-id"), "current-schema-id is required"),
        (_without("table-uuid"), "table-uuid is required"),
        (_without("last-sequence-number"), "last-sequence-number is required"),
        (_without("sort-orders"), "sort-orders is required"),
    ],
)
def test_documents_that_are_refused(document: Json, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"^the metadata file.*{words}"):
        m.parse_table_metadata(m.encode(document))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"\x1f\x8b",
        b"\x1f\x8bnothing",
        gzip.compress(b"{}", mtime=0)[:-3],
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_document(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="the metadata file"):
        m.parse_table_metadata(data)
    with pytest.raises(InvalidInput, match="the metadata file"):
        m.parse_view_metadata(data)


def test_a_gzip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frazil.catalog.metadata.documents.MAX_DOCUMENT_BYTES", 1000)
    with pytest.raises(InvalidInput, match="larger than 1000 bytes"):
        m.parse_table_metadata(gzip.compress(b" " * 100_000))


NAME = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@pytest.mark.parametrize(
    ("properties", "previous", "pattern"),
    [
        ({}, None, f"{LOCATION}/metadata/00000-{NAME}.metadata.json"),
        ({}, f"{LOCATION}/metadata/00012-x.metadata.json", f"{LOCATION}/metadata/00013-{NAME}.metadata.json"),
        ({}, f"{LOCATION}/metadata/v3.metadata.json", f"{LOCATION}/metadata/00000-{NAME}.metadata.json"),
        (
            {"write.metadata.compression-codec": "GZIP"},
            "s3://b/99999-x.gz.metadata.json",
            f"{LOCATION}/metadata/100000-{NAME}.gz.metadata.json",
        ),
        ({"write.metadata.path": "s3://other/m/"}, None, f"s3://other/m/00000-{NAME}.metadata.json"),
    ],
)
def test_where_the_next_metadata_file_goes(
    properties: dict[str, str], previous: str | None, pattern: str
) -> None:
    table = new_table(properties=properties)
    assert re.fullmatch(pattern, m.next_metadata_location(table, previous))
    assert m.next_metadata_location(table, previous) != m.next_metadata_location(table, previous)


def test_only_tables_that_ask_for_it_lose_old_metadata_files() -> None:
    for enabled, removed in (("true", ["s3://b/1.metadata.json"]), ("false", [])):
        properties = {
            "write.metadata.delete-after-commit.enabled": enabled,
            "write.metadata.previous-versions-max": "1",
        }
        change = {"action": "set-properties", "updates": {"a": "b"}}
        before = apply(new_table(properties=properties), change, file="s3://b/1.metadata.json")
        after = apply(before, change, file="s3://b/2.metadata.json")
        assert m.removed_metadata_files(before, after) == removed
