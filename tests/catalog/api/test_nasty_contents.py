"""Numbers that do not fit and contents that contradict themselves: a 400 each, and nothing changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.catalog.api.client import (
    Json,
    add_snapshot,
    column,
    identifier,
    schema,
    set_properties,
    set_ref,
)
from tests.catalog.api.nasty import (
    TABLE,
    TABLES,
    VIEW,
    Nasty,
    check,
    short,
)
from tests.catalog.api.victim import NS, Victim

# --- Numbers ---

NUMBERS = [
    "1.0",
    "1.5",
    "1e2",
    "1e400",
    "-1e400",
    "2147483648",
    "-2147483649",
    "9" * 30,
    "9" * 5000,
    '"1"',
    "true",
    "-0.0",
]


@pytest.mark.parametrize("number", NUMBERS, ids=short)
def test_numbers_that_do_not_fit(victim: Victim, number: str) -> None:
    text = json.dumps({"name": "x", "schema": schema(column(12345, "id"))}).replace("12345", number)
    check(victim, Nasty(TABLES, text.encode()))
    large = number if number != "2147483648" else str(2**63)
    large = large if number != "-2147483649" else str(-(2**63) - 1)
    commit = {"requirements": [], "updates": [add_snapshot(12345, **{"sequence-number": 2})]}
    check(victim, Nasty(TABLE, json.dumps(commit).replace("12345", large).encode()))


def test_field_ids_at_the_edge(victim: Victim) -> None:
    """Legal in a create request, where ids are counted afresh, but not in add-schema."""
    for number in (2**31 - 1, 2**31 - 200):
        update = {"action": "add-schema", "schema": schema(column(number, "x"))}
        check(victim, Nasty(TABLE, {"requirements": [], "updates": [update]}, ("updates[0]", str(number))))


# --- Contents that contradict themselves ---

CREATES: dict[str, tuple[Json, str]] = {
    "two fields with one id": ({"schema": schema(column(1, "a"), column(1, "b"))}, "id"),
    "two fields with one name": ({"schema": schema(column(1, "a"), column(2, "a"))}, "name"),
    "dotted twin": (
        {"schema": schema(column(1, "a.b"), column(2, "a", {"type": "struct", "fields": [column(3, "b")]}))},
        "name",
    ),
    "no such type": ({"schema": schema(column(1, "a", "varchar(3)"))}, "type"),
    "type in capitals": ({"schema": schema(column(1, "a", "LONG"))}, "type"),
    "decimal too wide": ({"schema": schema(column(1, "a", "decimal(39,2)"))}, "decimal"),
    "decimal scale": ({"schema": schema(column(1, "a", "decimal(9,10)"))}, "decimal"),
    "fixed 0": ({"schema": schema(column(1, "a", "fixed[0]"))}, "fixed"),
    "fixed huge": ({"schema": schema(column(1, "a", "fixed[99999999999]"))}, "type"),
    "no such nested type": ({"schema": schema(column(1, "a", {"type": "set", "element": "int"}))}, "type"),
    "schema is a list": ({"schema": {"type": "list", "fields": []}}, "type"),
    "identifier not there": ({"schema": schema(column(1, "a"), **{"identifier-field-ids": [7]})}, "7"),
    "identifier optional": ({"schema": schema(column(1, "a"), **{"identifier-field-ids": [1]})}, "required"),
    "identifier double": (
        {"schema": schema(column(1, "a", "double", required=True), **{"identifier-field-ids": [1]})},
        "double",
    ),
    "partition source not there": (
        {"partition-spec": {"fields": [{"source-id": 9, "transform": "identity", "name": "p"}]}},
        "p",
    ),
    "partition name empty": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "identity", "name": ""}]}},
        "name",
    ),
    "partition without source": (
        {"partition-spec": {"fields": [{"transform": "identity", "name": "p"}]}},
        "source",
    ),
    "partition twice": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "identity", "name": "p"}] * 2}},
        "p",
    ),
    "transform of the wrong type": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "day", "name": "p"}]}},
        "day",
    ),
    "bucket 0": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "bucket[0]", "name": "p"}]}},
        "bucket",
    ),
    "bucket negative": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "bucket[-1]", "name": "p"}]}},
        "bucket",
    ),
    "bucket huge": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": f"bucket[{10**30}]", "name": "p"}]}},
        "bucket",
    ),
    "sort source not there": (
        {
            "write-order": {
                "fields": [
                    {"source-id": 9, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                ]
            }
        },
        "sort",
    ),
    "sort direction": (
        {
            "write-order": {
                "fields": [
                    {"source-id": 1, "transform": "identity", "direction": "up", "null-order": "nulls-first"}
                ]
            }
        },
        "direction",
    ),
    "previous versions": (
        {"properties": {"write.metadata.previous-versions-max": "many"}},
        "previous-versions-max",
    ),
    "retries": ({"properties": {"commit.retry.num-retries": "-1"}}, "commit.retry.num-retries"),
    "codec": ({"properties": {"write.metadata.compression-codec": "brotli"}}, "compression-codec"),
    "nul in a property": ({"properties": {"a": "b\x00c"}}, "NUL"),
    "nul in a key": ({"properties": {"a\x00": "b"}}, "NUL"),
    "nul in a column": ({"schema": schema(column(1, "a\x00b"))}, "NUL"),
}


@pytest.mark.parametrize("name", CREATES)
def test_tables_that_cannot_be(victim: Victim, name: str) -> None:
    more, word = CREATES[name]
    body = {"name": "new", "schema": schema(), **more}
    check(victim, Nasty(TABLES, body, (word,)))
    check(victim, Nasty(TABLES, {**body, "stage-create": True}, (word,)))


UPDATES: dict[str, tuple[Json, str]] = {
    "no action": ({}, "action"),
    "unknown action": ({"action": "explode"}, "explode"),
    "action in capitals": ({"action": "SET-PROPERTIES", "updates": {}}, "SET-PROPERTIES"),
    "action null": ({"action": None}, "action"),
    "action list": ({"action": ["set-properties"]}, "action"),
    "a view's action": (
        {"action": "set-current-view-version", "view-version-id": 1},
        "set-current-view-version",
    ),
    "other uuid": ({"action": "assign-uuid", "uuid": "11111111-2222-3333-4444-555555555555"}, "UUID"),
    "no uuid": ({"action": "assign-uuid", "uuid": "x"}, "UUID"),
    "format version 0": ({"action": "upgrade-format-version", "format-version": 0}, "0"),
    "format version 9": ({"action": "upgrade-format-version", "format-version": 9}, "9"),
    "schema not there": ({"action": "set-current-schema", "schema-id": 77}, "77"),
    "schema none added": ({"action": "set-current-schema", "schema-id": -1}, "-1"),
    "spec not there": ({"action": "set-default-spec", "spec-id": 77}, "77"),
    "spec none added": ({"action": "set-default-spec", "spec-id": -1}, "-1"),
    "order not there": ({"action": "set-default-sort-order", "sort-order-id": 77}, "77"),
    "current schema removed": ({"action": "remove-schemas", "schema-ids": [0]}, "current"),
    "default spec removed": ({"action": "remove-partition-specs", "spec-ids": [0]}, "default"),
    "snapshot twice": (add_snapshot(1), "snapshot 1"),
    "snapshot without list": (add_snapshot(2, **{"manifest-list": None}), "manifest-list"),
    "snapshot from the future": (add_snapshot(2, **{"timestamp-ms": 9 * 10**12}), "timestamp-ms"),
    "ref to nothing": (set_ref(99), "99"),
    "tag called main": (set_ref(1, "main", "tag"), "main"),
    "ref of no kind": (set_ref(1, "x", "twig"), "type"),
    "ref without name": (set_ref(1, ""), "ref-name"),
    "ref with age 0": (set_ref(1, "x", **Json({"max-ref-age-ms": 0})), "max-ref-age-ms"),
    "tag with snapshots": (set_ref(1, "x", "tag", **{"min-snapshots-to-keep": 1}), "min-snapshots-to-keep"),
    "reserved property": (set_properties(uuid="x"), "uuid"),
    "location empty": ({"action": "set-location", "location": ""}, "location"),
    "row lineage": ({"action": "enable-row-lineage"}, "row lineage"),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_that_cannot_be(victim: Victim, name: str) -> None:
    update, word = UPDATES[name]
    updates = [set_properties(before="x"), update]
    if name == "snapshot from the future":
        updates.append(set_ref(2))
    check(victim, Nasty(TABLE, {"requirements": [], "updates": updates}, (word,)))
    change = {"identifier": identifier(NS, "t"), "requirements": [], "updates": updates}
    other = {"identifier": identifier(("ns", "Sub Ünter"), "v3"), "requirements": [], "updates": updates[:1]}
    check(victim, Nasty("/transactions/commit", {"table-changes": [other, change]}, (word,)))


@pytest.mark.parametrize(
    "requirement",
    [
        {},
        {"type": None},
        {"type": "assert-nothing"},
        {"type": "ASSERT-CREATE"},
        {"type": "assert-view-uuid", "uuid": "x"},
        {"type": ["assert-create"]},
        {"type": "assert-table-uuid"},
        {"type": "assert-current-schema-id"},
        "assert-create",
        None,
    ],
    ids=short,
)
def test_requirements_that_are_none(victim: Victim, requirement: Any) -> None:
    body = {"requirements": [requirement], "updates": [set_properties(x="y")]}
    check(victim, Nasty(TABLE, body, ("requirements[0]",)))
    change = {"identifier": identifier(NS, "t"), **body}
    check(
        victim,
        Nasty("/transactions/commit", {"table-changes": [change]}, ("table-changes[0]", "requirements[0]")),
    )
    check(
        victim, Nasty(VIEW, {"requirements": [requirement], "updates": []}, ("requirements",))
    ) if requirement != {
        "type": "assert-view-uuid",
        "uuid": "x",
    } else None


def test_assert_create_goes_alone(victim: Victim) -> None:
    both = [{"type": "assert-create"}, {"type": "assert-current-schema-id", "current-schema-id": 0}]
    body = {"requirements": both, "updates": []}
    check(victim, Nasty("/namespaces/ns/tables/new", body, ("assert-create",)))
