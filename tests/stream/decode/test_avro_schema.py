"""Avro schemas as table schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, StructType
from frazil.stream.decode.avro_schema import Leaf, Record, iceberg_schema, parse_avro


def schema(*fields: Any, **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)} | more)


def of(kind: Any) -> Field:
    (found,) = iceberg_schema(schema({"name": "x", "type": kind})).fields
    return found


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        ({"type": {"type": "string", "logicalType": "uuid"}}, "uuid"),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, "uuid"),
        ({"type": "fixed", "name": "F", "size": 15, "logicalType": "uuid"}, "fixed[15]"),
        ({"type": "fixed", "name": "F", "size": 3}, "fixed[3]"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "time"),
        ({"type": "long", "logicalType": "time-micros"}, "time"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamptz"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamptz"),
        ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9}, "decimal(38, 9)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "decimal(5, 0)"),
        (
            {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4},
            "decimal(4, 0)",
        ),
        # What is said wrongly counts as not said.
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}, "fixed[2]"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "binary"),
        ({"type": "bytes", "logicalType": "decimal"}, "binary"),
        ({"type": "long", "logicalType": "date"}, "long"),
        ({"type": "string", "logicalType": "made-up"}, "string"),
        (["int", "long"], "long"),
        (["float", "double"], "double"),
        (["string", {"type": "enum", "name": "E", "symbols": ["A"]}], "string"),
    ],
)
def test_types(kind: Any, wanted: str) -> None:
    assert of(kind) == Field("x", wanted, True)
    assert of(["null", *(kind if isinstance(kind, list) else [kind])]) == Field("x", wanted, False)


def test_nested() -> None:
    inner = {
        "type": "record",
        "name": "S",
        "fields": [{"name": "a", "type": "int"}, {"name": "n", "type": "null"}],
    }
    assert of(inner).type == StructType((Field("a", "int", True),))
    assert of({"type": "array", "items": ["null", "int"]}).type == ListType("int", False)
    assert of({"type": "array", "items": "int"}).type == ListType("int", True)
    assert of({"type": "map", "values": inner}).type == MapType(
        "string", StructType((Field("a", "int", True),)), True
    )


def test_fields() -> None:
    found = iceberg_schema(
        schema({"name": "x", "type": "int", "doc": "the x"}, {"name": "n", "type": "null"})
    )
    assert found == Schema((Field("x", "int", True, "the x"),))


def test_names_are_resolved() -> None:
    """By the namespace around them, in either way of writing it, and by alias."""
    inner = {"type": "record", "name": "In", "aliases": ["Inn"], "fields": [{"name": "i", "type": "int"}]}
    text = schema(
        {"name": "a", "type": inner},
        {"name": "b", "type": "In"},
        {"name": "c", "type": "space.In"},
        {"name": "d", "type": ["null", "Inn"]},
        {"name": "e", "type": {"type": "fixed", "name": "other.F", "size": 1}},
        {"name": "f", "type": "other.F"},
        namespace="space",
    )
    assert {str(field.type) for field in iceberg_schema(text).fields[:4]} == {str(parse_in())}


def parse_in() -> StructType:
    return StructType((Field("i", "int", True),))


def test_references() -> None:
    address = json.dumps(
        {"type": "record", "name": "a.Address", "fields": [{"name": "zip", "type": "string"}]}
    )
    person = json.dumps(
        {"type": "record", "name": "a.Person", "fields": [{"name": "home", "type": "a.Address"}]}
    )
    text = schema({"name": "who", "type": ["null", "a.Person"]}, {"name": "at", "type": "a.Address"})
    found = iceberg_schema(text, {"a.Address": address, "a.Person": person})
    home = StructType((Field("zip", "string", True),))
    assert found.field("at").type == home
    assert found.field("who").type == StructType((Field("home", home, True),))
    with pytest.raises(InvalidConfig, match=r"a\.Person"):
        iceberg_schema(text)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (["int", "string"], "union of int and string"),
        (["null", "R"], "inside itself"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "duration"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "38 digits"),
        ({"type": "array", "items": "null"}, "no content"),
        ({"type": "fixed", "name": "F", "size": 0}, r"fixed\(0\)"),
    ],
)
def test_what_iceberg_does_not_have(kind: Any, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=f"field 'x'.*{reason}.*`schema`"):
        of(kind)


def test_no_columns() -> None:
    for text in ('"int"', schema(), schema({"name": "n", "type": "null"})):
        with pytest.raises(InvalidConfig, match=r"record|no fields"):
            iceberg_schema(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "3",
        "{}",
        '"foo"',
        '{"type": "foo"}',
        '{"type": "record", "name": "R"}',
        '{"type": "record", "fields": []}',
        '{"type": "record", "name": "R", "fields": [3]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        schema({"name": "a", "type": "int"}, {"name": "a", "type": "int"}),
        '{"type": "array"}',
        '{"type": "map", "values": "foo"}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "fixed", "name": "F", "size": "1"}',
        '{"type": "enum", "name": "E"}',
        '["int", ["int"]]',
        '[{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "F", "size": 1}]',
        "[" * 100_000,
        '{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000,
    ],
)
def test_no_schema(text: str) -> None:
    with pytest.raises(InvalidConfig, match="not an Avro schema"):
        parse_avro(text)


def test_recursion() -> None:
    found = parse_avro(schema({"name": "next", "type": ["null", "R"]}))
    assert isinstance(found, Record)
    assert found.fields[0].type.branches[1] is found  # type: ignore[union-attr]
    assert isinstance(parse_avro('"null"'), Leaf)
