from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.transforms import parse_transform
from tests.catalog.metadata.support import LOCATION, T0, UUID, field, new_table, struct

from frazil.catalog import metadata as m
from frazil.core.errors import InvalidInput


def test_ids_counted_from_zero_are_replaced_in_all_four_places() -> None:
    """As Fluss's tiering sends them."""
    table = new_table(
        schema=struct(
            field(0, "k", "int", required=True),
            field(1, "v", "string"),
            field(2, "ts", "timestamp"),
            **{"identifier-field-ids": [0]},
        ),
        partition_spec={"fields": [{"source-id": 2, "name": "ts_day", "transform": "day"}]},
        write_order={
            "order-id": 1,
            "fields": [
                {"source-id": 0, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
            ],
        },
    )
    assert [f["id"] for f in table["schemas"][0]["fields"]] == [1, 2, 3]
    assert table["schemas"][0]["identifier-field-ids"] == [1]
    assert table["partition-specs"][0]["fields"] == [
        {"source-id": 3, "name": "ts_day", "transform": "day", "field-id": 1000}
    ]
    assert table["sort-orders"][0]["fields"][0]["source-id"] == 1
    assert (table["last-column-id"], table["last-partition-id"]) == (3, 1000)
    assert (table["default-sort-order-id"], table["sort-orders"][0]["order-id"]) == (1, 1)


def test_nested_ids_come_after_their_whole_level_key_before_value() -> None:
    inner = struct(field(10, "x", "int"), field(11, "y", "int"))
    mapping = {
        "type": "map",
        "key-id": 20,
        "key": "string",
        "value-id": 21,
        "value": inner,
        "value-required": True,
    }
    listing = {"type": "list", "element-id": 30, "element": "int", "element-required": False}
    table = new_table(schema=struct(field(1, "m", mapping), field(2, "l", listing), field(3, "z", "int")))
    columns = table["schemas"][0]["fields"]
    assert [c["id"] for c in columns] == [1, 2, 3]
    assert (columns[0]["type"]["key-id"], columns[0]["type"]["value-id"]) == (4, 5)
    assert [f["id"] for f in columns[0]["type"]["value"]["fields"]] == [6, 7]
    assert columns[1]["type"]["element-id"] == 8
    assert table["last-column-id"] == 8


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_parses_elsewhere_and_here(version: int) -> None:
    table = new_table(version)
    parsed = TableMetadataUtil.parse_obj(table)
    assert parsed.format_version == version
    assert str(parsed.table_uuid) == UUID
    assert m.parse_table_metadata(m.encode(table)) == table


def test_each_version_has_its_own_keys() -> None:
    one, two, three = (new_table(v) for v in (1, 2, 3))
    assert one["schema"] == one["schemas"][0]
    assert one["partition-spec"] == []
    assert "last-sequence-number" not in one
    assert (two["current-snapshot-id"], three["current-snapshot-id"]) == (-1, None)
    assert "schema" not in two
    assert "next-row-id" not in two
    assert three["next-row-id"] == 0


def test_reserved_properties_are_not_stored_and_new_tables_get_zstd() -> None:
    table = new_table(properties={"format-version": "2", "uuid": "x", "snapshot-count": "1", "a": "b"})
    assert table["properties"] == {"a": "b", "write.parquet.compression-codec": "zstd"}
    kept = new_table(properties={"write.parquet.compression-codec": "gzip"})
    assert kept["properties"] == {"write.parquet.compression-codec": "gzip"}


@pytest.mark.parametrize(("text", "version"), [(None, 2), ("1", 1), ("2", 2), ("3", 3)])
def test_format_version_property(text: str | None, version: int) -> None:
    assert m.format_version_of({} if text is None else {"format-version": text}) == version


@pytest.mark.parametrize("text", ["0", "4", "two", "", "2.0"])
def test_format_version_property_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="format-version"):
        m.format_version_of({"format-version": text})


def test_unknown_keys_survive_and_nulls_that_break_java_do_not() -> None:
    column = field(7, "a", "decimal(9,2)", doc=None, **{"initial-default": None, "future": {"x": [1]}})
    table = new_table(3, schema=struct(column, whole="kept"))
    stored = table["schemas"][0]
    assert stored["fields"] == [
        {"id": 1, "name": "a", "type": "decimal(9, 2)", "required": False, "future": {"x": [1]}}
    ]
    assert stored["whole"] == "kept"


@pytest.mark.parametrize("name", ["variant", "unknown", "timestamp_ns", "geometry(srid:3857)", "geography"])
def test_v3_types_need_v3(name: str) -> None:
    columns = struct(field(1, "a", name))
    assert new_table(3, schema=columns)["schemas"][0]["fields"][0]["type"] == name
    with pytest.raises(InvalidInput, match="not supported until v3"):
        new_table(2, schema=columns)


def test_defaults_need_v3_and_pass_through() -> None:
    columns = struct(field(1, "a", "int", **{"initial-default": 0, "write-default": 7}))
    stored = new_table(3, schema=columns)["schemas"][0]["fields"][0]
    assert (stored["initial-default"], stored["write-default"]) == (0, 7)
    with pytest.raises(InvalidInput, match="initial-default"):
        new_table(2, schema=columns)


LIST_OF_INT = {"type": "list", "element-id": 9, "element": "int", "element-required": True}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (struct(field(1, "a", "int"), field(1, "b", "int")), "id of another"),
        (struct(field(1, "a", "int"), field(2, "a", "int")), "full name"),
        (struct(field(1, "a.b", "int"), field(2, "a", struct(field(3, "b", "int")))), "full name"),
        (struct(field(1, "a", "decimal(39,2)")), "no legal type"),
        (struct(field(1, "a", "decimal(4,5)")), "no legal type"),
        (struct(field(1, "a", "int", required=True), **{"identifier-field-ids": [2]}), "not in the schema"),
        (struct(field(1, "a", "int"), **{"identifier-field-ids": [1]}), "must be required"),
        (struct(field(1, "a", "double", required=True), **{"identifier-field-ids": [1]}), "float or double"),
        (struct(field(1, "a", LIST_OF_INT, required=True), **{"identifier-field-ids": [1]}), "primitive"),
        (struct(field(1, "a", LIST_OF_INT, required=True), **{"identifier-field-ids": [9]}), "list or map"),
        (
            struct(
                field(1, "a", struct(field(2, "b", "int", required=True))), **{"identifier-field-ids": [2]}
            ),
            "optional struct",
        ),
    ],
)
def test_schemas_that_are_refused(bad: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        new_table(schema=bad)


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        ({"source-id": 9, "transform": "identity", "name": "p"}, "no column with id 9"),
        ({"transform": "identity", "name": "p"}, "neither source-id"),
        ({"source-id": 2, "transform": "day", "name": "p"}, "cannot take a string"),
        ({"source-id": 4, "transform": "identity", "name": "p"}, "primitive"),
        ({"source-id": 5, "transform": "bucket[4]", "name": "p"}, "cannot take a double"),
        ({"source-id": 1, "transform": "bucket[0]", "name": "p"}, "legal transform"),
        ({"source-id": 1, "transform": "bucket", "name": "p"}, "legal transform"),
        ({"source-id": 1, "transform": "no transform", "name": "p"}, "legal transform"),
        ({"source-id": 1, "transform": "identity", "name": ""}, "empty name"),
        ({"source-id": 1, "transform": "identity", "name": "data"}, "another column"),
    ],
)
def test_partition_fields_that_are_refused(partition: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        new_table(partition_spec={"fields": [partition]})


def test_partition_names_and_the_inside_of_lists() -> None:
    twice = {"source-id": 1, "transform": "identity", "name": "p"}
    with pytest.raises(InvalidInput, match="twice"):
        new_table(partition_spec={"fields": [twice, twice]})
    inside = {"source-id": 9, "transform": "identity", "name": "p"}
    with pytest.raises(InvalidInput, match="list or map"):
        new_table(schema=struct(field(1, "a", LIST_OF_INT)), partition_spec={"fields": [inside]})


def test_the_inside_of_a_struct_inside_a_list_is_inside_the_list() -> None:
    inner = struct(field(3, "x", "int", required=True))
    listing = {"type": "list", "element-id": 2, "element": inner, "element-required": True}
    columns = struct(field(1, "a", listing, required=True), **{"identifier-field-ids": [3]})
    with pytest.raises(InvalidInput, match="list or map"):
        new_table(schema=columns)


@pytest.mark.parametrize(
    "transform", ["identity", "void", "bucket[4]", "truncate[4]", "year", "month", "day", "hour"]
)
def test_transforms_take_the_types_that_pyiceberg_says(transform: str) -> None:
    names = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "string",
    ]
    for name in [*names, "uuid", "binary", "decimal(9, 2)", "fixed[4]", "timestamp_ns", "timestamptz_ns"]:
        spec = {"fields": [{"source-id": 1, "transform": transform, "name": "p"}]}
        arguments = {"schema": struct(field(1, "a", name)), "partition_spec": spec}
        column = Schema.model_validate(arguments["schema"]).find_type("a")
        if parse_transform(transform).can_transform(column):
            assert new_table(3, **arguments)["last-partition-id"] == 1000
        else:
            with pytest.raises(InvalidInput, match="cannot take"):
                new_table(3, **arguments)


def test_transforms_of_later_specifications_pass_and_spelling_is_made_canonical() -> None:
    several = {"source-ids": [1, 2], "transform": "bucket[16]", "name": "p"}
    unknown = {"source-id": 1, "transform": "zorder[3]", "name": "q"}
    loud = {"source-id": 3, "transform": "DAY", "name": "r"}
    stored = new_table(partition_spec={"fields": [several, unknown, loud]})["partition-specs"][0]["fields"]
    assert stored[0]["source-ids"] == [1, 2]
    assert [f["transform"] for f in stored] == ["bucket[16]", "zorder[3]", "day"]
    assert [f["field-id"] for f in stored] == [1000, 1001, 1002]


def test_sort_source_must_exist() -> None:
    bad = {"source-id": 99, "transform": "identity", "direction": "asc", "null-order": "nulls-last"}
    with pytest.raises(InvalidInput, match="99"):
        new_table(write_order={"order-id": 1, "fields": [bad]})


@pytest.mark.parametrize(
    "properties",
    [
        {"write.metadata.previous-versions-max": "many"},
        {"write.metadata.compression-codec": "zstd"},
        {"commit.retry.num-retries": "-1"},
        {"encryption.key-id": "k"},
    ],
)
def test_properties_that_would_break_the_table_later(properties: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        new_table(properties=properties)


def test_location_loses_its_last_slash() -> None:
    assert new_table(location=LOCATION + "/")["location"] == LOCATION
    with pytest.raises(InvalidInput, match="location"):
        new_table(location="/")
    assert new_table()["last-updated-ms"] == T0


def test_five_thousand_columns_deep_names_and_depth() -> None:
    wide = struct(*(field(i, f"column_{i}", "string") for i in range(5000)))
    assert new_table(schema=wide)["last-column-id"] == 5000
    deep: object = "int"
    for level in range(290):
        deep = {"type": "list", "element-id": level + 10, "element": deep, "element-required": True}
    assert new_table(schema=struct(field(1, "a", deep)))["last-column-id"] == 291
    dotted = struct(field(1, "." * 2_000_000, "int"))
    assert new_table(schema=dotted)["last-column-id"] == 1
