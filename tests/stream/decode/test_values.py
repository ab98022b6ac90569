"""What each type takes and what it refuses; the same for both decoders."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.stream.decode.conftest import Make

from frazil.core.schema import Field, Schema, arrow_type, parse_type
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.decoded import Undecodable

UUID = "00112233-4455-6677-8899-aAbBcCdDeEfF"
UTC = dt.UTC


def at(*parts: int, zone: dt.tzinfo | None = None) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=zone)  # type: ignore[misc, arg-type]


GOOD: list[tuple[str, str, Any]] = [
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("int", "0", 0),
    ("int", "-0", 0),
    ("int", "2147483647", 2**31 - 1),
    ("int", "-2147483648", -(2**31)),
    ("long", "1", 1),
    ("long", "12345678", 12345678),
    ("long", "1234567890123456", 1234567890123456),
    ("long", "9223372036854775807", 2**63 - 1),
    ("long", "-9223372036854775808", -(2**63)),
    ("float", "1.1", 1.100000023841858),
    ("float", "16777217", 16777216.0),
    ("float", "3.4028235e38", 3.4028234663852886e38),
    ("double", "1", 1.0),
    ("double", "-2.5E+3", -2500.0),
    ("double", "0.1", 0.1),
    ("double", "1e-400", 0.0),
    ("double", "0e99999999999999999999", 0.0),
    ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ("decimal(4, 2)", "1", Decimal("1.00")),
    ("decimal(4, 2)", "-99.99", Decimal("-99.99")),
    ("decimal(4, 2)", "1.5000000", Decimal("1.50")),
    ("decimal(4, 2)", "125e-2", Decimal("1.25")),
    ("decimal(4, 2)", "0.0125E2", Decimal("1.25")),
    ("decimal(4, 2)", '"1.25"', Decimal("1.25")),
    ("decimal(4, 2)", "0e99999999999999999999", Decimal("0.00")),
    ("decimal(4, 2)", "-0.000", Decimal("0.00")),
    ("decimal(38, 0)", "9" * 38, Decimal("9" * 38)),
    ("decimal(38, 0)", "-1e37", Decimal(-(10**37))),
    ("decimal(38, 38)", "0." + "1" * 38, Decimal("0." + "1" * 38)),
    ("string", '""', ""),
    ("string", '"paid"', "paid"),
    ("string", '"exactly sixteen."', "exactly sixteen."),
    (
        "string",
        '"longer than sixteen bytes, and ü with more behind it"',
        "longer than sixteen bytes, and ü with more behind it",
    ),
    ("string", r'"\"\\\/\b\f\n\r\t\u0041\u00e9\u20ac"', '"\\/\b\f\n\r\tAé€'),
    ("string", r'"\ud83d\ude00\uD83D\uDE00"', "😀😀"),
    ("string", r'"\u0000"', "\x00"),
    (
        "string",
        '"\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff"',
        "\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff",
    ),
    ("date", '"1970-01-01"', dt.date(1970, 1, 1)),
    ("date", '"0001-01-01"', dt.date(1, 1, 1)),
    ("date", '"9999-12-31"', dt.date(9999, 12, 31)),
    ("date", '"2000-02-29"', dt.date(2000, 2, 29)),
    ("date", r'"2024\u002d02-29"', dt.date(2024, 2, 29)),
    ("time", '"23:59"', dt.time(23, 59)),
    ("time", '"00:00:01"', dt.time(0, 0, 1)),
    ("time", '"12:00:00.5"', dt.time(12, 0, 0, 500_000)),
    ("time", '"12:00:00.123456000"', dt.time(12, 0, 0, 123_456)),
    ("timestamp", '"2024-02-29T12:00"', at(2024, 2, 29, 12)),
    ("timestamp", '"1969-12-31 23:59:59.999999"', at(1969, 12, 31, 23, 59, 59, 999_999)),
    ("timestamp", '"0001-01-01T00:00:00"', at(1, 1, 1)),
    ("timestamptz", '"9999-12-31T23:59:59.999999Z"', at(9999, 12, 31, 23, 59, 59, 999_999, zone=UTC)),
    ("timestamptz", '"2024-01-01T00:30+01:00"', at(2023, 12, 31, 23, 30, zone=UTC)),
    ("timestamptz", '"2024-01-01T00:00:00-0130"', at(2024, 1, 1, 1, 30, zone=UTC)),
    ("timestamptz", '"2024-01-01 00:00:00.000001+05"', at(2023, 12, 31, 19, 0, 0, 1, zone=UTC)),
    ("uuid", f'"{UUID}"', bytes.fromhex("00112233445566778899aabbccddeeff")),
    ("binary", '""', b""),
    ("binary", '"QQ=="', b"A"),
    ("binary", '"QUI="', b"AB"),
    ("binary", '"+/+/AAAA"', b"\xfb\xff\xbf\0\0\0"),
    ("binary", r'"\u0051\/8="', b"C\xff"),
    ("fixed[2]", '"QUI="', b"AB"),
    ("list<int>", "[]", []),
    ("list<int>", " [ 1 , null,3 ] ", [1, None, 3]),
    ("list<list<string>>", '[["a"],null,[]]', [["a"], None, []]),
    ("map<string, long>", "{}", []),
    ("map<string, long>", '{"a":1,"":null}', [("a", 1), ("", None)]),
    ("map<string, map<string, boolean>>", '{"a":{"b":true}}', [("a", [("b", True)])]),
    ("struct<a: int, b: string>", '{"b":"x","z":[1,{}]}', {"a": None, "b": "x"}),
    ("struct<a: struct<b: list<int>>>", '{"a":{"b":[1]}}', {"a": {"b": [1]}}),
]

BAD: dict[str, list[str]] = {
    "boolean": ["1", '"true"', "True", "tr", "truE", "[]"],
    "int": [
        "2147483648",
        "-2147483649",
        "1.0",
        "1e2",
        '"1"',
        "true",
        "01",
        "+1",
        "-",
        "[1]",
        "123456789012345678901",
    ],
    "long": [
        "9223372036854775808",
        "-9223372036854775809",
        "1.5",
        "1E5",
        "18446744073709551617",
        "- 1",
        "0x10",
        "\u0661",
    ],
    "float": ["3.4028236e38", "-1e39", "NaN", '"1"', "1.", ".5", "1e", "1e+"],
    "double": [
        "1e309",
        "-1.7976931348623159e308",
        "NaN",
        "Infinity",
        "-Infinity",
        '"1.5"',
        "1.e5",
        "00.5",
        "1..2",
        "--1",
    ],
    "decimal(4, 2)": [
        "100",
        "1.001",
        "1e2",
        "1e-3",
        '"1.2 "',
        '"+1"',
        '""',
        '"NaN"',
        '"٣"',
        "1e99999999999999999999",
        "[1]",
        "1e-99999999999",
    ],
    "decimal(38, 0)": ["1" + "0" * 38, "0.5", "1e38"],
    "string": [
        "1",
        "null1",
        '"',
        '"a',
        r'"\x"',
        r'"\u12"',
        r'"\u12G4"',
        r'"\ud83d"',
        r'"\ude00"',
        r'"\ud83dx"',
        r'"\ud83d\u0041"',
        r'"\ude00\ud83d"',
        '"\n"',
        '"\x00"',
        "'a'",
        "[]",
    ],
    "date": [
        '"2023-02-29"',
        '"1900-02-29"',
        '"2024-13-01"',
        '"2024-00-01"',
        '"2024-04-31"',
        '"2024-1-1"',
        '"20240101"',
        '"0000-01-01"',
        '"2024-01-01 "',
        '"2024-01-01T00:00"',
        "19000",
        '"+2024-01-01"',
        '"2024-W01-1"',
        '"\uff12024-01-01"',
    ],
    "time": [
        '"24:00"',
        '"23:60"',
        '"23:59:60"',
        '"1:00"',
        '"12"',
        '"12:00:00."',
        '"12:00:00.1234567"',
        '"12:00:00.0000000000"',
        '"12:00Z"',
        '"12:0a"',
        '"12:00:0"',
        "0",
        '""',
    ],
    "timestamp": [
        '"2024-01-01T00:00:00Z"',
        '"2024-01-01"',
        '"2024-01-01T24:00"',
        '"2024-01-01t00:00"',
        '"2024-01-01T23:59:60"',
        "1700000000",
        '"2024-01-01T00:00:00.0000001"',
        '"2024-02-30T00:00"',
        '"2024-01-01  00:00"',
    ],
    "timestamptz": [
        '"2024-01-01T00:00:00"',
        '"2024-01-01T00:00:00z"',
        '"2024-01-01T00:00+24:00"',
        '"2024-01-01T00:00+1:00"',
        '"2024-01-01T00:00+01:60"',
        '"2024-01-01T00:00 Z"',
        '"0001-01-01T00:00+00:01"',
        '"9999-12-31T23:59:59-00:01"',
        '"2024-01-01T00:00+010"',
        '"2024-01-01T00:00Z "',
        '"2024-01-01T00:00+01.00"',
    ],
    "uuid": [
        '"00112233445566778899aabbccddeeff"',
        f'"{{{UUID}}}"',
        f'"{UUID[:-1]}g"',
        f'"{UUID[:-1]}"',
        f'"{UUID.replace("-", "0")}"',
        "1",
    ],
    "binary": [
        '"Q"',
        '"QQ"',
        '"QQ="',
        '"QQ==="',
        '"QQ===="',
        '"QR=="',
        '"QUJ="',
        '"Q-__"',
        '"QQ==QQ=="',
        '"QQ==\\n"',
        '"===="',
        '"A==="',
        '"é"',
        "1",
        '" QQ="',
    ],
    "fixed[2]": ['"QQ=="', '"QUJD"', '""', "[1, 2]"],
    "list<int>": ["{}", "1", '["1"]', "[1,]", "[,1]", "[1 2]", "[", "[1", "[1}"],
    "map<string, long>": [
        "[]",
        '{"a":1,"a":2}',
        '{"a":"1"}',
        "{1:1}",
        '{"a"}',
        '{"a":1,}',
        '{"\\u0061":1,"a":1}',
        '{"":1,"":2}',
        "{null:1}",
    ],
    "struct<a: int>": [
        "[]",
        "1",
        '{"a":1,"a":1}',
        '{"a":"1"}',
        '{"a":1,"z":01}',
        '{"a":1,"z":"\\ud800"}',
        '{"\\ud800":1}',
        '{"z":tr}',
        '{"z":{]}',
    ],
}


def schema_of(kind: str, required: bool = False) -> Schema:
    return Schema((Field("before", "int"), Field("it", parse_type(kind), required), Field("after", "int")))


def decode(
    make: Make, kind: str, value: str, settings: JsonFormat | None = None, *, required: bool = False
) -> Any:
    decoder = make(schema_of(kind, required), settings or JsonFormat())
    record = f'{{"before":1,"it":{value},"after":2}}'
    batch = decoder.rows(pa.array([record.encode()], pa.binary()))
    batch.validate(full=True)
    assert batch.column("it").type == arrow_type(parse_type(kind))
    [row] = batch.to_pylist()
    assert (row["before"], row["after"]) == (1, 2)
    return row["it"]


@pytest.mark.parametrize(("kind", "value", "wanted"), GOOD)
def test_takes(make: Make, kind: str, value: str, wanted: Any) -> None:
    assert decode(make, kind, value) == wanted


@pytest.mark.parametrize(
    ("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values]
)
def test_refuses(make: Make, kind: str, value: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(make, kind, value)
    assert caught.value.index == 0
    assert caught.value.reason


@pytest.mark.parametrize("kind", BAD)
def test_null(make: Make, kind: str) -> None:
    assert decode(make, kind, "null") is None
    with pytest.raises(Undecodable, match="required") as caught:
        decode(make, kind, "null", required=True)
    assert caught.value.field == "it"


@pytest.mark.parametrize(
    ("unit", "value", "micros"),
    [
        ("s", "1700000000", 1_700_000_000_000_000),
        ("s", "1700000000.123456", 1_700_000_000_123_456),
        ("s", "-1", -1_000_000),
        ("s", "1.7e9", 1_700_000_000_000_000),
        ("ms", "1700000000123", 1_700_000_000_123_000),
        ("ms", "1700000000123.456", 1_700_000_000_123_456),
        ("ms", "1.7E12", 1_700_000_000_000_000),
        ("us", "1700000000123456", 1_700_000_000_123_456),
        ("us", "5.0", 5),
        ("us", "253402300799999999", 253_402_300_799_999_999),
        ("us", "-62135596800000000", -62_135_596_800_000_000),
    ],
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_takes_numbers_as_time(make: Make, kind: str, unit: Any, value: str, micros: int) -> None:
    found = decode(make, kind, value, JsonFormat(unit))
    zone = UTC if kind == "timestamptz" else None
    assert found == at(1970, 1, 1, zone=zone) + dt.timedelta(microseconds=micros)


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("s", "1700000000.1234567"),
        ("s", '"2024-01-01T00:00:00Z"'),
        ("s", "1700000000000"),
        ("ms", "1700000000123.4567"),
        ("ms", '"1700000000123"'),
        ("ms", "253402300800000"),
        ("ms", "99999999999999999999"),
        ("us", "0.5"),
        ("us", "253402300800000000"),
        ("us", "-62135596800000001"),
        ("us", "01"),
        ("us", "1e"),
        ("iso", "1700000000000"),
    ],
)
def test_refuses_numbers_as_time(make: Make, unit: Any, value: str) -> None:
    with pytest.raises(Undecodable) as caught:
        decode(make, "timestamptz", value, JsonFormat(unit))
    if value not in ("01", "1e"):
        assert "timestamps: " in caught.value.reason
        assert value.strip('"')[:20] in caught.value.reason


def test_elements_that_are_required(make: Make) -> None:
    from frazil.core.schema import ListType, MapType

    schema = Schema((Field("l", ListType("int", True)), Field("m", MapType("string", "int", True))))
    decoder = make(schema, JsonFormat())
    records = [b'{"l":[1],"m":{"a":1}}', b'{"l":[1,null]}', b'{"m":{"a":1,"b":null}}', b"{}"]
    batch, bad = decoder.split(pa.array(records, pa.binary()))
    assert batch.to_pylist() == [{"l": [1], "m": [("a", 1)]}, {"l": None, "m": None}]
    assert [(one.index, one.field) for one in bad] == [(1, "l[1]"), (2, 'm["b"]')]
