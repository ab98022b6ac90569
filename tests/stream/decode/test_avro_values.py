"""Every writer's type into every column it may fill: by the native decoder and the reference."""

from __future__ import annotations

import json
import pickle
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.decode.avro_compare import agree, decoder, raw
from tests.stream.decode.avro_generate import encoded

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, parse_type
from frazil.stream.config.model import AvroFormat, Contract, Registry
from frazil.stream.decode.avro import AvroDecoder
from frazil.stream.decode.decoded import Decoded, Fault

_UUID = uuid.UUID("12345678-9abc-def0-1234-56789abcdef0")
_BEFORE_1970 = datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def logical(kind: str, word: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": word} | more


def fixed(size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size} | more


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": kind} for n, kind in fields]}


_FIXED_DECIMAL = fixed(5, logicalType="decimal", precision=9, scale=1)
_STRUCT = record(("a", "int"), ("b", "string"), name="S")


def varint(number: int) -> bytes:
    left = number << 1 ^ number >> 63
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def read(writer: Any, column: str, data: bytes, contract: Contract = Contract(), **more: Any) -> Decoded:  # noqa: B008
    """One field `x`, by both decoders."""
    columns = Schema((Field("x", parse_type(column), more.get("required", False)),)).with_fresh_ids()
    return agree(columns, record(("x", writer)), contract, [data])


@pytest.mark.parametrize(
    ("writer", "column", "value", "wanted"),
    [
        ("boolean", "boolean", True, True),
        ("boolean", "boolean", False, False),
        ("int", "int", -(2**31), -(2**31)),
        ("int", "long", 2**31 - 1, 2**31 - 1),
        ("int", "float", 16777217, 16777216.0),
        ("int", "double", 16777217, 16777217.0),
        ("long", "long", -(2**63), -(2**63)),
        ("long", "long", 2**63 - 1, 2**63 - 1),
        ("long", "int", 2**31 - 1, 2**31 - 1),
        ("long", "float", 2**62, float(2**62)),
        ("long", "double", 3, 3.0),
        ("float", "float", 1.5, 1.5),
        ("float", "double", 1.5, 1.5),
        ("float", "double", float("inf"), float("inf")),
        ("double", "double", 0.1, 0.1),
        ("double", "float", 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("double", "float", float("-inf"), float("-inf")),
        ("string", "string", "é😀", "é😀"),
        ("string", "binary", "é", "é".encode()),
        ("string", "uuid", str(_UUID), _UUID.bytes),
        (logical("string", "uuid"), "uuid", _UUID, _UUID.bytes),
        (logical("string", "uuid"), "string", _UUID, str(_UUID)),
        ("bytes", "binary", b"\xff", b"\xff"),
        ("bytes", "string", "é".encode(), "é"),
        ("bytes", "fixed[2]", b"ab", b"ab"),
        (fixed(2), "fixed[2]", b"ab", b"ab"),
        (fixed(2), "binary", b"ab", b"ab"),
        (fixed(16), "uuid", _UUID.bytes, _UUID.bytes),
        (fixed(16, logicalType="uuid"), "uuid", _UUID.bytes, _UUID.bytes),
        ({"type": "enum", "name": "E", "symbols": ["A", "BB"]}, "string", "BB", "BB"),
        (logical("int", "date"), "date", date(1, 1, 1), date(1, 1, 1)),
        (logical("int", "date"), "date", date(9999, 12, 31), date(9999, 12, 31)),
        (logical("int", "time-millis"), "time", time(23, 59, 59, 999000), time(23, 59, 59, 999000)),
        (logical("long", "time-micros"), "time", time(0, 0, 0, 1), time(0, 0, 0, 1)),
        (logical("long", "timestamp-nanos"), "timestamptz", 1000, datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        (logical("long", "timestamp-nanos"), "timestamptz", -1000, _BEFORE_1970),
        (_DECIMAL, "decimal(10, 2)", Decimal("-12345678.90"), Decimal("-12345678.90")),
        (_DECIMAL, "decimal(12, 4)", Decimal("1.25"), Decimal("1.2500")),
        (_DECIMAL, "decimal(3, 1)", Decimal("1.20"), Decimal("1.2")),
        (_DECIMAL, "decimal(38, 2)", Decimal("0.00"), Decimal("0.00")),
        (_FIXED_DECIMAL, "decimal(9, 1)", Decimal("-0.1"), Decimal("-0.1")),
        (["null", "string"], "string", None, None),
        (["string", "null"], "string", "x", "x"),
        (["null", "int", "long"], "long", 2**40, 2**40),
        ("null", "string", None, None),
        ({"type": "array", "items": ["null", "int"]}, "list<int>", [1, None, 2], [1, None, 2]),
        ({"type": "map", "values": "int"}, "map<string, long>", {"a": 1, "": 2}, [("a", 1), ("", 2)]),
        (_STRUCT, "struct<b: string, c: int>", {"a": 1, "b": "x"}, {"b": "x", "c": None}),
        ({"type": "array", "items": "string"}, "list<string>", [], []),
    ],
)
def test_values(writer: Any, column: str, value: Any, wanted: Any) -> None:
    found = read(writer, column, encoded(record(("x", writer)), {"x": value}))
    assert found.bad == ()
    assert found.rows.to_pylist() == [{"x": wanted}]


@pytest.mark.parametrize("zoned", [True, False])
@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_timestamps(zoned: bool, unit: str) -> None:
    writer = logical("long", f"{'' if zoned else 'local-'}timestamp-{unit}")
    column = "timestamptz" if zoned else "timestamp"
    for wanted in (datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999000), datetime(2024, 2, 29, 1)):  # noqa: DTZ001
        instant = wanted.replace(tzinfo=UTC) if zoned else wanted
        found = read(writer, column, encoded(record(("x", writer)), {"x": instant}))
        assert found.rows.to_pylist() == [{"x": instant}]
    iceberg = logical("long", f"timestamp-{unit}") | {"adjust-to-utc": zoned}
    assert not read(iceberg, column, varint(5)).bad


@pytest.mark.parametrize(
    ("writer", "column", "data", "reason"),
    [
        ("long", "int", varint(2**31), "2147483648"),
        ("double", "float", struct.pack("<d", 1e39), "1e[+]39"),
        ("bytes", "string", varint(1) + b"\xff", "no UTF-8"),
        ("bytes", "fixed[2]", varint(1) + b"a", "1 bytes"),
        ("string", "uuid", varint(36) + b"x" * 36, "xxx"),
        ("string", "uuid", varint(0), "''"),
        (logical("int", "date"), "date", varint(2932897), "2932897"),
        (logical("int", "time-millis"), "time", varint(86_400_000), "beyond a day"),
        (logical("long", "time-micros"), "time", varint(-1), "beyond a day"),
        (logical("long", "timestamp-millis"), "timestamptz", varint(2**63 - 1), "years"),
        (logical("long", "timestamp-micros"), "timestamptz", varint(253402300800000000), "years"),
        (logical("long", "timestamp-nanos"), "timestamptz", varint(1001), "nanoseconds"),
        (_DECIMAL, "decimal(3, 2)", varint(2) + b"\x03\xe8", "1000e-2"),
        (_DECIMAL, "decimal(10, 1)", varint(1) + b"\x01", "1e-2"),
        (_DECIMAL, "decimal(38, 38)", varint(1) + b"\x64", "100e-2"),
        (_DECIMAL, "decimal(38, 2)", varint(17) + b"\x01" + b"\0" * 16, "e-2"),
        (_DECIMAL, "decimal(38, 2)", varint(17) + b"\xff\x7f" + b"\0" * 15, "e-2"),
        (_DECIMAL, "decimal(38, 2)", varint(17) + b"\0" + b"\xff" * 16, "e-2"),
        (_DECIMAL, "decimal(38, 2)", varint(17) + b"\xff" + b"\0" * 15 + b"\1", "e-2"),
        (_DECIMAL, "decimal(10, 2)", varint(0), "no bytes"),
        ("string", "long", varint(1) + b"1", "string does not fit long"),
        ("int", "date", varint(1), "int does not fit date"),
        ("long", "timestamptz", varint(1), "long does not fit timestamptz"),
        (logical("long", "timestamp-millis"), "timestamp", varint(1), "does not fit timestamp"),
        (logical("long", "timestamp-millis"), "long", varint(1), "timestamp-millis does not fit long"),
        (_DECIMAL, "binary", varint(1) + b"1", "decimal"),
        ("double", "long", bytes(8), "double does not fit long"),
        (fixed(3), "fixed[2]", b"abc", "fixed"),
        (logical("fixed", "duration", name="D", size=12), "binary", bytes(12), "duration does not fit"),
        ({"type": "array", "items": "null"}, "list<int>", varint(3) + b"\0", "array of null"),
        ("int", "list<int>", varint(1), "does not fit list<int>"),
        (["int", "string"], "int", varint(1) + varint(1) + b"a", "string does not fit int"),
    ],
)
def test_what_does_not_fit(writer: Any, column: str, data: bytes, reason: str) -> None:
    (bad,) = read(writer, column, data).bad
    assert (bad.fault, bad.field) == (Fault.TYPE, "x")
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(bad.reason)
    discarding = Contract(types="discard_value")
    assert read(writer, column, data, discarding).rows.to_pylist() == [{"x": None}]
    assert read(writer, column, data, discarding, required=True).bad[0].fault == Fault.TYPE


@pytest.mark.parametrize(
    ("writer", "column", "data"),
    [
        ("int", "int", varint(2**31)),
        ("int", "long", varint(2**31)),
        ("int", "float", varint(2**31)),
        ("int", "double", varint(-(2**31) - 1)),
        (logical("int", "date"), "date", varint(2**31)),
        ("long", "long", b"\xff" * 9 + b"\x02"),
        ("long", "long", b"\xff" * 10 + b"\x01"),
        ("long", "int", b"\x80"),
        ("boolean", "boolean", b"\x02"),
        ("string", "string", varint(1) + b"\xff"),
        ("string", "string", varint(3) + b"\xed\xa0\x80"),
        ("string", "string", varint(-1)),
        ("string", "string", varint(5) + b"abcd"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", varint(1)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", varint(-1)),
        (["null", "int"], "int", varint(2)),
        (["null", "int"], "int", varint(-1)),
        ({"type": "array", "items": "int"}, "list<int>", varint(2**62)),
        ({"type": "array", "items": "int"}, "list<int>", varint(-(2**63)) + varint(1)),
        ({"type": "map", "values": "int"}, "map<string, int>", varint(2) + b"\x02a\0\x02a\0\0"),
        (fixed(3), "binary", b"ab"),
        ("int", "int", b"\0\0"),
        ("int", "int", b""),
    ],
)
def test_broken(writer: Any, column: str, data: bytes) -> None:
    """Whatever the contract says."""
    for contract in (Contract(), Contract(types="discard_value")):
        (bad,) = read(writer, column, data, contract).bad
        assert bad.fault == Fault.BROKEN


def test_missing_and_null() -> None:
    assert read(["null", "int"], "int", varint(0), required=True).bad[0].fault == Fault.MISSING
    assert read("null", "int", b"", required=True).bad[0].fault == Fault.MISSING
    columns = Schema((Field("y", "int", True),))
    (bad,) = agree(columns, record(("x", "int")), Contract(), [varint(1)]).bad
    assert (bad.fault, bad.field) == (Fault.MISSING, "y")
    (bad,) = agree(columns, record(("y", "int")), Contract(), [None]).bad
    assert (bad.fault, bad.field) == (Fault.EMPTY, None)


def test_blocks_and_their_sizes() -> None:
    """An array in several blocks, some of which say their size; skipping trusts it."""
    writer = {"type": "array", "items": "int"}
    data = varint(-2) + varint(2) + b"\x02\x04" + varint(1) + b"\x06" + b"\0"
    assert read(writer, "list<int>", data).rows.to_pylist() == [{"x": [1, 2, 3]}]
    columns = Schema((Field("y", "int"),))
    both = record(("x", writer), ("y", "int"))
    assert agree(columns, both, Contract(), [data + varint(7)]).rows.to_pylist() == [{"y": 7}]
    for wrong in (
        varint(-2) + varint(99) + b"\x02\x04\0",
        varint(-2) + varint(-1) + b"\0",
        varint(9) + b"\2",
    ):
        assert agree(columns, both, Contract(), [wrong]).bad[0].fault == Fault.BROKEN


def test_elements_without_bytes_cost_nothing() -> None:
    """A count of 2**62 nulls is nine bytes."""
    empty = record(("n", "null"), name="Empty")
    columns = Schema((Field("y", "int"),))
    for items in ("null", empty, fixed(0)):
        both = record(("x", {"type": "array", "items": items}), ("y", "int"))
        data = varint(2**62) + b"\0" + varint(7)
        assert agree(columns, both, Contract(), [data]).rows.to_pylist() == [{"y": 7}]


def test_a_record_inside_itself() -> None:
    """As far as the columns go; deeper it is stepped over, to a bound."""
    node = record(("v", "int"), ("next", ["null", "Node"]), name="Node")
    columns = Schema((Field("v", "int"), Field("next", parse_type("struct<v: int>"))))

    def chain(length: int) -> bytes:
        return b"".join(varint(n) + varint(1) for n in range(length)) + varint(length) + varint(0)

    found = agree(columns, node, Contract(), [chain(0), chain(1), chain(63), chain(64), chain(10_000)])
    assert found.rows.to_pylist()[:2] == [{"v": 0, "next": None}, {"v": 0, "next": {"v": 1}}]
    assert [(bad.index, bad.fault) for bad in found.bad] == [(3, Fault.BROKEN), (4, Fault.BROKEN)]
    tree = record(("v", "int"), ("below", {"type": "array", "items": "Tree"}), name="Tree")
    deep = [(varint(1) + varint(1)) * n + varint(1) + varint(0) + b"\0" * n for n in (31, 32)]
    found = agree(Schema((Field("v", "int"),)), tree, Contract(), deep)
    assert ([bad.index for bad in found.bad], len(found.rows)) == ([1], 1)
    forever = record(("me", "Forever"), name="Forever")
    (bad,) = agree(Schema((Field("v", "int"),)), forever, Contract(), [b""]).bad
    assert bad.fault == Fault.BROKEN


def test_places_of_faults() -> None:
    item = record(("sku", "string"), ("price", "long"), name="Item")
    writer = record(("items", {"type": "array", "items": item}), ("tags", {"type": "map", "values": "long"}))
    columns = Schema(
        (
            Field("items", parse_type("list<struct<sku: string, price: int>>")),
            Field("tags", parse_type("map<string, int>")),
        )
    )
    big = 2**40
    rows: list[dict[str, Any]] = [
        {"items": [{"sku": "a", "price": 1}, {"sku": "b", "price": big}], "tags": {}},
        {"items": [], "tags": {"a": 1, "é": big}},
        {"items": [], "tags": {}},
    ]
    records = [encoded(writer, row) for row in rows]
    found = agree(columns, writer, Contract(), records)
    assert [bad.field for bad in found.bad] == ["items[1].price", 'tags["é"]']
    assert found.rows.to_pylist() == [{"items": [], "tags": []}]


def test_aliases() -> None:
    """A renamed field fills the column of its old name, unless there is one of the new name."""
    writer = record(("new", "int"), ("other", "int"))
    writer["fields"][0]["aliases"] = ["gone", "old"]
    data = [varint(1) + varint(2)]
    for columns, wanted in [
        (("old", "other"), {"old": 1, "other": 2}),
        (("new", "old"), {"new": 1, "old": None}),
        (("old", "gone"), {"old": None, "gone": 1}),
    ]:
        schema = Schema(tuple(Field(name, "int") for name in columns))
        assert agree(schema, writer, Contract(), data).rows.to_pylist() == [wanted]
    # The name of a field that is there is no alias.
    writer["fields"][0]["aliases"] = ["other"]
    found = agree(Schema((Field("other", "int"),)), writer, Contract(), data)
    assert found.rows.to_pylist() == [{"other": 2}]


def test_a_union_of_records() -> None:
    """As topics with several kinds of events have."""
    writer = [record(("a", "int"), name="A"), record(("b", "string"), name="B")]
    columns = Schema((Field("a", "int"), Field("b", "string")))
    found = agree(columns, writer, Contract(), [b"\x00\x02", b"\x02\x02x", b"\x04"])
    assert found.rows.to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert [bad.fault for bad in found.bad] == [Fault.BROKEN]
    assert agree(columns, "string", Contract(), [b"\x02x"]).bad[0].fault == Fault.TYPE


def test_slices_order_and_emptiness() -> None:
    writer = record(("x", "int"))
    columns = Schema((Field("x", "int", True),))
    for native in (True, False):
        reader = decoder(columns, writer, native=native)
        values = pa.array([b"", varint(1), None, varint(2), b"\xff", varint(3)], pa.binary())
        found = reader.decode(raw(values[1:]))
        assert found.rows["x"].to_pylist() == [1, 2, 3]
        assert [(bad.index, bad.fault) for bad in found.bad] == [(1, Fault.EMPTY), (3, Fault.BROKEN)]
        for empty in (values[:0], values[6:], pa.array([], pa.binary())):
            assert len(reader.decode(raw(empty)).rows) == 0
        assert len(reader.decode(raw(pa.array([None] * 70, pa.binary()))).bad) == 70
        with pytest.raises(TypeError, match="binary"):
            reader.decode(raw(pa.array(["x"])))


def test_pickled() -> None:
    reader = pickle.loads(pickle.dumps(decoder(Schema((Field("x", "int"),)), record(("x", "int")))))
    assert reader.decode(raw(pa.array([varint(5)], pa.binary()))).rows.to_pylist() == [{"x": 5}]


def test_settings() -> None:
    columns = Schema((Field("x", "int"),))
    text = json.dumps(record(("x", "int")))
    for wrong in (AvroFormat(), AvroFormat(Registry("http://r"), text)):
        with pytest.raises(InvalidConfig, match="either"):
            AvroDecoder(columns, wrong)
    with pytest.raises(InvalidConfig, match="not an Avro schema"):
        AvroDecoder(columns, AvroFormat(schema="{}"))
    with pytest.raises(InvalidConfig, match="keys are strings"):
        AvroDecoder(Schema((Field("m", parse_type("list<map<int, int>>")),)), AvroFormat(schema=text))
