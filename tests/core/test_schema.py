from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.core.errors import InvalidConfig, Unsupported
from frazil.core.foreign_types import without_foreign
from frazil.core.schema import (
    FIELD_ID,
    Field,
    ListType,
    MapType,
    Schema,
    StructType,
    Type,
    arrow_type,
    parse_type,
    show_type,
    spark_type,
)

WORDS = (
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
    "uuid",
    "binary",
    "decimal(10, 2)",
    "fixed[7]",
)


def types() -> st.SearchStrategy[Type]:
    names = st.sampled_from(["a", "b_1", "c-d", "E", "odd name", "é.1", "a: int>"])
    return st.recursive(
        st.sampled_from(WORDS),
        lambda inner: st.one_of(
            inner.map(ListType),
            inner.map(lambda value: MapType("string", value)),
            st.dictionaries(names, inner, min_size=1, max_size=3).map(
                lambda fields: StructType(tuple(Field(name, kind) for name, kind in fields.items()))
            ),
        ),
        max_leaves=6,
    )


@given(types())
def test_a_type_is_read_back_from_its_text(kind: Type) -> None:
    assert parse_type(show_type(kind)) == kind


@given(st.lists(types(), min_size=1, max_size=4))
def test_a_schema_is_read_back_from_its_json_and_numbered_once(kinds: list[Type]) -> None:
    fields = tuple(Field(f"c{number}", kind, required=number % 2 == 0) for number, kind in enumerate(kinds))
    schema = Schema(fields).with_fresh_ids()
    assert Schema.from_json(schema.to_json()) == schema
    assert [field.id for field in schema] == list(range(1, len(kinds) + 1))
    ids = [int(identifier) for identifier in _ids(pa.struct(list(schema.to_arrow())))]
    assert sorted(ids) == list(range(1, len(ids) + 1))


def _ids(kind: pa.DataType) -> list[bytes]:
    if pa.types.is_map(kind):
        fields = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        fields = [kind.value_field]
    elif pa.types.is_struct(kind):
        fields = list(kind)
    else:
        return []
    return [found for field in fields for found in (field.metadata[FIELD_ID], *_ids(field.type))]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bigint", "long"),
        ("ARRAY<Int>", "list<int>"),
        ("decimal( 10,2 )", "decimal(10, 2)"),
        ("struct<`odd name`: int, `a`: int>", "struct<`odd name`: int, a: int>"),
        ("text", "string"),
    ],
)
def test_other_spellings(text: str, shown: str) -> None:
    assert show_type(parse_type(text)) == shown


@pytest.mark.parametrize(
    "text",
    ["", "lng", "list<>", "list<int", "map<string>", "decimal", "decimal(39, 2)", "decimal(2, 3)", "int int"],
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_type(text)


def test_spark_writes_types_its_own_way() -> None:
    kind = parse_type("struct<a: long, b: list<timestamp>, c: map<string, timestamptz>, d: uuid>")
    assert spark_type(kind) == (
        "struct<`a`: bigint, `b`: array<timestamp_ntz>, `c`: map<string, timestamp>, `d`: string>"
    )
    with pytest.raises(InvalidConfig, match="no type for Iceberg's 'time'"):
        spark_type("time")


def test_required_columns_are_not_nullable() -> None:
    schema = Schema((Field("id", "long", required=True), Field("note", "string")))
    assert [field.nullable for field in schema.to_arrow()] == [False, True]
    assert schema.to_spark_ddl() == "`id` bigint NOT NULL, `note` string"
    assert arrow_type("decimal(10, 2)") == pa.decimal128(10, 2)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    schema = Schema((Field("id", "long"), Field("note", "string")))
    with pytest.raises(InvalidConfig, match="no column 'x'; there are: id, note"):
        schema.field("x")


FOREIGN = (
    ("timestamp_ns", "timestamp (microseconds) or long"),
    ("timestamptz_ns", "timestamptz (microseconds) or long"),
    ("variant", "string (with JSON in it)"),
    ("geometry", "binary (with WKB in it)"),
    ("geometry(srid:3857)", "binary (with WKB in it)"),
    ("geography(OGC:CRS84, vincenty)", "binary (with WKB in it)"),
    ("unknown", "what it shall hold"),
    ("timestamp_ps", "that frazil has"),
)


@pytest.mark.parametrize(("kind", "instead"), FOREIGN)
def test_a_column_of_a_type_that_we_have_not_is_named(kind: str, instead: str) -> None:
    at = Field("at", MapType("string", ListType(StructType((Field("deep", kind),)))))
    schema = Schema((Field("id", "long", required=True), at)).with_fresh_ids()
    with pytest.raises(Unsupported) as raised:
        Schema.from_json(schema.to_json(), "shop.orders")
    assert raised.value.message == (
        f"the column 'at.value.element.deep' of the table shop.orders is of the type {kind}, which frazil "
        "does not read or write. Let an engine that has the type copy what is needed to a column of the type "
        f"{instead}, and drop this one"
    )
    with pytest.raises(Unsupported, match="does not read or write: make it one of the type"):
        Schema.from_json(schema.to_json())
    assert Schema.from_json(without_foreign(schema.to_json())).fields == schema.fields[:1]


def test_a_schema_of_ours_is_not_foreign() -> None:
    schema = Schema(tuple(Field(f"c{number}", word) for number, word in enumerate(WORDS))).with_fresh_ids()
    assert without_foreign(schema.to_json()) == schema.to_json()


@pytest.mark.parametrize("text", ["timestamp_ns", "list<Variant>", "geometry(srid:3857)"])
def test_a_type_of_format_3_that_somebody_writes_down(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"frazil does not have this type of format 3; use \w+ \("):
        parse_type(text)
