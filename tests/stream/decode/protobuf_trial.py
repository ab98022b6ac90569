"""Protobuf decoders under test."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from tests.stream.decode.conftest import raw_batch
from tests.stream.decode.protobuf_generate import IMPORTS, descriptor_set

from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.config.model import Contract, ProtobufFormat
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.protobuf import ProtobufDecoder
from frazil.stream.decode.protobuf_schema import declared_message
from frazil.stream.decode.protobuf_text import parse_proto

Read = Callable[..., Decoded]
ENUM = "enum Kind { NONE = 0; NEW = 1; ALSO = 2; }"


def native_module() -> Any:
    """Where it can be built it has to be there."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, so no native decoder")
    from frazil.stream import _protobuf

    return _protobuf


def settings_of(fields: str, more: str = "", syntax: str = "proto3") -> ProtobufFormat:
    text = f'syntax = "{syntax}"; package test; {IMPORTS} message Record {{ {fields} }} {more}'
    return ProtobufFormat(descriptors=descriptor_set(parse_proto(text, "t.proto")), message="test.Record")


def reader(which: str, monkeypatch: pytest.MonkeyPatch) -> Read:
    """What decodes by the native decoder, or by the reference."""
    if which == "native":
        native_module()
    monkeypatch.setenv("FRAZIL_NATIVE", "1" if which == "native" else "0")

    def decode(
        schema: Schema,
        format: ProtobufFormat,  # noqa: A002
        records: list[bytes | None],
        contract: Contract = Contract(),  # noqa: B008
    ) -> Decoded:
        decoder = ProtobufDecoder(schema, format, contract)
        assert (decoder._rows == decoder._by_reference) == (which == "reference")
        values = pa.array([None, *records], pa.binary())[1:]
        found: Decoded = pickle.loads(pickle.dumps(decoder)).decode(raw_batch(values))
        found.rows.validate(full=True)
        assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
        return found

    return decode


def columns(**kinds: str) -> Schema:
    return Schema(tuple(Field(name, parse_type(kind)) for name, kind in kinds.items())).with_fresh_ids()


def faults(found: Decoded) -> list[tuple[int, Fault, str | None]]:
    return [(bad.index, bad.fault, bad.field) for bad in found.bad]


def message(format: ProtobufFormat, **values: Any) -> bytes:  # noqa: A002
    """By Google's own class."""
    return bytes(GetMessageClass(declared_message(format))(**values).SerializeToString())
