"""CSV: quoting, values, headers and contracts; the native decoder and the reference alike."""

from __future__ import annotations

import datetime as dt
import pickle
import shutil
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stream.decode.sanitized import fuzz_sanitized

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, SchemaChange, parse_type
from frazil.stream.config.model import Contract, CsvFormat
from frazil.stream.decode.csv import CsvDecoder
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.source import RawBatch

Read = Callable[..., Decoded]


@pytest.fixture
def native_csv() -> Any:
    """The native module. Where it can be built it has to be there."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler, so no native decoder")
    from frazil.stream import _csv

    return _csv


@pytest.fixture(params=["native", "reference"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    if request.param == "native":
        request.getfixturevalue("native_csv")
    monkeypatch.setenv("FRAZIL_NATIVE", "1" if request.param == "native" else "0")

    def decode(
        schema: Schema,
        records: list[bytes | None],
        header: bytes | None = None,
        contract: Contract = Contract(),  # noqa: B008
        **changes: Any,
    ) -> Decoded:
        decoder = CsvDecoder(schema, CsvFormat(**changes), contract)
        assert (decoder._rows is decoder._reference) == (request.param == "reference")
        numbers = pa.array(range(len(records)), pa.int64())
        raw = RawBatch("t", 0, pa.array(records, pa.binary()), numbers, numbers, header=header)
        found: Decoded = pickle.loads(pickle.dumps(decoder)).decode(raw)
        found.rows.validate(full=True)
        assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
        return found

    return decode


def columns(**kinds: str) -> Schema:
    return Schema(tuple(Field(name, kind) for name, kind in kinds.items())).with_fresh_ids()


def faults(found: Decoded) -> list[tuple[int, Fault, str | None]]:
    return [(bad.index, bad.fault, bad.field) for bad in found.bad]


AB = columns(a="string", b="string")


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        (b"x,y", ("x", "y")),
        (b"x,y\n", ("x", "y")),
        (b"x,y\r\n", ("x", "y")),
        (b"x,y\r", ("x", "y")),
        (b'"x","y"', ("x", "y")),
        (b'"a,b","c""d"', ("a,b", 'c"d')),
        (b'"""",""""""', ('"', '""')),
        (b'"two\nlines",\r\n', ("two\nlines", None)),
        (b'"two\r\nlines",""', ("two\r\nlines", "")),
        (b",", (None, None)),
        (b'"",NULL', ("", "NULL")),
        (b" x , y ", (" x ", " y ")),
        ("é,😀".encode(), ("é", "😀")),
        (b"\x00,'", ("\x00", "'")),
    ],
)
def test_records(read: Read, record: bytes, wanted: tuple[str | None, str | None]) -> None:
    found = read(AB, [b"before,1", record, b"after,1"])
    assert found.bad == ()
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == [
        ("before", "1"),
        wanted,
        ("after", "1"),
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"x", "1 fields, expected 2"),
        (b"x,y,z", "3 fields"),
        (b"x,y,", "3 fields"),
        (b'x,"y', "not closed"),
        (b'x,"y""', "not closed"),
        (b'x,y"', "inside a field"),
        (b'x,"y"z', "behind a closing quote"),
        (b'"x" ,y', "behind a closing quote"),
        (b"x,y\nz,w", "line end"),
        (b"x\r,y", "line end"),
        (b"x,y\n\n", "line end"),
        (b"x,y\r\r\n", "line end"),
        (b"x,\xff", "byte 3 of 3"),
        (b'"\xed\xa0\x80",y', "not UTF-8"),
    ],
)
def test_broken_records(read: Read, record: bytes, reason: str) -> None:
    found = read(AB, [b"before,1", record, b"after,1"])
    assert found.rows["a"].to_pylist() == ["before", "after"]
    assert faults(found) == [(1, Fault.BROKEN, None)]
    assert reason in found.bad[0].reason


def test_empty_records(read: Read) -> None:
    found = read(columns(a="string"), [None, b"", b"\n", b"\r\n", b'""'])
    assert found.rows["a"].to_pylist() == [""]
    assert faults(found) == [(row, Fault.EMPTY, None) for row in range(4)]


VALUES: list[tuple[str, bytes, Any]] = [
    ("boolean", b"true", True),
    ("int", b"-2147483648", -(2**31)),
    ("long", b"9223372036854775807", 2**63 - 1),
    ("float", b"1.1", 1.100000023841858),
    ("double", b"1e-3", 0.001),
    ("double", b"0.12345678901234567890", 0.12345678901234568),
    ("decimal(4, 2)", b"-99.990", Decimal("-99.99")),
    ("date", b"2024-02-29", dt.date(2024, 2, 29)),
    ("time", b"12:00", dt.time(12)),
    ("timestamptz", b"2024-01-01T00:00:00+01:00", dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC)),
    ("uuid", b"00112233-4455-6677-8899-aabbccddeeff", bytes.fromhex("00112233445566778899aabbccddeeff")),
    ("binary", b"AAE=", b"\0\1"),
    ("fixed[2]", b"AAE=", b"\0\1"),
]


@pytest.mark.parametrize(("kind", "text", "value"), VALUES)
def test_values(read: Read, kind: str, text: bytes, value: Any) -> None:
    found = read(columns(x=kind, y="int"), [text + b",1", b'"' + text + b'",1', b",1"])
    assert found.bad == ()
    assert found.rows["x"].to_pylist() == [value, value, None]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", b"True"),
        ("int", b"2147483648"),
        ("int", b"1.0"),
        ("int", b"01"),
        ("int", b" 1"),
        ("int", b"+1"),
        ("long", b"1e3"),
        ("double", b"NaN"),
        ("double", b"1."),
        ("double", b"1e999"),
        ("float", b"1e39"),
        ("decimal(4, 2)", b"1.005"),
        ("date", b"2023-02-29"),
        ("time", b"24:00"),
        ("timestamp", b"2024-01-01T00:00:00Z"),
        ("timestamptz", b"2024-01-01T00:00:00"),
        ("uuid", b"x"),
        ("binary", b"AAE"),
        ("fixed[3]", b"AAE="),
        ("int", b'""'),
    ],
)
def test_wrong_values(read: Read, kind: str, text: bytes) -> None:
    schema = columns(x=kind, y="int")
    found = read(schema, [text + b",1"])
    assert faults(found) == [(0, Fault.TYPE, "x")]
    assert "expected" in found.bad[0].reason
    left = read(schema, [text + b",1"], contract=Contract(types="discard_value"))
    assert left.rows.to_pylist() == [{"x": None, "y": 1}]
    required = Schema((Field("x", parse_type(kind), True), Field("y", "int")))
    assert faults(read(required, [text + b",1", b",1"], contract=Contract(types="discard_value"))) == [
        (0, Fault.TYPE, "x"),
        (1, Fault.MISSING, "x"),
    ]


def test_settings(read: Read) -> None:
    schema = columns(a="string", t="timestamptz")
    found = read(
        schema, [b"'x;y';1.5", b"\\N;'1'", b"'\\N';"], delimiter=";", quote="'", null="\\N", timestamps="s"
    )
    assert found.rows["a"].to_pylist() == ["x;y", None, "\\N"]
    assert found.rows["t"].cast(pa.int64()).to_pylist() == [1_500_000, 1_000_000, None]
    assert read(AB, [b'"x",y"'], quote="").rows.to_pylist() == [{"a": '"x"', "b": 'y"'}]


def test_headers(read: Read) -> None:
    schema = Schema((Field("a", "int", True), Field("b", "string"), Field("c", "int")))
    found = read(schema, [b"x,1,z", b"x,,z", b"x,1"], header=b'\xef\xbb\xbfb,a,"n,w"\r\n')
    assert found.rows.to_pylist() == [{"a": 1, "b": "x", "c": None}]
    assert faults(found) == [(1, Fault.MISSING, "a"), (2, Fault.BROKEN, None)]
    assert faults(read(schema, [b"x"], header=b"b")) == [(0, Fault.MISSING, "a")]
    for header, reason in ((b"a,b,a", "'a' twice"), (b'a,"b', "header")):
        found = read(schema, [b"1,2,3", b"4,5,6"], header=header)
        assert faults(found) == [(0, Fault.BROKEN, None), (1, Fault.BROKEN, None)]
        assert reason in found.bad[0].reason


def test_a_header_that_names_no_column(read: Read) -> None:
    """As with another delimiter: rows of nulls would land, and nobody would know."""
    schema = columns(a="int", b="string")
    found = read(schema, [b"1;x", b"2;y"], header=b"a;b")
    assert faults(found) == [(0, Fault.BROKEN, None), (1, Fault.BROKEN, None)]
    assert "the header of its file names none of the columns: a;b" in found.bad[0].reason
    evolve = Contract(columns="evolve")
    assert len(read(schema, [b"1"], header=b"c", contract=evolve).changes) == 1


def test_unknown_columns(read: Read) -> None:
    records: list[bytes | None] = [b"1,x", b"2,", b"3,y"]
    found = read(columns(a="int"), records, header=b"a,new", contract=Contract(columns="discard_row"))
    assert found.rows["a"].to_pylist() == [2]
    assert faults(found) == [(0, Fault.UNKNOWN_FIELD, "new"), (2, Fault.UNKNOWN_FIELD, "new")]
    evolve = Contract(columns="evolve")
    assert read(columns(a="int"), records, header=b"a,new", contract=evolve).changes == (
        SchemaChange(("new",), "string"),
    )
    for header in (b"a,", b"a,A", b"a,new\x01"):
        found = read(columns(a="int"), records, header=header, contract=evolve)
        assert found.changes == ()
        assert faults(found)[0][:2] == (0, Fault.UNKNOWN_FIELD)
    assert read(columns(a="int"), [], header=b"a,new", contract=evolve).changes == ()


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("int", b"2147483648", "long"),
        ("float", b"1e39", "double"),
        ("decimal(4, 2)", b"-123.4", "decimal(5, 2)"),
        ("int", b"9223372036854775808", None),
        ("int", b"x", None),
        ("float", b"1e999", None),
        ("decimal(4, 2)", b"1.005", None),
        ("long", b"x", None),
    ],
)
def test_wider_types(read: Read, kind: str, text: bytes, wanted: str | None) -> None:
    found = read(columns(a=kind, b="int"), [text + b",1"] * 2, contract=Contract(types="evolve"))
    assert found.changes == ((SchemaChange(("a",), wanted, True),) if wanted else ())
    assert len(found.bad) == (0 if wanted else 2)


@pytest.mark.parametrize(
    "changes", [{"delimiter": ""}, {"delimiter": ",,"}, {"delimiter": "é"}, {"quote": ","}, {"quote": "\n"}]
)
def test_wrong_settings(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig, match="CSV"):
        CsvDecoder(AB, CsvFormat(**changes), Contract())  # type: ignore[arg-type]


def test_no_nested_columns() -> None:
    with pytest.raises(InvalidConfig, match="one value"):
        CsvDecoder(Schema((Field("a", parse_type("list<int>")),)), CsvFormat(), Contract())


@pytest.mark.usefixtures("native_csv")
@given(rng=st.randoms(use_true_random=True))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_agreement(rng: Random) -> None:
    from tests.stream.decode.csv_compare import random_round

    random_round(rng)


def test_wrong_buffers(native_csv: Any) -> None:
    plan = native_csv.plan((17, 1, 0, 0, 0, ((1, 0, 4, 0, 0, ()),)))
    good = (b"1", bytes([0, 0, 0, 0, 1, 0, 0, 0]), None)
    assert native_csv.decode(plan, (0,), 44, 34, b"", False, *good, 0, 1)[0][0] == 1
    for place in ((1,), (-3,), (0, 0), ("x",)):
        with pytest.raises((ValueError, TypeError)):
            native_csv.decode(plan, place, 44, 34, b"", False, *good, 0, 1)
    for delimiter, quote in ((-1, 34), (128, 34), (44, -2), (44, 256)):
        with pytest.raises(ValueError, match="ASCII"):
            native_csv.decode(plan, (0,), delimiter, quote, b"", False, *good, 0, 1)
    for offset, length in ((-1, 1), (0, 2), (1, 1)):
        with pytest.raises(ValueError, match="buffers"):
            native_csv.decode(plan, (0,), 44, 34, b"", False, *good, offset, length)
    for wrong in ((20, 0, 0, 0, 0, ()), (15, 0, 0, 0, 0, ()), (1, 0, 4, 0, 0, ((),))):
        with pytest.raises(ValueError, match="plan"):
            native_csv.plan(wrong)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_sanitizers(tmp_path: Any) -> None:
    fuzz_sanitized("_csv", "csv.c", "tests.stream.decode.csv_compare", tmp_path)
