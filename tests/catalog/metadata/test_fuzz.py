"""Valid bodies with random damage: what comes of it is a FrazilError or a sound document, nothing else."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.catalog.metadata.support import (
    LOCATION,
    T0,
    UUID,
    append,
    field,
    new_table,
    ref,
    schema,
    struct,
    view_version,
    with_snapshots,
)

from frazil.catalog import metadata as m
from frazil.catalog import wire
from frazil.core.errors import FrazilError

Json = dict[str, Any]

STATISTICS: Json = {
    "snapshot-id": 1,
    "statistics-path": "s3://b/s.puffin",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [{"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1]}],
}
NESTED = {
    "type": "map",
    "key-id": 8,
    "key": "string",
    "value-id": 9,
    "value": {
        "type": "list",
        "element-id": 10,
        "element": struct(field(11, "x", "int")),
        "element-required": True,
    },
    "value-required": False,
}
SORT = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
PARTITION = {"source-id": 3, "field-id": 1000, "name": "day", "transform": "day"}
UPDATES: list[Json] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 3},
    {
        "action": "add-schema",
        "schema": struct(*schema()["fields"], field(7, "m", NESTED)),
        "last-column-id": 11,
    },
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"spec-id": 1, "fields": [PARTITION]}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [SORT]}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    *append(4, **{"first-row-id": 30, "added-rows": 5, "parent-snapshot-id": 3}),
    ref("tag", 1, "tag", **{"max-ref-age-ms": 1}),
    ref("dev", 2, **{"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 1}),
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "dev"},
    {"action": "set-location", "location": LOCATION},
    {"action": "set-properties", "updates": {"a": "b", "write.metadata.previous-versions-max": "3"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "statistics": STATISTICS, "snapshot-id": 1},
    {"action": "remove-statistics", "snapshot-id": 1},
    {"action": "set-partition-statistics", "partition-statistics": STATISTICS},
    {"action": "remove-partition-statistics", "snapshot-id": 1},
    {"action": "remove-partition-specs", "spec-ids": [1]},
    {"action": "remove-schemas", "schema-ids": [1]},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "eA=="}},
    {"action": "remove-encryption-key", "key-id": "k"},
    {"action": "enable-row-lineage"},
]
REQUIREMENTS: list[Json] = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 3},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 5},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]
VIEW_UPDATES: list[Json] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 1},
    {"action": "add-schema", "schema": struct(field(1, "a", "int"))},
    {"action": "add-view-version", "view-version": view_version(2, "select 2", **{"schema-id": -1})},
    {"action": "set-current-view-version", "view-version-id": -1},
    {"action": "set-location", "location": LOCATION},
    {"action": "set-properties", "updates": {"version.history.num-entries": "1"}},
    {"action": "remove-properties", "removals": ["a"]},
]
JUNK: list[Any] = [
    *[None, True, False, 0, 1, -1, 2, 3, 5, 999, 1000, 1.5],
    *[-(2**31), 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**30],
    *["", "x", "main", "tag", "branch", "int", "decimal(9,2)", "variant", "struct", "bucket[4]", "void"],
    *["a.b", "\0", "é😀", "nulls-last", "-1", "9" * 400, UUID, "00000000-0000-0000-0000-000000000000"],
    *[[], [1, 1], {}, [None], {"": None}, {"type": "struct"}, {"type": "list"}],
    *[NESTED, struct(), SORT, PARTITION, STATISTICS],
]


def damage(draw: Callable[[Any], Any], node: Any) -> Any:
    """A copy of `node` with something in it replaced, taken out, or put in twice."""
    node = json.loads(json.dumps(node))
    for _ in range(draw(st.integers(0, 3))):
        parent: Any = None
        key: Any = None
        at = node
        while isinstance(at, (dict, list)) and at and (parent is None or draw(st.integers(0, 3))):
            parent = at
            key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
            at = at[key]
        if parent is None:
            continue
        what = draw(st.sampled_from(["replace", "replace", "remove", "again"]))
        if what == "remove":
            del parent[key]
        elif what == "again" and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(at))
        else:
            # Mostly of the same type, or the wire would refuse nearly all of it.
            alike = [junk for junk in JUNK if type(junk) is type(at)] if draw(st.integers(0, 4)) else JUNK
            parent[key] = copy.deepcopy(draw(st.sampled_from(alike or JUNK)))
    return node


def chosen(draw: Callable[[Any], Any], entries: list[Json], most: int) -> list[Json]:
    picked: list[Json] = draw(st.lists(st.sampled_from(entries), max_size=most))
    return picked


FUZZ = settings(
    max_examples=int(os.environ.get("FRAZIL_FUZZ_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def attempt(action: Callable[[], Json], parse: Callable[[bytes], Json]) -> None:
    try:
        made = action()
    except FrazilError as error:
        event(type(error).__name__)
        return
    event("accepted")
    assert parse(m.encode(made)) == made


@FUZZ
@given(st.data())
def test_commits(data: st.DataObject) -> None:
    version = data.draw(st.integers(1, 3))
    base = data.draw(st.sampled_from([None, new_table(version), with_snapshots(3, max(version, 2))]))
    body = damage(
        data.draw,
        {
            "requirements": chosen(data.draw, REQUIREMENTS, 2) if data.draw(st.booleans()) else [],
            "updates": UPDATES[:15] if data.draw(st.booleans()) else chosen(data.draw, UPDATES, 8),
        },
    )
    kept = copy.deepcopy(base)

    def action() -> Json:
        _, raw = wire.decode(wire.CommitTableRequest, json.dumps(body).encode())
        if raw["requirements"]:
            m.check_requirements(raw["requirements"], base)
        return m.apply_updates(
            base, raw["updates"], now_ms=T0 + 100, metadata_location="s3://b/0.metadata.json"
        )

    attempt(action, m.parse_table_metadata)
    assert base == kept


@FUZZ
@given(st.data())
def test_new_tables(data: st.DataObject) -> None:
    body: Json = {
        "name": "t",
        "schema": UPDATES[2]["schema"],
        "partition-spec": {"fields": [PARTITION]},
        "write-order": {"order-id": 1, "fields": [SORT]},
        "properties": {"format-version": "2", "a": "b"},
    }
    body = damage(data.draw, body)

    def action() -> Json:
        _, raw = wire.decode(wire.CreateTableRequest, json.dumps(body).encode())
        properties = raw.get("properties") or {}
        return m.new_table_metadata(
            uuid=UUID,
            location=LOCATION,
            schema=raw["schema"],
            partition_spec=raw.get("partition-spec"),
            write_order=raw.get("write-order"),
            properties=properties,
            format_version=m.format_version_of(properties),
            now_ms=T0,
        )

    attempt(action, m.parse_table_metadata)


@FUZZ
@given(st.data())
def test_views(data: st.DataObject) -> None:
    body = damage(data.draw, {"requirements": [], "updates": chosen(data.draw, VIEW_UPDATES, 8)})
    made = damage(
        data.draw, {"name": "v", "schema": schema(), "view-version": view_version(), "properties": {}}
    )

    def action() -> Json:
        _, raw = wire.decode(wire.CreateViewRequest, json.dumps(made).encode())
        view = m.new_view_metadata(
            uuid=UUID,
            location=LOCATION,
            schema=raw["schema"],
            view_version=raw["view-version"],
            properties=raw.get("properties") or {},
            now_ms=T0,
        )
        _, raw = wire.decode(wire.CommitViewRequest, json.dumps(body).encode())
        m.check_view_requirements(raw.get("requirements"), view)
        return m.apply_view_updates(view, raw["updates"], now_ms=T0)

    attempt(action, m.parse_view_metadata)


@FUZZ
@given(st.data())
def test_metadata_files_and_what_is_committed_to_them(data: st.DataObject) -> None:
    """A damaged file that is accepted must take a commit like any other."""
    whole = m.apply_updates(
        with_snapshots(3, data.draw(st.integers(2, 3))), UPDATES[2:8], now_ms=T0, metadata_location=None
    )
    early = {k: v for k, v in new_table(1).items() if k not in ("schemas", "partition-specs", "sort-orders")}
    body = damage(data.draw, data.draw(st.sampled_from([whole, new_table(1), early])))
    updates = chosen(data.draw, UPDATES, 6)

    def action() -> Json:
        table = m.parse_table_metadata(json.dumps(body).encode())
        m.refs_only(table)
        m.next_metadata_location(table, "s3://b/00001-x.metadata.json")
        changed = m.apply_updates(table, updates, now_ms=T0 + 100, metadata_location="s3://b/0.metadata.json")
        m.removed_metadata_files(table, changed)
        return changed

    attempt(action, m.parse_table_metadata)
