"""Small builders for the metadata tests."""

from __future__ import annotations

import copy
from typing import Any

from frazil.catalog import metadata as m

Json = dict[str, Any]

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
LOCATION = "s3://bucket/ns/table"
T0 = 1_700_000_000_000


def field(field_id: int, name: str, type_: Any, *, required: Any = False, **more: Any) -> Json:
    return {"id": field_id, "name": name, "type": type_, "required": required, **more}


def struct(*fields: Json, **more: Any) -> Json:
    return {"type": "struct", "fields": list(fields), **more}


def schema() -> Json:
    """id, data, ts, and a nested point.x; numbered 1 to 5 as a new table would."""
    point = struct(field(5, "x", "double", required=True))
    return struct(
        field(1, "id", "long", required=True),
        field(2, "data", "string"),
        field(3, "ts", "timestamptz"),
        field(4, "point", point),
        **{"identifier-field-ids": [1]},
    )


def new_table(version: int = 2, **changes: Any) -> Json:
    arguments: Json = {
        "uuid": UUID,
        "location": LOCATION,
        "schema": schema(),
        "partition_spec": None,
        "write_order": None,
        "properties": {},
        "format_version": version,
        "now_ms": T0,
    }
    return m.new_table_metadata(**(arguments | changes))


def snapshot(snapshot_id: int, sequence: Any = None, **more: Any) -> Json:
    number = snapshot_id if sequence is None else sequence
    made: Json = {
        "snapshot-id": snapshot_id,
        "sequence-number": number,
        "timestamp-ms": T0 + number,
        "manifest-list": f"{LOCATION}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if snapshot_id > 1:
        made["parent-snapshot-id"] = snapshot_id - 1
    return made | more


def add(made: Json) -> Json:
    return {"action": "add-snapshot", "snapshot": made}


def ref(name: str, snapshot_id: int, type_: Any = "branch", **more: Any) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "snapshot-id": snapshot_id, "type": type_, **more}


def append(snapshot_id: int, **more: Any) -> list[Json]:
    return [add(snapshot(snapshot_id, **more)), ref("main", snapshot_id)]


def apply(
    before: Json | None, *updates: Json, now: int = T0 + 1000, file: str | None = "s3://b/0.metadata.json"
) -> Json:
    """Apply, and make sure that what went in was not written to."""
    kept = copy.deepcopy((before, updates))
    after = m.apply_updates(before, list(updates), now_ms=now, metadata_location=file)
    assert (before, updates) == kept
    return after


def with_snapshots(count: int, version: int = 2) -> Json:
    table = new_table(version)
    for number in range(1, count + 1):
        extra = {"first-row-id": (number - 1) * 10, "added-rows": 10} if version == 3 else {}
        table = apply(table, *append(number, **extra), now=T0 + number, file=f"s3://b/{number}.metadata.json")
    return table


def view_version(version_id: int = 1, sql: Any = "select 1", dialect: Any = "spark", **more: Any) -> Json:
    return {
        "version-id": version_id,
        "timestamp-ms": T0,
        "schema-id": 0,
        "summary": {"engine": "test"},
        "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
    } | more
