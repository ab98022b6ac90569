"""Every encoding of a value, in JSON with schemas and in Avro; the table of docs/cdc-types.md."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from tests.stream.cdc.decode.connect import array, field, mapping, struct
from tests.stream.cdc.decode.messages import all_encodings, columns, decode

from frazil.core.schema import Schema, show_type
from frazil.devstack.registry import SchemaRegistry
from frazil.stream.cdc.changes import Changes
from frazil.stream.decode.decoded import Fault

_T, _D, _C = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."


def _decimal(scale: int, precision: int = 0) -> dict[str, Any]:
    more = {"connect.decimal.precision": str(precision)} if precision else {}
    return field("bytes", f"{_C}Decimal", scale=str(scale), **more)


_VARIABLE = struct(f"{_D}VariableScaleDecimal", scale=field("int32"), value=field("bytes"))
_POINT = struct(
    f"{_D}geometry.Point", x=field("double"), y=field("double"), wkb=field("bytes"), srid=field("int32")
)
_GEOMETRY = struct(f"{_D}geometry.Geometry", wkb=field("bytes"), srid=field("int32"))
_WKB_LINE = bytes.fromhex(
    "0102000000020000000000000000000000000000000000F03F0000000000000040000000000000084000"
)[:41]
_UNSIGNED = field("int64", **{"__debezium.source.column.type": "BIGINT UNSIGNED"})
_NAIVE = datetime(2024, 2, 29, 13, 14, 15, 123456)  # noqa: DTZ001
_MICROS = 1709212455123456
_MILLIS = _NAIVE.replace(microsecond=123000)
_UUID = "11111111-2222-3333-4444-55555555AbCd"

#: Name: Connect's type, a value as it is written, the column's type, and its value there.
_CASES: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "boolean": (field("boolean"), False, "boolean", False),
    "int8": (field("int8"), -128, "int", -128),
    "int16": (field("int16"), 32767, "int", 32767),
    "int32": (field("int32"), -(2**31), "int", -(2**31)),
    "int64": (field("int64"), 2**63 - 1, "long", 2**63 - 1),
    "float": (field("float"), 0.5, "float", 0.5),
    "double": (field("double"), 1e300, "double", 1e300),
    "nan": (field("double"), math.nan, "double", math.nan),
    "infinity": (field("double"), math.inf, "double", math.inf),
    "below": (field("float"), -math.inf, "float", -math.inf),
    "text": (field("string"), "Zürich 🙂", "string", "Zürich 🙂"),
    "bytes": (field("bytes"), b"\xde\xad\xbe\xef", "binary", b"\xde\xad\xbe\xef"),
    "no_bytes": (field("bytes"), b"", "binary", b""),
    "decimal": (_decimal(2, 10), (123456).to_bytes(3), "decimal(10, 2)", Decimal("1234.56")),
    "negative": (_decimal(2, 10), b"\xff", "decimal(10, 2)", Decimal("-0.01")),
    "widest": (_decimal(0, 38), (10**38 - 1).to_bytes(16), "decimal(38, 0)", Decimal(10**38 - 1)),
    "lowest": (
        _decimal(38, 38),
        (1 - 10**38).to_bytes(16, signed=True),
        "decimal(38, 38)",
        Decimal("-0." + "9" * 38),
    ),
    "unlimited": (_decimal(5), (7).to_bytes(1), "decimal(38, 5)", Decimal("0.00007")),
    "too_long": (_decimal(10, 65), (10**50).to_bytes(22), "string", "1" + "0" * 40 + "." + "0" * 10),
    "variable": (_VARIABLE, {"scale": 3, "value": b"\xcf\xc7"}, "string", "-12.345"),
    "variable_long": (_VARIABLE, {"scale": 0, "value": (10**60).to_bytes(26)}, "string", str(10**60)),
    "variable_tiny": (_VARIABLE, {"scale": 20, "value": b"\x01"}, "string", "0.00000000000000000001"),
    "unsigned": (_UNSIGNED, -1, "decimal(20, 0)", Decimal(2**64 - 1)),
    "unsigned_small": (_UNSIGNED, 5, "decimal(20, 0)", Decimal(5)),
    "date": (field("int32", f"{_T}Date"), 19782, "date", date(2024, 2, 29)),
    "connect_date": (field("int32", f"{_C}Date"), -719162, "date", date(1, 1, 1)),
    "iso_date": (field("string", f"{_T}IsoDate"), "2024-02-29Z", "date", date(2024, 2, 29)),
    "time": (field("int32", f"{_T}Time"), 47655123, "time", time(13, 14, 15, 123000)),
    "connect_time": (field("int32", f"{_C}Time"), 47655123, "time", time(13, 14, 15, 123000)),
    "micro_time": (field("int64", f"{_T}MicroTime"), 86399999999, "time", time(23, 59, 59, 999999)),
    "nano_time": (field("int64", f"{_T}NanoTime"), 1000, "time", time(0, 0, 0, 1)),
    "iso_time": (field("string", f"{_T}IsoTime"), "13:14:15.123456Z", "time", time(13, 14, 15, 123456)),
    "zoned_time": (field("string", f"{_T}ZonedTime"), "13:14:15+02:00", "string", "13:14:15+02:00"),
    "timestamp": (field("int64", f"{_T}Timestamp"), _MICROS // 1000, "timestamp", _MILLIS),
    "connect_timestamp": (field("int64", f"{_C}Timestamp"), _MICROS // 1000, "timestamp", _MILLIS),
    "micro_timestamp": (field("int64", f"{_T}MicroTimestamp"), _MICROS, "timestamp", _NAIVE),
    "nano_timestamp": (field("int64", f"{_T}NanoTimestamp"), _MICROS * 1000, "timestamp", _NAIVE),
    "before_1970": (
        field("int64", f"{_T}MicroTimestamp"),
        -1,
        "timestamp",
        datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    ),
    "iso_timestamp": (
        field("string", f"{_T}IsoTimestamp"),
        "2024-02-29T13:14:15.123456Z",
        "timestamp",
        _NAIVE,
    ),
    "zoned": (
        field("string", f"{_T}ZonedTimestamp"),
        "2024-02-29T13:14:15.123456+02:00",
        "timestamptz",
        datetime(2024, 2, 29, 11, 14, 15, 123456, UTC),
    ),
    "zoned_seconds": (
        field("string", f"{_T}ZonedTimestamp"),
        "2024-02-29T13:14:15Z",
        "timestamptz",
        datetime(2024, 2, 29, 13, 14, 15, 0, UTC),
    ),
    "year": (field("int32", f"{_T}Year"), 2024, "int", 2024),
    "interval": (field("string", f"{_T}Interval"), "P1Y2M3DT4H5M6.7S", "string", "P1Y2M3DT4H5M6.7S"),
    "duration": (field("int64", f"{_T}MicroDuration"), -93784000000, "long", -93784000000),
    "nano_duration": (field("int64", f"{_T}NanoDuration"), 5, "long", 5),
    "uuid": (field("string", f"{_D}Uuid"), _UUID, "uuid", UUID(_UUID).bytes),
    "json": (field("string", f"{_D}Json"), '{"a": [1]}', "string", '{"a": [1]}'),
    "enum": (field("string", f"{_D}Enum", allowed="x,y"), "x", "string", "x"),
    "set": (field("string", f"{_D}EnumSet", allowed="p,q"), "p,q", "string", "p,q"),
    "xml": (field("string", f"{_D}Xml"), "<a/>", "string", "<a/>"),
    "ltree": (field("string", f"{_D}Ltree"), "a.b", "string", "a.b"),
    "bits": (field("bytes", f"{_D}Bits", length="10"), b"\x01\x02", "string", "1000000001"),
    "point": (_POINT, {"x": 1.5, "y": -2.0, "wkb": b"", "srid": None}, "string", "POINT(1.5 -2)"),
    "line": (_GEOMETRY, {"wkb": _WKB_LINE, "srid": 4326}, "string", "SRID=4326;LINESTRING(0 1, 2 3)"),
    "array": (array(field("int32")), [1, None, 3], "list<int>", [1, None, 3]),
    "empty": (array(field("string")), [], "list<string>", []),
    "decimals": (array(_decimal(1, 3)), [b"\x0f", None], "list<decimal(3, 1)>", [Decimal("1.5"), None]),
    "days": (array(field("int32", f"{_T}Date")), [0], "list<date>", [date(1970, 1, 1)]),
    "hstore": (
        mapping(field("string")),
        {"a": "1", "b": None},
        "map<string, string>",
        [("a", "1"), ("b", None)],
    ),
    "nested": (
        struct("n.S", when=field("int64", f"{_T}Timestamp"), amount=_decimal(2, 5)),
        {"when": 0, "amount": b"\x64"},
        "struct<when: timestamp, amount: decimal(5, 2)>",
        {"when": datetime(1970, 1, 1), "amount": Decimal("1.00")},  # noqa: DTZ001
    ),
}
_ROW = struct("t.Value", **{name: case[0] for name, case in _CASES.items()})


@pytest.fixture(scope="module", params=["json", "avro"])
def found(request: pytest.FixtureRequest, registry: SchemaRegistry) -> tuple[Schema, Changes]:
    values = {name: case[1] for name, case in _CASES.items()}
    rows = [values, dict.fromkeys(values), values]
    raw, settings = all_encodings(registry, "cdc-types", _ROW, rows)[request.param]
    shape = decode(raw, None, settings).shape
    assert shape is not None
    # New columns have times of day as text; whoever wants a time can have it.
    times = {name for name, (_, _, kind, _) in _CASES.items() if kind == "time"}
    assert {field.name for field in shape.columns if field.type == "string"} >= times
    fields = (replace(field, type="time") if field.name in times else field for field in shape.columns)
    schema = Schema(tuple(fields)).with_fresh_ids()
    return schema, decode(raw, schema, settings)


@pytest.mark.parametrize("name", _CASES)
def test_values(found: tuple[Schema, Changes], name: str) -> None:
    schema, changes = found
    _, _, kind, value = _CASES[name]
    assert show_type(schema.field(name).type) == kind
    assert not changes.bad
    first, none, last = changes.rows.column(name).to_pylist()
    assert none is None
    if value != value:
        assert math.isnan(first)
    else:
        assert first == value
        assert last == value


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_types_that_a_table_can_follow(registry: SchemaRegistry, encoding: str) -> None:
    """Asked for, before a row is read; wherever they stand."""
    inner = struct("t.In", a=field("int64"), b=field("string"))
    row = struct(
        "t.Value", i=field("int64"), f=field("double"), d=_decimal(2, 12), l=array(field("int64")), s=inner
    )
    raw, settings = all_encodings(registry, "cdc-wider", row, [dict.fromkeys("ifdls")])[encoding]
    schema = columns(i="int", f="float", d="decimal(10, 2)", l="list<int>", s="struct<a: int>", x="string")
    shape = decode(raw, schema, settings).shape
    assert shape is not None
    assert [(one.name, show_type(one.type), one.id) for one in shape.columns] == [
        ("i", "long", 1),
        ("f", "double", 2),
        ("d", "decimal(12, 2)", 3),
        ("l", "list<long>", 4),
        ("s", "struct<a: long, b: string>", 5),
        ("x", "string", 6),
    ]
    # Into types that are as wide, or that no change could widen, they go as they are.
    wide = columns(i="long", f="double", d="decimal(38, 2)", l="list<long>", s="struct<a: long, b: string>")
    assert decode(raw, wide, settings).shape is None
    other = columns(i="string", f="string", d="decimal(8, 3)", l="string", s="struct<a: string, b: string>")
    assert decode(raw, other, settings).shape is None


_AT = "2024-02-29T13:14:15.123456"
#: Name: Connect's type, a value as it is written, another type of column, and its value there; None: bad.
_INTO: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "int_long": (field("int32"), 5, "long", 5),
    "int_double": (field("int32"), 5, "double", 5.0),
    "long_double": (field("int64"), 2**53, "double", 2.0**53),
    "long_double_far": (field("int64"), 2**53 + 1, "double", None),
    "int_decimal": (field("int32"), -5, "decimal(5, 2)", Decimal("-5.00")),
    "int_decimal_far": (field("int32"), 1000, "decimal(5, 2)", None),
    "int_boolean": (field("int16"), 1, "boolean", True),
    "int_boolean_far": (field("int16"), 2, "boolean", None),
    "int_text": (field("int32"), -7, "string", "-7"),
    "int_date": (field("int32"), 5, "date", None),
    "float_double": (field("float"), 0.1, "double", 0.10000000149011612),
    "double_decimal": (field("double"), 0.5, "decimal(3, 1)", None),
    "double_text": (field("double"), 0.5, "string", "0.5"),
    "boolean_text": (field("boolean"), True, "string", "true"),
    "boolean_int": (field("boolean"), True, "int", None),
    "decimal_longer": (_decimal(2, 5), b"\x64", "decimal(12, 4)", Decimal("1.0000")),
    "decimal_shorter": (_decimal(2, 12), b"\x64", "decimal(3, 0)", Decimal(1)),
    "decimal_lost": (_decimal(2, 12), b"\x65", "decimal(3, 0)", None),
    "decimal_far": (_decimal(2, 5), (100_000).to_bytes(3), "decimal(5, 2)", None),
    "decimal_far_below": (_decimal(2, 5), (-100_000).to_bytes(3, signed=True), "decimal(5, 2)", None),
    "decimal_most": (_decimal(2, 5), (99_999).to_bytes(3), "decimal(5, 2)", Decimal("999.99")),
    "decimal_binary": (_decimal(2, 5), b"\x64", "binary", None),
    "decimal_long": (_decimal(2, 12), b"\x64", "long", 1),
    "decimal_text": (_decimal(8, 12), b"\x01", "string", "0.00000001"),
    "decimal_double": (_decimal(1, 12), b"\x01", "double", None),
    "text_decimal": (field("string"), "-12.50", "decimal(5, 2)", Decimal("-12.50")),
    "text_decimal_lost": (field("string"), "1.234", "decimal(5, 2)", None),
    "text_nan": (field("string"), "NaN", "decimal(5, 2)", None),
    "text_int": (field("string"), "5", "int", None),
    "text_uuid": (field("string"), _UUID, "uuid", UUID(_UUID).bytes),
    "text_no_uuid": (field("string"), "x" * 36, "uuid", None),
    "uuid_text": (field("string", f"{_D}Uuid"), _UUID, "string", _UUID),
    "variable_decimal": (_VARIABLE, {"scale": 1, "value": b"\x0f"}, "decimal(6, 3)", Decimal("1.500")),
    "variable_lost": (_VARIABLE, {"scale": 5, "value": b"\x0f"}, "decimal(6, 3)", None),
    "unsigned_long": (_UNSIGNED, 7, "long", 7),
    "unsigned_long_far": (_UNSIGNED, -1, "long", None),
    "unsigned_text": (_UNSIGNED, -1, "string", str(2**64 - 1)),
    "long_unsigned": (field("int64"), -1, "decimal(20, 0)", Decimal(2**64 - 1)),
    "date_text": (field("int32", f"{_T}Date"), 19782, "string", "2024-02-29"),
    "date_int": (field("int32", f"{_T}Date"), 19782, "int", 19782),
    "date_far": (field("int32", f"{_T}Date"), 2932897, "date", None),
    "infinite_date": (field("int32", f"{_T}Date"), -2147472692, "date", None),
    "time_text": (field("int64", f"{_T}MicroTime"), 1, "string", "00:00:00.000001"),
    "time_negative": (field("int64", f"{_T}MicroTime"), -1, "time", None),
    "time_long": (field("int64", f"{_T}MicroTime"), -1, "long", -1),
    "day": (field("int32", f"{_T}Time"), 86400000, "time", None),
    "timestamp_text": (field("int64", f"{_T}MicroTimestamp"), _MICROS, "string", _AT),
    "infinite": (field("int64", f"{_T}MicroTimestamp"), 9223372036825200000, "timestamp", None),
    "infinite_ms": (field("int64", f"{_T}Timestamp"), 9223372036825200, "timestamp", None),
    "between": (field("int64", f"{_T}NanoTimestamp"), 1001, "timestamp", None),
    "zoned_infinite": (field("string", f"{_T}ZonedTimestamp"), "infinity", "timestamptz", None),
    "zoned_text": (field("string", f"{_T}ZonedTimestamp"), "infinity", "string", "infinity"),
    "zoned_between": (field("string", f"{_T}ZonedTimestamp"), f"{_AT}789Z", "timestamptz", None),
    "zoned_far": (field("string", f"{_T}ZonedTimestamp"), "+10000-01-01T00:00:00Z", "timestamptz", None),
    "bytes_fixed": (field("bytes"), b"ab", "fixed[2]", b"ab"),
    "bytes_fixed_short": (field("bytes"), b"a", "fixed[2]", None),
    "bytes_text": (field("bytes"), b"\xde\xad", "string", "3q0="),
    "bits_binary": (field("bytes", f"{_D}Bits", length="10"), b"\x01\x02", "binary", b"\x01\x02"),
    "array_wider": (array(field("int32")), [1, 2], "list<long>", [1, 2]),
    "array_text": (array(field("int32")), [1], "string", None),
    "array_lost": (array(_decimal(1, 3)), [b"\x0f"], "list<int>", None),
    "no_geometry": (_GEOMETRY, {"wkb": b"\x01", "srid": None}, "string", None),
}


@pytest.fixture(scope="module", params=["json", "avro"])
def others(request: pytest.FixtureRequest, registry: SchemaRegistry) -> Changes:
    """A record for each of them, with that value alone."""
    row = struct("t.Value", id=field("int32"), **{name: case[0] for name, case in _INTO.items()})
    rows = [{"id": place, name: case[1]} for place, (name, case) in enumerate(_INTO.items())]
    raw, settings = all_encodings(registry, "cdc-into", row, rows)[request.param]
    schema = columns(id="int", **{name: case[2] for name, case in _INTO.items()})
    changes = decode(raw, schema, settings)
    assert changes.shape is None
    assert changes.rows.schema == pa.schema(schema.to_arrow())
    return changes


@pytest.mark.parametrize("name", _INTO)
def test_other_types(others: Changes, name: str) -> None:
    """Into a column of another type: what loses nothing goes in, all else makes the record bad."""
    place, expected = list(_INTO).index(name), _INTO[name][3]
    bad = {one.index: one for one in others.bad}
    if expected is None:
        assert bad[place].fault == Fault.TYPE
        assert (bad[place].field or "").startswith(name)
        assert show_type(columns(v=_INTO[name][2]).field("v").type) in bad[place].reason or "[]" in str(
            bad[place]
        )
    else:
        assert str(bad.get(place, "good")) == "good"
    found = {row["id"]: row for row in others.rows.to_pylist()}
    assert (place in found) is (expected is not None)
    if expected is not None:
        assert {key: one for key, one in found[place].items() if one is not None} == {
            "id": place,
            name: expected,
        }
