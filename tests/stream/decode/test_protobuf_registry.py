"""Protobuf records that name their schema, with a real registry."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from tests.stream.decode.conftest import raw_batch
from tests.stream.decode.protobuf_generate import varint

from frazil.core.errors import InvalidConfig, Unavailable
from frazil.core.schema import Field, Schema, SchemaChange, parse_type
from frazil.devstack.ports import free_port
from frazil.devstack.registry import SchemaRegistry
from frazil.stream import registry as registry_module
from frazil.stream.config.model import Contract, ProtobufFormat, Registry
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.protobuf import ProtobufDecoder
from frazil.stream.decode.protobuf_descriptors import message_of_text
from frazil.stream.decode.protobuf_frame import frame_of
from frazil.stream.decode.protobuf_schema import registered_schema
from frazil.stream.registry import RegistryClient

_OLD = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string note = 2; }'
_NEW = """
syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Other { int32 id = 1; }
message Order {
  string note = 1; int64 id = 2; google.protobuf.Timestamp at = 3;
  message Line { int64 id = 1; string note = 5; }
}
"""
_SCHEMA = Schema((Field("id", "long"), Field("note", "string"))).with_fresh_ids()


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_FIRST_PAUSE", 0.001)


@pytest.fixture(params=["1", "0"], ids=["native", "reference"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_NATIVE", request.param)


def framed(schema_id: int, text: str, path: list[int], **values: Any) -> bytes:
    """As Confluent's serializer writes it."""
    made = GetMessageClass(message_of_text(text, {}, path))(**values).SerializeToString()
    place = b"\0" if path == [0] else b"".join(varint(one * 2) for one in (len(path), *path))
    return b"\0" + schema_id.to_bytes(4, "big") + place + bytes(made)


def decode(url: str, records: list[bytes | None], contract: Contract = Contract()) -> Decoded:  # noqa: B008
    decoder = ProtobufDecoder(_SCHEMA, ProtobufFormat(registry=Registry(url)), contract)
    found = decoder.decode(raw_batch(pa.array(records, pa.binary())))
    found.rows.validate(full=True)
    return found


@pytest.mark.usefixtures("native")
def test_schemas_change_from_record_to_record(registry: SchemaRegistry) -> None:
    old, new = (registry.register(f"pb-{n}", one, "PROTOBUF") for n, one in enumerate((_OLD, _NEW)))
    records = [
        framed(old, _OLD, [0], id=1, note="a"),
        framed(new, _NEW, [1], id=2, note="b", at={"seconds": 5}),
        framed(new, _NEW, [1, 0], id=3, note="c"),
        framed(old, _OLD, [0]),
        framed(new, _NEW, [0], id=5),
    ]
    records[3:4] = [records[3], records[3][:5] + b"\x02\x00" + records[3][6:]]  # the long form of [0]
    found = decode(registry.url, [*records])
    assert found.bad == ()
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (0, ""),
        (0, ""),
        (5, None),
    ]


@pytest.mark.usefixtures("native")
def test_bad_records(registry: SchemaRegistry) -> None:
    known = registry.register("pb-known", _OLD, "PROTOBUF")
    avro = registry.register("pb-avro", '"string"')
    good = framed(known, _OLD, [0], id=1)
    records = [
        None,
        b"",
        b"\x01" + good[1:],
        good[:5],
        good,
        framed(99_999, _OLD, [0], id=1),
        framed(avro, _OLD, [0], id=1),
        good[:5] + b"\x02\x0a" + good[6:],
        good[:5] + b"\x01" + good[6:],
        good + b"\x08",
        good,
    ]
    found = decode(registry.url, records)
    assert found.rows["id"].to_pylist() == [1, 1]
    assert [(bad.index, bad.fault) for bad in found.bad] == [
        (0, Fault.EMPTY),
        (1, Fault.BROKEN),
        (2, Fault.BROKEN),
        (3, Fault.BROKEN),
        (5, Fault.UNKNOWN_SCHEMA),
        (6, Fault.UNKNOWN_SCHEMA),
        (7, Fault.UNKNOWN_SCHEMA),
        (8, Fault.BROKEN),
        (9, Fault.BROKEN),
    ]
    assert "99999" in found.bad[4].reason
    assert "AVRO" in found.bad[5].reason
    assert "place [5]" in found.bad[6].reason


def test_contracts_are_by_schema(registry: SchemaRegistry) -> None:
    old, new = (registry.register(f"pb-{n}", one, "PROTOBUF") for n, one in enumerate((_OLD, _NEW)))
    first, second = framed(old, _OLD, [0], id=1), framed(new, _NEW, [1], id=2, at={})
    refused = decode(registry.url, [first, second], Contract(columns="discard_row"))
    assert [(bad.index, bad.fault, bad.field) for bad in refused.bad] == [(1, Fault.UNKNOWN_FIELD, "at")]
    evolve = Contract(columns="evolve")
    assert decode(registry.url, [first], evolve).changes == ()
    assert decode(registry.url, [first, second], evolve).changes == (SchemaChange(("at",), "timestamptz"),)


def test_references(registry: SchemaRegistry) -> None:
    registry.register("pb-part", 'syntax = "proto3"; package part; message Part { int32 x = 1; }', "PROTOBUF")
    text = 'syntax = "proto3"; import "part.proto"; message Whole { part.Part part = 1; }'
    number = registry.register(
        "pb-whole", text, "PROTOBUF", [{"name": "part.proto", "subject": "pb-part", "version": 1}]
    )
    schema = registered_schema(RegistryClient(Registry(registry.url)).schema(number))
    assert schema == Schema((Field("part", parse_type("struct<x: int>")),))
    record = b"\0" + number.to_bytes(4, "big") + b"\0\x0a\x02\x08\x07"
    decoder = ProtobufDecoder(schema, ProtobufFormat(registry=Registry(registry.url)))
    assert decoder.decode(raw_batch(pa.array([record]))).rows.to_pylist() == [{"part": {"x": 7}}]


def test_a_registry_that_is_down() -> None:
    with pytest.raises(Unavailable, match="did not answer"):
        decode(f"http://127.0.0.1:{free_port()}", [framed(1, _OLD, [0], id=1)])


def test_either_registry_or_descriptors() -> None:
    with pytest.raises(InvalidConfig, match="either"):
        ProtobufDecoder(_SCHEMA, ProtobufFormat(Registry("http://localhost"), b"", "x"))


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (b"\0\0\0\0\7\0", (0,)),
        (b"\0\0\0\0\7\2\0rest", (0,)),
        (b"\0\0\0\0\7\4\2\x80\1rest", (1, 64)),
        (b"\0\0\0\0\7", None),
        (b"\0\0\0\0\7\4\2", None),
        (b"\0\0\0\0\7\1", None),
        (b"\0\0\0\0\7\2\1", None),
        (b"\0\0\0\0\7\xff\xff\xff\xff\xff\1", None),
        (b"\1\0\0\0\7\0", None),
    ],
)
def test_frames(record: bytes, path: tuple[int, ...] | None) -> None:
    found = frame_of(record)
    assert (found and found.path) == path
    if found:
        assert found.schema_id == 7
        assert record.startswith(found.prefix)
        assert record[len(found.prefix) :] in (b"", b"rest")
