"""What the metadata document alone tells of a table's size."""

from __future__ import annotations

from typing import Any

import msgspec

from frazil.maintenance import Health, table_health


def test_a_table_without_snapshots() -> None:
    found = table_health({"metadata-log": []})
    assert found == Health(0, 0, 0, 0, 0, 0, 0, None, len(b'{"metadata-log":[]}'), 0)


def test_what_the_head_says() -> None:
    summary = {
        "operation": "append",
        "added-data-files": "2",
        "added-files-size": "10",
        "total-data-files": "7",
        "total-files-size": "5000",
        "total-records": "70",
        "manifests-created": "1",
        "manifests-kept": "4",
    }
    metadata: dict[str, Any] = {
        "snapshots": [
            {"snapshot-id": 1, "timestamp-ms": 1000, "summary": {"operation": "append"}},
            {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 2000, "summary": summary},
        ],
        "refs": {"main": {"snapshot-id": 2, "type": "branch"}},
        "metadata-log": [{"metadata-file": "file:/1"}],
    }
    size = len(msgspec.json.encode(metadata))
    assert table_health(metadata) == Health(7, 5000, 70, 5, 2, 1, 2, 1000, size, 1)
    # Files of 5 bytes are as large as they should be.
    assert table_health(metadata, file_size=5).small_files == 0
    # A writer that does not count: not known is not none.
    metadata["refs"]["main"]["snapshot-id"] = 1
    found = table_health(metadata)
    assert (found.files, found.bytes, found.records, found.manifests) == (None, None, None, None)
