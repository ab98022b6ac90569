"""What the writer's schema has and the table has not, under each word of the contract."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stream.decode.avro_compare import agree
from tests.stream.decode.avro_generate import encoded
from tests.stream.decode.test_avro_values import record, varint

from frazil.core.schema import Field, ListType, Schema, SchemaChange, StructType, parse_type
from frazil.stream.config.model import Contract
from frazil.stream.decode.decoded import Decoded, Fault


def one(columns: Schema, writer: Any, contract: Contract, row: Any) -> Decoded:
    return agree(columns, writer, contract, [encoded(writer, row)])


_X = Schema((Field("x", "int"),))
_MORE = record(("x", "int"), ("new", ["null", "string"]), ("nothing", "null"))


def test_new_field_is_left_out() -> None:
    found = one(_X, _MORE, Contract(columns="discard_value"), {"x": 1, "new": "a", "nothing": None})
    assert found.rows.to_pylist() == [{"x": 1}]
    assert found.changes == ()


@pytest.mark.parametrize("word", ["freeze", "discard_row"])
def test_new_field_is_refused(word: Any) -> None:
    found = agree(_X, _MORE, Contract(columns=word), [b"\x02\x00", b"\x02\x02\x02a", None, b"\xff"])
    assert [(bad.fault, bad.field) for bad in found.bad[:2]] == [(Fault.UNKNOWN_FIELD, "new")] * 2
    assert found.bad[2].fault == Fault.EMPTY
    assert len(found.bad) == 4
    # A field that never has a value says nothing.
    nothing = record(("x", "int"), ("nothing", "null"))
    assert agree(_X, nothing, Contract(columns=word), [b"\x02"]).rows.to_pylist() == [{"x": 1}]


def test_new_field_makes_the_table_grow() -> None:
    item = record(("sku", "string"), ("count", "int"), name="Item")
    writer = record(("x", "int"), ("new", ["null", "string"]), ("items", {"type": "array", "items": item}))
    columns = Schema((Field("x", "int"), Field("items", ListType(StructType((Field("sku", "string"),))))))
    found = one(columns, writer, Contract(columns="evolve"), {"x": 1, "new": None, "items": []})
    assert found.changes == (
        SchemaChange(("new",), "string"),
        SchemaChange(("items", "element", "count"), "int"),
    )
    grown = Schema(
        (
            *columns.fields[:1],
            Field("new", "string"),
            Field("items", parse_type("list<struct<sku: string, count: int>>")),
        )
    )
    row = {"x": 1, "new": "a", "items": [{"sku": "s", "count": 2}]}
    again = one(grown, writer, Contract(columns="evolve"), row)
    assert again.changes == ()
    assert again.rows.to_pylist() == [row]


def test_a_new_struct_has_optional_fields() -> None:
    writer = record(("x", "int"), ("s", record(("a", "int"), name="S")))
    found = one(_X, writer, Contract(columns="evolve"), {"x": 1, "s": {"a": 1}})
    assert found.changes == (SchemaChange(("s",), StructType((Field("a", "int"),))),)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(["int", "string"], "union"), (["null", "R"], "inside itself"), ("int", "differs only by case")],
)
def test_new_field_that_cannot_be(kind: Any, reason: str) -> None:
    name = "X" if kind == "int" else "new"
    writer = record(("x", "int"), (name, kind))
    (bad,) = agree(_X, writer, Contract(columns="evolve"), [b"\x02\x00\x00"]).bad
    assert (bad.fault, bad.field) == (Fault.UNKNOWN_FIELD, name)
    assert reason in bad.reason


@pytest.mark.parametrize(
    ("column", "writer", "wider"),
    [
        ("int", "long", "long"),
        ("int", ["null", "long"], "long"),
        ("float", "double", "double"),
        (
            "decimal(4, 2)",
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "decimal(9, 2)",
        ),
        ("long", "int", None),
        ("int", "double", None),
        ("decimal(4, 2)", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, None),
        ("decimal(9, 2)", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, None),
        ("decimal(9, 2)", {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}, None),
    ],
)
def test_wider_types(column: str, writer: Any, wider: str | None) -> None:
    columns = Schema((Field("x", column),))
    for word in ("evolve", "freeze", "discard_row", "discard_value"):
        found = agree(columns, record(("x", writer)), Contract(types=word), [b"\x00"])
        wanted = (SchemaChange(("x",), wider, widens=True),) if wider and word == "evolve" else ()
        assert found.changes == wanted


def test_values_that_fit_need_no_change() -> None:
    for word in ("freeze", "discard_row", "discard_value"):
        contract = Contract(types=word)
        found = agree(_X, record(("x", "long")), contract, [varint(1), varint(2**40)])
        if word == "discard_value":
            assert found.rows.to_pylist() == [{"x": 1}, {"x": None}]
        else:
            assert found.rows.to_pylist() == [{"x": 1}]
            assert [bad.fault for bad in found.bad] == [Fault.TYPE]


def test_the_nearest_optional_column_is_left_out() -> None:
    inner = record(("a", "long"), ("b", "string"), name="S")
    writer = record(("s", ["null", inner]), ("l", {"type": "array", "items": "long"}), ("x", "int"))
    columns = Schema(
        (
            Field("s", StructType((Field("a", "int", True), Field("b", "string")))),
            Field("l", ListType("int", True)),
            Field("x", "int", True),
        )
    )
    rows: list[dict[str, Any]] = [
        {"s": {"a": 2**40, "b": "x"}, "l": [1, 2], "x": 1},
        {"s": {"a": 1, "b": "x"}, "l": [1, 2**40, 3], "x": 2},
        {"s": None, "l": [], "x": 3},
    ]
    records = [encoded(writer, row) for row in rows]
    found = agree(columns, writer, Contract(types="discard_value"), records)
    assert found.rows.to_pylist() == [rows[0] | {"s": None}, rows[1] | {"l": None}, rows[2]]
    # But not for a value that is missing, or bytes that are broken.
    lacking = Schema((Field("s", StructType((Field("c", "int", True),))), Field("x", "int", True)))
    assert agree(lacking, writer, Contract(types="discard_value"), records[:1]).bad[0].fault == Fault.MISSING
    assert (
        agree(columns, writer, Contract(types="discard_value"), [records[0][:-1]]).bad[0].fault
        == Fault.BROKEN
    )


def test_leaving_out_hides_nothing() -> None:
    """A value left out takes nothing with it: not what is broken behind it, nor the depth that was left."""
    inner = record(("a", "long"), name="In")
    outer = record(("in", inner), ("flag", "boolean"), name="Out")
    optional = parse_type("struct<in: struct<a: int>, flag: boolean>")
    required = StructType((Field("in", StructType((Field("a", "int", True),))), Field("flag", "boolean")))
    contract = Contract(types="discard_value")
    for kind in (optional, required):
        columns = Schema((Field("out", kind),))
        found = agree(
            columns, record(("out", outer)), contract, [varint(2**40) + b"\x01", varint(2**40) + b"\x02"]
        )
        assert len(found.rows) == 1
        assert [bad.fault for bad in found.bad] == [Fault.BROKEN]
    many = record(("l", {"type": "array", "items": inner}))
    lists = Schema((Field("l", ListType(StructType((Field("a", "int", True),)))),))
    found = agree(lists, many, contract, [varint(100) + varint(2**40) * 100 + b"\0"])
    assert found.rows.to_pylist() == [{"l": [None] * 100}]


def test_two_schemas_with_the_same_new_field() -> None:
    """The wider one of both counts."""
    writer = [record(("x", "int"), ("n", "int"), name="A"), record(("x", "int"), ("n", "long"), name="B")]
    for both in (writer, writer[::-1]):
        found = agree(_X, both, Contract(columns="evolve"), [b"\x00\x02\x02"])
        assert found.changes == (SchemaChange(("n",), "long"),)
