"""What is sent: a table of 20 columns, its metadata with a history, and commits that append."""

from __future__ import annotations

import json
import random
import time
import uuid
from typing import Any

Json = dict[str, Any]

_COLUMNS = [
    ("event_id", "long", True),
    ("event_time", "timestamptz", True),
    ("event_type", "string", True),
    ("user_id", "long", False),
    ("session_id", "uuid", False),
    ("account_id", "long", False),
    ("country", "string", False),
    ("city", "string", False),
    ("device", "string", False),
    ("os_version", "string", False),
    ("app_version", "string", False),
    ("referrer", "string", False),
    ("page_url", "string", False),
    ("product_id", "long", False),
    ("quantity", "int", False),
    ("unit_price", "decimal(18, 4)", False),
    ("currency", "string", False),
    ("discount", "double", False),
    ("is_new_user", "boolean", False),
    ("ingested_at", "timestamptz", True),
]
FIELDS = [
    {"id": number, "name": name, "required": required, "type": kind, "doc": f"The {name} of the event"}
    for number, (name, kind, required) in enumerate(_COLUMNS, 1)
]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": FIELDS}
PARTITION_FIELD = {"name": "event_day", "transform": "day", "source-id": 2, "field-id": 1000}
PROPERTIES = {"write.parquet.compression-codec": "zstd", "owner": "events", "team": "web analytics"}


def new_id() -> int:
    """A snapshot id as clients make them."""
    return random.getrandbits(62) | 1 << 61


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create_body(name: str) -> bytes:
    return json.dumps(
        {
            "name": name,
            "schema": SCHEMA,
            "partition-spec": {"spec-id": 0, "fields": [PARTITION_FIELD]},
            "write-order": {"order-id": 0, "fields": []},
            "properties": PROPERTIES,
            "stage-create": False,
        }
    ).encode()


def snapshot(location: str, snapshot_id: int, parent: int | None, sequence: int, when: int) -> Json:
    """An append of a few files, with the summary that Spark writes."""
    records = 10_000 + snapshot_id % 5_000
    found: Json = {"sequence-number": sequence, "snapshot-id": snapshot_id}
    if parent is not None:
        found["parent-snapshot-id"] = parent
    return found | {
        "timestamp-ms": when,
        "summary": {
            "operation": "append",
            "spark.app.id": "local-1759999999999",
            "added-data-files": "4",
            "added-records": str(records),
            "added-files-size": str(records * 57),
            "changed-partition-count": "2",
            "total-records": str(records * sequence),
            "total-files-size": str(records * 57 * sequence),
            "total-data-files": str(4 * sequence),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
            "engine-version": "4.1.3",
            "app-id": "local-1759999999999",
            "engine-name": "spark",
            "iceberg-version": "Apache Iceberg 1.12.0",
        },
        "manifest-list": f"{location}/metadata/snap-{snapshot_id}-1-{uuid.UUID(int=snapshot_id)}.avro",
        "schema-id": 0,
    }


def table_metadata(location: str, table_uuid: str, snapshots: int) -> Json:
    """A table with a history of that many appends, each of which left its entry in both logs."""
    start = now_ms() - (snapshots + 1) * 1000
    ids = [new_id() for _ in range(snapshots)]
    times = [start + 1000 * number for number in range(snapshots)]
    parents = [None, *ids]
    history = [
        snapshot(location, ids[i], parents[i], sequence=i + 1, when=times[i]) for i in range(snapshots)
    ]
    files = [
        f"{location}/metadata/{number:05d}-{uuid.UUID(int=new_id())}.metadata.json"
        for number in range(snapshots)
    ]
    return {
        "format-version": 2,
        "table-uuid": table_uuid,
        "location": location,
        "last-sequence-number": snapshots,
        "last-updated-ms": times[-1],
        "last-column-id": len(FIELDS),
        "current-schema-id": 0,
        "schemas": [SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [PARTITION_FIELD]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": PROPERTIES,
        "current-snapshot-id": ids[-1],
        "refs": {"main": {"snapshot-id": ids[-1], "type": "branch"}},
        "snapshots": history,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [{"timestamp-ms": w, "snapshot-id": i} for w, i in zip(times, ids, strict=True)],
        "metadata-log": [
            {"timestamp-ms": w - 1, "metadata-file": f} for w, f in zip(times, files, strict=True)
        ],
    }


def append_body(location: str, table_uuid: str, parent: int | None, sequence: int, snapshot_id: int) -> bytes:
    """A commit that appends one snapshot to main."""
    return json.dumps(
        {
            "requirements": [
                {"type": "assert-table-uuid", "uuid": table_uuid},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
            ],
            "updates": [
                {
                    "action": "add-snapshot",
                    "snapshot": snapshot(location, snapshot_id, parent, sequence, now_ms()),
                },
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": snapshot_id,
                },
            ],
        }
    ).encode()
