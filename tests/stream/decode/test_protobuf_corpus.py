"""Protobuf records that once were, or nearly were, decoded in two ways."""

from __future__ import annotations

import pytest
from tests.stream.decode.protobuf_trial import Read, columns, faults, message, reader, settings_of

from frazil.core.schema import Field, ListType, Schema, StructType
from frazil.stream.config.model import Contract
from frazil.stream.decode.decoded import Fault

_INNER = "message Inner { int32 x = 1; string s = 2; repeated int64 l = 3; }"
_STRUCT = "struct<x: int, s: string>"


@pytest.fixture(params=["native", "reference"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    return reader(request.param, monkeypatch)


def test_a_message_that_is_cleared_has_to_be_well_formed(read: Read) -> None:
    form = settings_of("oneof o { Inner a = 1; int32 b = 2; }", _INNER)
    schema = columns(a=_STRUCT, b="int")
    found = read(
        schema, form, [b"\x0a\x02\x08\x01\x10\x05", b"\x0a\x01\x08\x10\x05", b"\x0a\x03\x12\x01\xff\x10\x05"]
    )
    assert found.rows.to_pylist() == [{"a": None, "b": 5}]
    assert [one[:2] for one in faults(found)] == [(1, Fault.BROKEN), (2, Fault.BROKEN)]


def test_parts_of_a_message_have_to_be_well_formed(read: Read) -> None:
    """Together they would be."""
    form = settings_of("Inner a = 1; map<int32, Inner> m = 2;", _INNER)
    schema = columns(a=_STRUCT, m=f"map<int, {_STRUCT}>")
    found = read(schema, form, [b"\x0a\x01\x08\x0a\x01\x05", b"\x0a\x02\x08\x01\x0a\x01\x12"])
    assert [one[:2] for one in faults(found)] == [(0, Fault.BROKEN), (1, Fault.BROKEN)]
    # An entry of a map whose key comes again.
    assert len(read(schema, form, [b"\x12\x03\x12\x01\x08\x12\x02\x08\x00"]).bad) == 1


def test_only_the_value_that_counts_has_to_fit(read: Read) -> None:
    form = settings_of("oneof o { int64 a = 1; string b = 2; } int64 c = 3; string d = 4;")
    schema = columns(a="int", b="date", c="int", d="date")
    big, small = message(form, a=2**40, c=2**40, d="x"), message(form, b="2024-01-01", c=1, d="2024-01-02")
    found = read(schema, form, [big + small, small + big])
    assert found.rows["c"].to_pylist() == [1]
    assert [one[:2] for one in faults(found)] == [(1, Fault.TYPE)]


def test_fields_from_16_on(read: Read) -> None:
    """Their tags have two bytes, of which the first could be a tag by itself."""
    form = settings_of("int64 a = 16; string b = 17; double c = 18; int64 d = 15;")
    schema = columns(a="long", b="string", c="double", d="long")
    row = {"a": 2**40, "b": "x", "c": 1.5, "d": 3}
    assert read(schema, form, [message(form, **row)] * 2).rows.to_pylist() == [row, row]


def test_a_tag_of_0_where_nothing_is_wanted(read: Read) -> None:
    form = settings_of("int32 a = 1;")
    assert faults(read(columns(b="int"), form, [b"\x00\x01", b"\x08\x01"])) == [(0, Fault.BROKEN, None)]


def test_what_is_wrong_with_what_is_left_out(read: Read) -> None:
    """The first field, by its number, decides what becomes of the struct and so of the record."""
    inner = StructType((Field("x", "boolean", True), Field("l", "int"), Field("must", "string", True)))
    schema = Schema((Field("a", inner), Field("id", "int"))).with_fresh_ids()
    form = settings_of("Inner a = 1; int32 id = 2;", _INNER)
    contract = Contract(columns="discard_row", types="discard_value")
    found = read(
        schema, form, [message(form, a={"x": 1, "s": "unknown"}, id=1), message(form, a={"s": "y"})], contract
    )
    assert found.rows.to_pylist() == [{"a": None, "id": 1}]
    assert faults(found) == [(1, Fault.MISSING, "a.x")]


@pytest.mark.parametrize(("big", "fault"), [(1, None), (9, Fault.MISSING)])
def test_a_list_that_lacks_something_beside_a_value_that_does_not_fit(
    read: Read, big: int, fault: Fault | None
) -> None:
    """Elements are read as they come, but count at the place of their list."""
    form = settings_of(
        "Outer o = 1;",
        f"message Outer {{ int64 big = {big}; repeated Part parts = 5; }} "
        "message Part { optional int32 must = 1; }",
    )
    parts = ListType(StructType((Field("must", "int", True),)), True)
    schema = Schema(
        (Field("o", StructType((Field("big", "int", True), Field("parts", parts)))),)
    ).with_fresh_ids()
    record = message(form, o={"parts": [{}], "big": 2**40})
    found = read(schema, form, [record], Contract(types="discard_value"))
    assert [bad.fault for bad in found.bad] == ([fault] if fault else [])
    assert found.rows.to_pylist() == ([] if fault else [{"o": None}])


def test_what_is_left_out_has_to_be_well_formed(read: Read) -> None:
    """Also the parts that are not looked at any more."""
    form = settings_of("Outer o = 1;", "message Outer { int64 big = 1; Inner in = 2; } " + _INNER)
    outer = StructType((Field("big", "int", True), Field("in", StructType((Field("x", "int"),)))))
    schema = Schema((Field("o", outer),)).with_fresh_ids()
    big = b"\x08\x80\x80\x80\x80\x80\x20"
    records = [b"\x0a\x0b" + big + b"\x12\x02\x08\x01", b"\x0a\x0a" + big + b"\x12\x01\x08"]
    found = read(schema, form, records, Contract(types="discard_value"))
    assert found.rows.to_pylist() == [{"o": None}]
    assert faults(found) == [(1, Fault.BROKEN, None)]
