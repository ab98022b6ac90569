"""Records that name their schema, with a real registry."""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.decode.avro_compare import raw
from tests.stream.decode.avro_generate import encoded
from tests.stream.decode.test_avro_values import record

from frazil.core.errors import Unavailable
from frazil.core.schema import Field, Schema, SchemaChange, parse_type
from frazil.devstack.ports import free_port
from frazil.devstack.registry import SchemaRegistry
from frazil.stream import registry as registry_module
from frazil.stream.config.model import AvroFormat, Contract, Registry
from frazil.stream.decode.avro import AvroDecoder
from frazil.stream.decode.decoded import Decoded, Fault

_COLUMNS = Schema((Field("id", "long", True), Field("note", "string"))).with_fresh_ids()
_OLD = record(("id", "int"), name="AvroOrder")
_NEW = record(("note", ["null", "string"]), ("id", "long"), ("more", "double"), name="AvroOrder2")


@pytest.fixture(params=["native", "reference"])
def _kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_NATIVE", "1" if request.param == "native" else "0")
    monkeypatch.setattr(registry_module, "_FIRST_PAUSE", 0.001)


def framed(number: int, data: bytes) -> bytes:
    return struct.pack(">BI", 0, number) + data


def decode(url: str, records: list[bytes | None], contract: Contract = Contract()) -> Decoded:  # noqa: B008
    decoder = AvroDecoder(_COLUMNS, AvroFormat(Registry(url)), contract)
    values = pa.array([b"first", *records], pa.binary())[1:]
    found = pickle.loads(pickle.dumps(decoder)).decode(raw(values))
    assert isinstance(found, Decoded)
    found.rows.validate(full=True)
    return found


@pytest.mark.usefixtures("_kind")
def test_schemas_change_from_record_to_record(registry: SchemaRegistry) -> None:
    old, new = (registry.register(f"avro-{n}", json.dumps(one)) for n, one in enumerate((_OLD, _NEW)))
    rows: list[Any] = []
    records: list[bytes | None] = []
    for n in range(200):
        if n % 3:
            rows.append({"id": n, "note": None})
            records.append(framed(old, encoded(_OLD, {"id": n})))
        else:
            rows.append({"id": n, "note": "x" * n})
            records.append(framed(new, encoded(_NEW, {"id": n, "note": "x" * n, "more": 1.5})))
    assert decode(registry.url, records).rows.to_pylist() == rows
    # Bad ones among them, and schemas that nobody knows, leave the others alone.
    spoilt = [None, b"", b"\0\0\0", b"{}", framed(old, b""), framed(2**32 - 1, b"x"), framed(new, b"\0")]
    mixed = [one for pair in zip(records, (spoilt * 40)[: len(records)], strict=True) for one in pair]
    found = decode(registry.url, mixed)
    assert found.rows.to_pylist() == rows
    assert [bad.index for bad in found.bad] == list(range(1, 400, 2))
    faults = [Fault.EMPTY, *[Fault.BROKEN] * 4, Fault.UNKNOWN_SCHEMA, Fault.BROKEN]
    assert [bad.fault for bad in found.bad[:7]] == faults
    assert str(2**32 - 1) in found.bad[5].reason


@pytest.mark.usefixtures("_kind")
def test_what_the_registry_holds_besides(registry: SchemaRegistry) -> None:
    """A schema of another format is not one of these records."""
    text = 'syntax = "proto3"; message AvroNot { int32 x = 1; }'
    number = registry.register("avro-not", text, "PROTOBUF")
    (bad,) = decode(registry.url, [framed(number, b"\x02")]).bad
    assert bad.fault == Fault.UNKNOWN_SCHEMA
    assert "PROTOBUF" in bad.reason


@pytest.mark.usefixtures("_kind")
def test_contracts_are_by_schema(registry: SchemaRegistry) -> None:
    """Only records of the schema with the new field are concerned."""
    old, new = (registry.register(f"avro-{n}", json.dumps(one)) for n, one in enumerate((_OLD, _NEW)))
    records: list[bytes | None] = [
        framed(new, encoded(_NEW, {"id": 1, "note": None, "more": 1.5})),
        framed(old, encoded(_OLD, {"id": 2})),
    ]
    refused = decode(registry.url, records, Contract(columns="discard_row"))
    assert refused.rows.to_pylist() == [{"id": 2, "note": None}]
    assert [(bad.index, bad.fault, bad.field) for bad in refused.bad] == [(0, Fault.UNKNOWN_FIELD, "more")]
    grown = decode(registry.url, records, Contract(columns="evolve"))
    assert grown.changes == (SchemaChange(("more",), "double"),)
    assert decode(registry.url, records[1:], Contract(columns="evolve")).changes == ()


@pytest.mark.usefixtures("_kind")
def test_references(registry: SchemaRegistry) -> None:
    note = record(("text", "string"), name="AvroNote")
    registry.register("avro-note", json.dumps(note))
    order = record(("id", "long"), ("note", "AvroNote"), name="AvroNoted")
    reference: dict[str, str | int] = {"name": "AvroNote", "subject": "avro-note", "version": 1}
    number = registry.register("avro-noted", json.dumps(order), references=[reference])
    columns = Schema((Field("id", "long"), Field("note", parse_type("struct<text: string>"))))
    decoder = AvroDecoder(columns, AvroFormat(Registry(registry.url)))
    found = decoder.decode(raw(pa.array([framed(number, b"\x02\x02x")], pa.binary())))
    assert found.rows.to_pylist() == [{"id": 1, "note": {"text": "x"}}]


@pytest.mark.usefixtures("_kind")
def test_a_registry_that_does_not_answer() -> None:
    """Records are not to blame; those without an id need no registry."""
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(Unavailable):
        decode(url, [framed(1, b"\x02")])
    assert [bad.fault for bad in decode(url, [None, b"x"]).bad] == [Fault.EMPTY, Fault.BROKEN]
