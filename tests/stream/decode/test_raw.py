"""Raw values: as they are, in one column."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.config.model import Contract, RawFormat
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.raw import RawDecoder
from frazil.stream.source import RawBatch


def batch(values: pa.BinaryArray) -> RawBatch:
    numbers = pa.array(range(len(values)), pa.int64())
    return RawBatch("t", 0, values, numbers, numbers)


def decode(kind: str, values: list[bytes | None], required: bool = False) -> Decoded:
    schema = Schema((Field("v", kind, required, id=7),))
    found = RawDecoder(schema, RawFormat(), Contract()).decode(batch(pa.array(values, pa.binary())))
    found.rows.validate(full=True)
    assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
    return found


def test_binary() -> None:
    found = decode("binary", [b"a", None, b"", b"\xff"])
    assert found.rows.column(0).to_pylist() == [b"a", None, b"", b"\xff"]
    assert found.bad == ()


def test_text() -> None:
    found = decode("string", ["é".encode(), b"\xc3", None, b"", b"a\xed\xa0\x80"])
    assert found.rows.column(0).to_pylist() == ["é", None, ""]
    assert [(bad.index, bad.fault, bad.field) for bad in found.bad] == [
        (1, Fault.BROKEN, "v"),
        (4, Fault.BROKEN, "v"),
    ]
    assert "byte 2 of 4" in found.bad[1].reason


def test_required() -> None:
    found = decode("string", [None, b"a", b"\xff", None], required=True)
    assert found.rows.column(0).to_pylist() == ["a"]
    assert [(bad.index, bad.fault) for bad in found.bad] == [
        (0, Fault.EMPTY),
        (2, Fault.BROKEN),
        (3, Fault.EMPTY),
    ]


def test_nothing_is_copied() -> None:
    values = pa.array([b"abc", b"de"] * 10, pa.binary())[3:]
    for kind in ("binary", "string"):
        found = RawDecoder(Schema((Field("v", kind),)), RawFormat(), Contract()).decode(batch(values))
        assert found.rows.column(0).buffers()[2].address == values.buffers()[2].address
        assert found.rows.column(0).to_pylist() == values.cast(kind).to_pylist()


def test_pickled() -> None:
    decoder = RawDecoder(Schema((Field("v", "string"),)), RawFormat(), Contract())
    again = pickle.loads(pickle.dumps(decoder))
    assert len(again.decode(batch(pa.array([b"x"], pa.binary()))).rows) == 1


@pytest.mark.parametrize("columns", [["long"], ["string", "binary"], ["list<string>"], []])
def test_one_column(columns: list[str]) -> None:
    fields = tuple(Field(f"c{n}", parse_type(kind)) for n, kind in enumerate(columns))
    with pytest.raises(InvalidConfig, match="one column"):
        RawDecoder(Schema(fields), RawFormat(), Contract())
