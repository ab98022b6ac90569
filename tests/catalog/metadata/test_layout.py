from __future__ import annotations

from typing import Any

import pytest
from tests.catalog.metadata.support import LOCATION, T0, UUID, append, apply, field, new_table, schema, struct

from frazil.core.errors import InvalidInput

Json = dict[str, Any]


def add_schema(*fields: Json, **more: Any) -> Json:
    return {"action": "add-schema", "schema": struct(*fields, **more)}


WIDER = add_schema(*schema()["fields"], field(6, "extra", "int"), **{"identifier-field-ids": [1]})
LATEST = {"action": "set-current-schema", "schema-id": -1}
BY_ID = {"name": "id_bucket", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}
SORTED: Json = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}


def add_spec(*fields: Json) -> Json:
    return {"action": "add-spec", "spec": {"spec-id": 77, "fields": list(fields)}}


def test_add_schema_takes_the_next_id_and_last_column_id_whatever_was_sent() -> None:
    table = apply(new_table(), {**WIDER, "last-column-id": 999}, LATEST)
    assert [s["schema-id"] for s in table["schemas"]] == [0, 1]
    assert (table["current-schema-id"], table["last-column-id"]) == (1, 6)


def test_an_identical_schema_is_reused() -> None:
    table = new_table()
    same = {"action": "add-schema", "schema": {**schema(), "schema-id": 42}}
    assert apply(table, same, LATEST) is table
    twice = apply(table, WIDER, WIDER, LATEST)
    assert len(twice["schemas"]) == 2


def test_dropping_a_column_keeps_last_column_id() -> None:
    table = apply(new_table(), add_schema(field(1, "id", "long", required=True)), LATEST)
    assert table["last-column-id"] == 5


@pytest.mark.parametrize(
    ("updates", "words"),
    [
        (
            [{"action": "set-current-schema", "schema-id": 5}],
            r"updates\[0\] \(set-current-schema\).*no schema 5",
        ),
        ([LATEST], "adds none"),
        ([{"action": "remove-schemas", "schema-ids": [0]}], "current"),
        ([{"action": "set-default-spec", "spec-id": 5}], "no partition spec 5"),
        ([{"action": "set-default-spec", "spec-id": -1}], "adds none"),
        ([{"action": "remove-partition-specs", "spec-ids": [0]}], "default"),
        ([{"action": "set-default-sort-order", "sort-order-id": 5}], "no sort order 5"),
        ([{"action": "set-default-sort-order", "sort-order-id": -1}], "adds none"),
        ([add_schema(field(2147483640, "a", "int"))], "reserved"),
        ([add_schema(field(1, "a", "variant"))], "until v3"),
        ([add_spec({**BY_ID, "source-id": 99})], "no column with id 99"),
        ([add_spec(BY_ID, {**BY_ID, "name": "other"})], "used twice"),
        ([{"action": "upgrade-format-version", "format-version": 1}], "cannot go back"),
        ([{"action": "upgrade-format-version", "format-version": 4}], "not supported"),
        ([{"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}], "cannot become"),
        ([{"action": "assign-uuid", "uuid": "nonsense"}], "not a UUID"),
        ([{"action": "set-location", "location": ""}], "empty"),
        ([{"action": "set-properties", "updates": {"format-version": "3"}}], "reserved"),
        ([{"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "x"}}], "number"),
        ([{"action": "enable-row-lineage"}], "format version 3"),
        ([{"action": "add-view-version"}], "not an update of a table"),
    ],
)
def test_updates_that_are_refused(updates: list[Json], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        apply(new_table(), *updates)


def test_specs_count_on_and_are_reused() -> None:
    table = apply(new_table(), add_spec(BY_ID), {"action": "set-default-spec", "spec-id": -1})
    assert [s["spec-id"] for s in table["partition-specs"]] == [0, 1]
    assert (table["default-spec-id"], table["last-partition-id"]) == (1, 1000)
    assert apply(table, add_spec({**BY_ID, "field-id": 1055})) is table
    back = apply(table, {"action": "set-default-spec", "spec-id": 0})
    pruned = apply(back, {"action": "remove-partition-specs", "spec-ids": [1, 99]})
    assert [s["spec-id"] for s in pruned["partition-specs"]] == [0]
    assert pruned["last-partition-id"] == 1000


def test_a_spec_field_without_id_takes_the_one_of_its_equal_or_the_next() -> None:
    table = apply(new_table(), add_spec(BY_ID))
    equal = {"name": "renamed", "transform": "bucket[4]", "source-id": 1}
    fresh = {"name": "other", "transform": "identity", "source-id": 2}
    after = apply(table, add_spec(fresh, equal))
    assert [f["field-id"] for f in after["partition-specs"][2]["fields"]] == [1001, 1000]
    assert after["last-partition-id"] == 1001


def test_an_odd_spec_in_a_registered_table_is_no_obstacle() -> None:
    odd = {
        "spec-id": 7,
        "fields": [{"name": "x", "transform": "no transform", "source-id": 1, "field-id": 1005}],
    }
    table = new_table()
    table = {**table, "partition-specs": [*table["partition-specs"], odd]}
    after = apply(table, add_spec(BY_ID))
    assert [s["spec-id"] for s in after["partition-specs"]] == [0, 7, 8]


def test_v1_specs_need_ids_by_position() -> None:
    assert apply(new_table(1), add_spec(BY_ID))["last-partition-id"] == 1000
    with pytest.raises(InvalidInput, match="count up"):
        apply(new_table(1), add_spec({**BY_ID, "field-id": 1001}))


def test_the_default_spec_must_fit_the_new_schema() -> None:
    table = apply(new_table(), add_spec(BY_ID), {"action": "set-default-spec", "spec-id": -1})
    with pytest.raises(InvalidInput, match="no column with id 1"):
        apply(table, add_schema(field(2, "data", "string")), LATEST)
    void = apply(
        table, add_spec({**BY_ID, "transform": "void"}), {"action": "set-default-spec", "spec-id": -1}
    )
    assert apply(void, add_schema(field(2, "data", "string")), LATEST)["current-schema-id"] == 1


def test_sort_orders_count_from_one_and_are_reused() -> None:
    order = {"action": "add-sort-order", "sort-order": {**SORTED, "order-id": 9}}
    latest = {"action": "set-default-sort-order", "sort-order-id": -1}
    table = apply(new_table(), order, latest)
    assert [o["order-id"] for o in table["sort-orders"]] == [0, 1]
    assert table["default-sort-order-id"] == 1
    unsorted = {"action": "add-sort-order", "sort-order": {"order-id": 5, "fields": []}}
    back = apply(table, unsorted, latest)
    assert back["default-sort-order-id"] == 0
    assert len(back["sort-orders"]) == 2


def test_upgrades_move_the_keys_of_each_version() -> None:
    two = apply(new_table(1), {"action": "upgrade-format-version", "format-version": 2})
    assert two["last-sequence-number"] == 0
    assert "schema" not in two
    assert "partition-spec" not in two
    three = apply(two, {"action": "upgrade-format-version", "format-version": 3})
    assert (three["next-row-id"], three["current-snapshot-id"]) == (0, None)
    assert apply(three, {"action": "enable-row-lineage"}) is three


def test_v1_keeps_the_copy_of_its_current_schema() -> None:
    table = apply(new_table(1), WIDER, LATEST)
    assert table["schema"] == table["schemas"][1]


def test_properties_location_and_keys() -> None:
    key = {"key-id": "k1", "encrypted-key-metadata": "eA==", "encrypted-by-id": None}
    table = apply(
        new_table(3),
        {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
        {"action": "remove-properties", "removals": ["a", "missing"]},
        {"action": "set-location", "location": LOCATION + "2/"},
        {"action": "add-encryption-key", "encryption-key": key},
        {"action": "add-encryption-key", "encryption-key": {**key, "encrypted-key-metadata": "other"}},
    )
    assert table["properties"]["b"] == "2"
    assert "a" not in table["properties"]
    assert table["location"] == LOCATION + "2"
    assert table["encryption-keys"] == [{"key-id": "k1", "encrypted-key-metadata": "eA=="}]
    gone = apply(table, {"action": "remove-encryption-key", "key-id": "k1"})
    assert gone["encryption-keys"] == []


def test_nothing_to_do_returns_the_same_document() -> None:
    table = new_table()
    assert apply(table) is table
    assert apply(table, {"action": "assign-uuid", "uuid": UUID.upper()}) is table
    assert apply(table, {"action": "set-location", "location": LOCATION}) is table
    assert apply(table, {"action": "remove-snapshots", "snapshot-ids": [1]}) is table


def test_the_metadata_log_is_trimmed_and_time_never_goes_back() -> None:
    table = new_table(properties={"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        update = {"action": "set-properties", "updates": {"n": str(number)}}
        table = apply(table, update, now=T0 + 100 - number, file=f"s3://b/{number}.metadata.json")
    assert [e["metadata-file"] for e in table["metadata-log"]] == [
        "s3://b/2.metadata.json",
        "s3://b/3.metadata.json",
    ]
    assert table["last-updated-ms"] == T0 + 100


def staged(*more: Json) -> list[Json]:
    return [
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 3},
        {"action": "add-schema", "schema": schema()},
        LATEST,
        add_spec(BY_ID),
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": SORTED},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": LOCATION},
        {"action": "set-properties", "updates": {"a": "b"}},
        *more,
    ]


def test_a_staged_create_builds_from_nothing() -> None:
    updates = staged(*append(1, **{"first-row-id": 0, "added-rows": 3}))
    table = apply(None, *updates, file=None)
    assert table["format-version"] == 3
    assert table["table-uuid"] == UUID
    assert (table["current-schema-id"], table["default-spec-id"], table["default-sort-order-id"]) == (0, 0, 1)
    assert (table["current-snapshot-id"], table["next-row-id"]) == (1, 3)
    assert table["metadata-log"] == []
    assert (table["last-column-id"], table["last-partition-id"]) == (5, 1000)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("add-schema", "adds none"),
        ("add-spec", "adds none"),
        ("add-sort-order", "adds none"),
        ("set-location", "location"),
    ],
)
def test_a_staged_create_needs_its_parts(missing: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        apply(None, *(u for u in staged() if u["action"] != missing), file=None)
    with pytest.raises(InvalidInput, match="current schema"):
        apply(None, {"action": "set-location", "location": LOCATION}, file=None)


def test_too_many_additions_are_refused_at_once() -> None:
    many = [add_schema(field(1, f"c{i}", "int")) for i in range(1001)]
    with pytest.raises(InvalidInput, match="more than 1000"):
        apply(new_table(), *many)
