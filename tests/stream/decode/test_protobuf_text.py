"""The text of .proto files: what protoc makes of it, or a refusal that names the line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from frazil.core.errors import InvalidInput
from frazil.stream.decode.protobuf_descriptors import message_of_text
from frazil.stream.decode.protobuf_text import parse_proto
from frazil.stream.decode.protobuf_types import message_of

_HERE = Path(__file__).parent


def shape(message: Any, seen: set[str]) -> Any:
    """All that decides how a message is read."""
    if message.full_name in seen:
        return message.full_name
    seen = seen | {message.full_name}
    return message.full_name, [
        (
            one.name,
            one.number,
            one.type,
            one.is_repeated,
            one.is_required,
            one.has_presence,
            one.containing_oneof.name if one.containing_oneof else None,
            bool(one.message_type and one.message_type.GetOptions().map_entry),
            shape(one.message_type, seen) if one.message_type else None,
            [(value.name, value.number) for value in one.enum_type.values] if one.enum_type else None,
        )
        for one in sorted(message.fields, key=lambda one: one.number)
    ]


def test_as_protoc_has_it() -> None:
    """`protoc --descriptor_set_out=protobuf_everything.binpb protobuf_everything.proto`"""
    text = (_HERE / "protobuf_everything.proto").read_text()
    [wanted] = FileDescriptorSet.FromString((_HERE / "protobuf_everything.binpb").read_bytes()).file
    found = parse_proto(text, wanted.name)
    assert [one.name for one in found.message_type] == [one.name for one in wanted.message_type]
    assert [one.name for one in found.message_type[1].nested_type] == [
        one.name for one in wanted.message_type[1].nested_type
    ]
    assert list(found.dependency) == list(wanted.dependency)
    assert list(found.public_dependency) == list(wanted.public_dependency)
    assert shape(_message(found), set()) == shape(_message(wanted), set())


def _message(file: FileDescriptorProto) -> Any:
    from frazil.stream.decode.protobuf_descriptors import _pool

    return _pool([file]).FindMessageTypeByName("test.every.Outer")


def test_proto3() -> None:
    text = """
        syntax = 'proto3' ; /* no package */ import weak "gone.proto";
        message A { optional int32 x = 1; int32 y = 2; oneof one { string z = 3; } A a = 4; B.C c = 5;
            map m = 6; }
        message B { message C { reserved 1; } } message map {}
    """
    found = message_of_text(text, {}, [0])
    fields = {one.name: one for one in found.fields}
    assert [one.has_presence for one in found.fields] == [True, False, True, True, True, True]
    assert (message_of(fields["a"]).full_name, message_of(fields["c"]).full_name) == ("A", "B.C")
    assert message_of(fields["m"]).full_name == "map"
    assert message_of_text(text, {}, [1, 0]).full_name == "B.C"


def test_references() -> None:
    text = 'syntax = "proto3"; package a; import "b.proto"; message A { b.B b = 1; c.C c = 2; }'
    references = {
        "c.proto": 'syntax = "proto2"; package c; message C { required int32 x = 1; }',
        "b.proto": 'syntax = "proto3"; package b; import public "c.proto"; message B { c.C c = 1; }',
    }
    for order in (references, dict(reversed(references.items()))):
        found = message_of_text(text, order, [0])
        assert message_of(found.fields_by_name["c"]).fields_by_name["x"].is_required
    with pytest.raises(InvalidInput, match=r"not there: c\.proto"):
        message_of_text(text, {"b.proto": references["b.proto"]}, [0])
    loop = {"b.proto": 'import "b.proto"; message B {}'}
    with pytest.raises(InvalidInput, match="imports itself"):
        message_of_text(text, loop, [0])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message A {\n int32 x = ;\n}", "line 2 of a .proto file: found ';', expected a number"),
        ("message A {\n int32 x = 1", "its end"),
        ("message A { int32 x = 0; }", "from 1 to 536870911"),
        ("message A { int32 x = 536870912; }", "from 1 to 536870911"),
        ("message A { int32 x = 1.5; }", "a number"),
        ("message A { int32 x = 08; }", "a number"),
        ("message A { int32 x.y = 1; }", "without dots"),
        ("message A { option a = (; }", "expected"),
        ("message A { option a = ) }", "';'"),
        ("message A { string \x01 = 1; }", "found '\x01'"),
        ("message { }", "a name"),
        ("hello", "a statement"),
        ("syntax = 'proto4';", "proto4"),
        ("edition = '2023';", "edition"),
        ('import "x;', "a text"),
        ("message A { B b = 1; }", "no valid Protobuf file"),
        ("message A { int32 x = 1; int32 x = 2; }", "no valid Protobuf file"),
        ("message A { int32 x = 1; int32 y = 1; }", "no valid Protobuf file"),
        ("enum E { A = 0; }", r"no message at place \[0\]"),
        ("/* not closed", "found '/'"),
        ("message A {" * 40, "deep"),
    ],
)
def test_wrong_texts(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        message_of_text(text, {}, [0])
