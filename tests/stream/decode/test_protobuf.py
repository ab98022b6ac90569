"""Protobuf: presence, the rules of the wire, contracts; the native decoder and the reference alike."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stream.decode.protobuf_generate import IMPORTS, varint
from tests.stream.decode.protobuf_trial import (
    ENUM,
    Read,
    columns,
    faults,
    message,
    native_module,
    reader,
    settings_of,
)
from tests.stream.decode.sanitized import fuzz_sanitized

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, parse_type
from frazil.stream.config.model import Contract, ContractWord, ProtobufFormat
from frazil.stream.decode.decoded import Fault
from frazil.stream.decode.protobuf import ProtobufDecoder
from frazil.stream.decode.protobuf_descriptors import message_of_text
from frazil.stream.decode.protobuf_schema import declared_schema


@pytest.fixture
def native_protobuf() -> Any:
    return native_module()


@pytest.fixture(params=["native", "reference"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    return reader(request.param, monkeypatch)


def test_left_out_by_what_may_be_null(read: Read) -> None:
    """A value that does not fit takes with it all around it that cannot be without it."""
    inner = StructType((Field("a", "int", True), Field("b", "string")))
    schema = Schema(
        (
            Field("s", inner),
            Field("l", ListType("int", True)),
            Field("m", MapType("string", inner, True)),
            Field("n", ListType(inner, False)),
            Field("r", "int", True),
        )
    ).with_fresh_ids()
    form = settings_of(
        "Inner s = 1; repeated int64 l = 2; map<string, Inner> m = 3; repeated Inner n = 4; int64 r = 5;",
        "message Inner { int64 a = 1; string b = 2; }",
    )
    big = {"a": 2**40, "b": "x"}
    good = {"a": 1, "b": "y"}
    record = message(form, s=big, l=[1, 2**40, 3], m={"k": big}, n=[good, big, good], r=1)
    found = read(schema, form, [record, message(form, r=2**40), record], Contract(types="discard_value"))
    row = {"s": None, "l": None, "m": None, "n": [good, None, good], "r": 1}
    assert found.rows.to_pylist() == [row, row]
    assert faults(found) == [(1, Fault.TYPE, "r")]
    assert faults(read(schema, form, [record]))[0][1:] == (Fault.TYPE, "s.a")
    # What is broken behind it is still broken.
    broken = read(schema, form, [record + b"\x12\x01\xff", record[:-1]], Contract(types="discard_value"))
    assert faults(broken) == [(0, Fault.BROKEN, None), (1, Fault.BROKEN, None)]


def test_presence(read: Read) -> None:
    fields = (
        "int32 a = 1; optional int32 b = 2; string c = 3; Inner d = 4; "
        "oneof o { int32 e = 5; string f = 6; } Kind g = 7;"
    )
    form = settings_of(fields, "message Inner { int32 x = 1; } " + ENUM)
    schema = declared_schema(form)
    found = read(schema, form, [b"", message(form, b=0, d={}, e=0), message(form, f="")])
    empty = {"a": 0, "b": None, "c": "", "d": None, "e": None, "f": None, "g": "NONE"}
    assert found.rows.to_pylist() == [
        empty,
        empty | {"b": 0, "d": {"x": 0}, "e": 0},
        empty | {"f": ""},
    ]
    required = Schema(tuple(Field(one.name, one.type, True) for one in schema))
    assert faults(read(required, form, [b""])) == [(0, Fault.MISSING, "b")]


def test_presence_proto2(read: Read) -> None:
    form = settings_of(
        "optional int32 a = 1 [default = 5]; required Inner b = 2; repeated int32 c = 3;",
        "message Inner { required int32 x = 1; optional bytes y = 2; }",
        "proto2",
    )
    schema = declared_schema(form)
    found = read(
        schema, form, [message(form, b={"x": 1}), b"", b"\x12\x00", message(form, a=1, b={"x": 0, "y": b""})]
    )
    assert found.rows.to_pylist() == [
        {"a": None, "b": {"x": 1, "y": None}, "c": []},
        {"a": 1, "b": {"x": 0, "y": b""}, "c": []},
    ]
    assert faults(found) == [(1, Fault.MISSING, "b"), (2, Fault.MISSING, "b.x")]
    # A required field that no column has is not looked at.
    assert read(columns(a="int"), form, [b""]).rows.to_pylist() == [{"a": None}]


def test_empty_text_that_cannot_be(read: Read) -> None:
    """A field that is always there has no value of its own when it is empty; an optional one has."""
    form = settings_of("string a = 1; optional string b = 2; bytes c = 3; string d = 4;")
    schema = columns(a="date", b="date", c="uuid", d="string")
    found = read(schema, form, [b"", b"\x0a\x00\x1a\x00", b"\x12\x00"])
    none = {"a": None, "b": None, "c": None, "d": ""}
    assert found.rows.to_pylist() == [none, none]
    assert faults(found) == [(2, Fault.TYPE, "b")]


def test_wire(read: Read) -> None:
    """Last one wins, messages unite, lists go on, oneofs and maps keep the last; odd forms are unknown."""
    form = settings_of(
        "int32 a = 1; Inner b = 2; repeated int32 c = 3; oneof o { int32 d = 4; Inner e = 5; } "
        "map<int32, Inner> m = 6; string s = 7;",
        "message Inner { int32 x = 1; int32 y = 2; repeated string z = 3; }",
    )
    parts = [
        message(form, a=1, b={"x": 1, "z": ["p"]}, c=[1], d=1, m={1: {"x": 1}, 2: {"x": 2}}, s="one"),
        message(form, a=2, b={"y": 2, "z": ["q"]}, c=[2, 3], e={"x": 5}, m={1: {"y": 9}}, s="two"),
        b"\x18\x04\x18\x05",  # c, not packed
        b"\x0d\x00\x00\x00\x00",  # a as fixed32
        b"\x12" + varint(2) + b"\x10\x07",  # b once more
    ]
    found = read(declared_schema(form), form, [b"".join(parts)])
    assert found.bad == ()
    [row] = found.rows.to_pylist()
    assert sorted(row.pop("m")) == [(1, {"x": 0, "y": 9, "z": []}), (2, {"x": 2, "y": 0, "z": []})]
    assert row == {
        "a": 2,
        "b": {"x": 1, "y": 7, "z": ["p", "q"]},
        "c": [1, 2, 3, 4, 5],
        "d": None,
        "e": {"x": 5, "y": 0, "z": []},
        "s": "two",
    }


def test_oneof_is_cleared_by_what_no_column_has(read: Read) -> None:
    form = settings_of(
        "oneof o { int32 a = 1; string b = 2; Inner c = 3; }", "message Inner { int32 x = 1; }"
    )
    records: list[bytes | None] = [
        b"\x08\x05",
        b"\x08\x05\x12\x01x",
        b"\x08\x05\x1a\x00",
        b"\x12\x01x\x08\x05",
    ]
    found = read(columns(a="int"), form, records)
    assert found.rows["a"].to_pylist() == [5, None, None, 5]


@pytest.mark.parametrize(
    "tail",
    [
        b"\x08",
        b"\x08\x80",
        b"\x08" + b"\xff" * 10 + b"\x01",
        b"\x12\x05ab",
        b"\x12\xff\xff\xff\xff\xff\x01",
        b"\x00\x01",
        b"\x0e",
        b"\x0f",
        b"\x0c",
        b"\x7b\x08\x01",
        b"\x7b\x08\x01\x84\x01",
        b"\x12\x01\xff",
        b"\x1a\x03\x00\x00\x00",
        b"\x22\x01\x80",
        b"\x2a\x02\x08",
        b"\x80\x80\x80\x80\x80\x01\x00",
        b"\xf9\xff\xff\xff\x1f\x00",
    ],
)
def test_broken(read: Read, tail: bytes) -> None:
    form = settings_of(
        "int32 a = 1; string b = 2; repeated fixed32 c = 3; repeated int32 d = 4; Inner e = 5;",
        "message Inner { int32 x = 1; }",
    )
    found = read(declared_schema(form), form, [b"\x08\x01", b"\x08\x02" + tail, b"\x08\x03"])
    assert found.rows["a"].to_pylist() == [1, 3]
    assert faults(found) == [(1, Fault.BROKEN, None)]


@pytest.mark.parametrize(("depth", "good"), [(98, True), (100, True), (101, False), (5000, False)])
def test_depth(read: Read, depth: int, good: bool) -> None:
    """Groups that nobody asked for inside each other."""
    record = b"\x7b" * depth + b"\x7c" * depth
    found = read(columns(a="int"), settings_of("int32 a = 1;"), [record])
    assert (found.bad == ()) == good


def test_null_is_no_message(read: Read) -> None:
    found = read(columns(a="int"), settings_of("int32 a = 1;"), [None, b""])
    assert faults(found) == [(0, Fault.EMPTY, None)]
    assert found.rows["a"].to_pylist() == [0]


def test_columns_without_fields(read: Read) -> None:
    form = settings_of("int32 a = 1;")
    assert read(columns(a="int", b="string"), form, [b""]).rows.to_pylist() == [{"a": 0, "b": None}]
    schema = Schema((Field("a", "int"), Field("b", "string", True)))
    assert faults(read(schema, form, [b""])) == [(0, Fault.MISSING, "b")]


def test_unknown_fields(read: Read) -> None:
    form = settings_of(
        "int32 a = 1; Inner b = 2; string c = 3; repeated Inner d = 4; Loop e = 5; Empty f = 6; "
        "map<string, Inner> g = 7;",
        "message Inner { int32 x = 1; int32 y = 2; } message Loop { Loop l = 1; } message Empty {}",
    )
    schema = columns(a="int", b="struct<x: int>", d="list<struct<y: int>>", g="map<string, struct<x: int>>")
    records: list[bytes | None] = [
        message(form, a=1, b={"x": 1}),
        message(form, a=2, c="x"),
        message(form, a=3, b={"y": 1}),
        message(form, a=4, d=[{"x": 1}]),
        message(form, a=5, e={}),
        message(form, a=6) + b"\xa0\x06\x01",
        message(form, a=7, g={"k": {"y": 1}}),
    ]
    assert read(schema, form, records).rows["a"].to_pylist() == [1, 2, 3, 4, 5, 6, 7]
    words: list[ContractWord] = ["discard_row", "freeze"]
    for word in words:
        found = read(schema, form, records, Contract(columns=word))
        assert found.rows["a"].to_pylist() == [1, 6]
        assert faults(found) == [
            (1, Fault.UNKNOWN_FIELD, "c"),
            (2, Fault.UNKNOWN_FIELD, "b.y"),
            (3, Fault.UNKNOWN_FIELD, "d[0].x"),
            (4, Fault.UNKNOWN_FIELD, "e"),
            (6, Fault.UNKNOWN_FIELD, "g[k].y"),
        ]
    found = read(schema, form, records, Contract(columns="evolve"))
    assert set(found.changes) == {
        SchemaChange(("c",), "string"),
        SchemaChange(("b", "y"), "int"),
        SchemaChange(("d", "element", "x"), "int"),
        SchemaChange(("g", "value", "y"), "int"),
    }
    # What cannot be a column makes the records bad that have it.
    assert faults(found) == [(4, Fault.UNKNOWN_FIELD, "e")]
    assert read(schema, form, [], Contract(columns="evolve")).changes == ()


def test_wider_types(read: Read) -> None:
    form = settings_of(
        "int64 a = 1; double b = 2; uint64 c = 3; repeated uint32 d = 4; int64 e = 5; string f = 6;"
    )
    schema = columns(a="int", b="float", c="decimal(9, 0)", d="list<int>", e="long", f="string")
    found = read(schema, form, [b""], Contract(types="evolve"))
    assert set(found.changes) == {
        SchemaChange(("a",), "long", True),
        SchemaChange(("b",), "double", True),
        SchemaChange(("c",), "decimal(20, 0)", True),
        SchemaChange(("d", "element"), "long", True),
    }
    assert read(schema, form, [b""]).changes == ()


def test_schema_of_a_message() -> None:
    fields = (
        "bool a = 1; uint32 b = 2; fixed64 c = 3; Kind d = 4; repeated Inner e = 5; map<int32, Inner> f = 6; "
        "google.protobuf.Timestamp g = 7; google.protobuf.Duration h = 8; google.protobuf.BoolValue i = 9; "
        "oneof o { bytes j = 10; }"
    )
    inner = "message Inner { int32 x = 1; Deep y = 2; message Deep { string z = 1; } } "
    assert declared_schema(settings_of(fields, inner + ENUM)) == Schema(
        tuple(
            Field(name, parse_type(kind))
            for name, kind in {
                "a": "boolean",
                "b": "long",
                "c": "decimal(20, 0)",
                "d": "string",
                "e": "list<struct<x: int, y: struct<z: string>>>",
                "f": "map<int, struct<x: int, y: struct<z: string>>>",
                "g": "timestamptz",
                "h": "long",
                "i": "boolean",
                "j": "binary",
            }.items()
        )
    )
    for fields in ("Record x = 1;", "Empty x = 1;", "Loop x = 1;"):
        more = "message Empty {} message Loop { repeated Other o = 1; } message Other { Loop l = 1; }"
        with pytest.raises(InvalidConfig, match=r"'x' of test\.Record"):
            declared_schema(settings_of(fields, more))


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (ProtobufFormat(), "registry"),
        (ProtobufFormat(descriptors=b""), "message"),
        (ProtobufFormat(descriptors=b"\xff", message="x"), "FileDescriptorSet"),
        (ProtobufFormat(descriptors=settings_of("int32 a = 1;").descriptors, message="x"), "test.Record"),
    ],
)
def test_wrong_settings(form: ProtobufFormat, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        ProtobufDecoder(columns(a="int"), form, Contract())


def test_large_maps_and_lists(read: Read) -> None:
    form = settings_of("map<string, int64> m = 1; repeated Inner l = 2;", "message Inner { string s = 1; }")
    full = {f"key{n}": n for n in range(3000)}
    inner = [{"s": f"{n}"} for n in range(3000)]
    record = message(form, m=full, l=inner)
    found = read(declared_schema(form), form, [record, record + message(form, m={"key7": -1})])
    first, second = found.rows.to_pylist()
    assert (dict(first["m"]), first["l"]) == (full, inner)
    assert (len(second["m"]), dict(second["m"])) == (3000, full | {"key7": -1})


@pytest.mark.usefixtures("native_protobuf")
@given(rng=st.randoms(use_true_random=True))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_agreement(rng: Random) -> None:
    from tests.stream.decode.protobuf_compare import random_round

    random_round(rng)


@pytest.mark.usefixtures("native_protobuf")
def test_cuts() -> None:
    """Every beginning of a record at the very end of the data."""
    from tests.stream.decode.protobuf_compare import agree

    text = (
        f'syntax = "proto3"; package test; {IMPORTS} message Record {{ int64 a = 1; string b = 2; '
        "repeated int32 c = 3; google.protobuf.Timestamp d = 4; map<string, double> e = 5; Record f = 16; }"
    )
    kind = message_of_text(text, {}, [0])
    made = GetMessageClass(kind)(
        a=-1, b="text of some length é", c=[1, 300], d={"seconds": 10**9}, e={"k": 1.5}, f={"b": "x"}
    )
    schema = columns(
        a="long", b="string", c="list<int>", d="timestamptz", e="map<string, double>", f="struct<b: string>"
    )
    whole = made.SerializeToString()
    for at in range(len(whole) + 1):
        agree(text, schema, Contract(), [whole[:at]])


def test_wrong_plans(native_protobuf: Any) -> None:
    made = native_protobuf.columns((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)))
    entry = (1, 1, 0, 0, 0, False, -1, 0, None, ())
    program = native_protobuf.program(made, (entry,))
    good = (b"\x08\x05", bytes([0, 0, 0, 0, 2, 0, 0, 0]), None)
    assert native_protobuf.decode(made, ((b"", program),), False, *good, 0, 1)[0][0] == 1
    for place, value in (
        (0, 0),
        (0, 2**29),
        (1, 19),
        (1, 14),
        (1, 16),
        (2, 4),
        (3, 1),
        (3, 2),
        (4, 3),
        (6, -2),
        (7, 1),
        (7, -1),
        (9, ((2, b"x"), (1, b"y"))),
    ):
        wrong = tuple(value if at == place else one for at, one in enumerate(entry))
        with pytest.raises(ValueError, match="plan"):
            native_protobuf.program(made, (wrong,))
    for entries in ((entry, entry), ((2, *entry[1:]), entry), ((),), None):
        with pytest.raises((ValueError, TypeError)):
            native_protobuf.program(made, entries)
    other = native_protobuf.columns((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)))
    with pytest.raises(ValueError, match="other columns"):
        native_protobuf.decode(other, ((b"", program),), False, *good, 0, 1)
    for offset, length in ((-1, 1), (0, 2), (1, 1)):
        with pytest.raises(ValueError, match="buffers"):
            native_protobuf.decode(made, ((b"", program),), False, *good, offset, length)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_sanitizers(tmp_path: Path) -> None:
    fuzz_sanitized("_protobuf", "protobuf.c", "tests.stream.decode.protobuf_compare", tmp_path)
