"""Which values of Protobuf each type takes, and which it refuses; the same for both decoders."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest
from tests.stream.decode.protobuf_trial import ENUM, Read, columns, faults, message, reader, settings_of

from frazil.stream.config.model import Contract
from frazil.stream.decode.decoded import Fault


@pytest.fixture(params=["native", "reference"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Read:
    return reader(request.param, monkeypatch)


UUID = "00112233-4455-6677-8899-aabbccddeeff"
JUST_BEFORE = dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
VALUES: list[tuple[str, str, Any, Any]] = [
    ("bool", "boolean", True, True),
    ("int32", "int", -(2**31), -(2**31)),
    ("int32", "long", -1, -1),
    ("int64", "long", 2**63 - 1, 2**63 - 1),
    ("int64", "int", -5, -5),
    ("int64", "decimal(21, 2)", -(2**63), Decimal(-(2**63)).scaleb(0)),
    ("sint32", "int", -(2**31), -(2**31)),
    ("sint64", "long", -(2**63), -(2**63)),
    ("uint32", "long", 2**32 - 1, 2**32 - 1),
    ("uint64", "decimal(20, 0)", 2**64 - 1, Decimal(2**64 - 1)),
    ("uint64", "long", 2**63 - 1, 2**63 - 1),
    ("fixed32", "long", 2**32 - 1, 2**32 - 1),
    ("fixed64", "decimal(20, 0)", 2**64 - 1, Decimal(2**64 - 1)),
    ("sfixed32", "int", -7, -7),
    ("sfixed64", "long", -7, -7),
    ("float", "float", 1.5, 1.5),
    ("float", "double", 0.10000000149011612, 0.10000000149011612),
    ("double", "double", 0.1, 0.1),
    ("double", "float", 0.1, 0.10000000149011612),
    ("double", "double", -math.inf, -math.inf),
    ("double", "float", math.inf, math.inf),
    ("string", "string", "é😀", "é😀"),
    ("string", "date", "2024-02-29", dt.date(2024, 2, 29)),
    ("string", "time", "12:00:01", dt.time(12, 0, 1)),
    ("string", "timestamptz", "2024-02-29T13:00:00+01:00", NOON),
    ("string", "uuid", UUID, bytes.fromhex(UUID.replace("-", ""))),
    ("string", "decimal(4, 2)", "-1.5", Decimal("-1.50")),
    ("bytes", "binary", b"\xff\x00", b"\xff\x00"),
    ("bytes", "fixed[2]", b"ab", b"ab"),
    ("bytes", "uuid", b"0" * 16, b"0" * 16),
    ("Kind", "string", 1, "NEW"),
    ("Kind", "string", 5, "5"),
    ("Kind", "int", -3, -3),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": 1709208000}, NOON),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": -1, "nanos": 999_999_000}, JUST_BEFORE),
    (
        "google.protobuf.Timestamp",
        "struct<nanos: int, seconds: long>",
        {"seconds": 5, "nanos": 1},
        {"nanos": 1, "seconds": 5},
    ),
    ("google.protobuf.Duration", "long", {"seconds": -1, "nanos": -5000}, -1_000_005),
    ("google.protobuf.Int64Value", "long", {"value": 7}, 7),
    ("google.protobuf.Int64Value", "long", {}, 0),
    ("google.protobuf.StringValue", "string", {}, ""),
    ("google.protobuf.UInt64Value", "decimal(20, 0)", {"value": 2**64 - 1}, Decimal(2**64 - 1)),
    ("google.protobuf.BytesValue", "binary", {"value": b"x"}, b"x"),
    ("google.protobuf.DoubleValue", "struct<value: double>", {"value": 1.5}, {"value": 1.5}),
]


@pytest.mark.parametrize(("kind", "column", "given", "wanted"), VALUES)
def test_values(read: Read, kind: str, column: str, given: Any, wanted: Any) -> None:
    form = settings_of(
        f"optional {kind} x = 1; repeated {kind} many = 2; map<string, {kind}> named = 3;", ENUM
    )
    schema = columns(x=column, many=f"list<{column}>", named=f"map<string, {column}>")
    found = read(schema, form, [message(form, x=given, many=[given, given], named={"k": given}), b""])
    assert found.bad == ()
    assert found.rows.to_pylist() == [
        {"x": wanted, "many": [wanted, wanted], "named": [("k", wanted)]},
        {"x": None, "many": [], "named": []},
    ]


WRONG: list[tuple[str, str, Any]] = [
    ("int64", "int", 2**31),
    ("uint32", "int", 2**31),
    ("uint64", "long", 2**63),
    ("fixed64", "int", 2**63),
    ("int64", "decimal(3, 1)", 100),
    ("double", "float", 1e300),
    ("string", "date", "2023-02-29"),
    ("string", "uuid", "x"),
    ("bytes", "fixed[2]", b"abc"),
    ("bytes", "uuid", b"abc"),
    ("google.protobuf.Timestamp", "timestamptz", {"nanos": 1}),
    ("google.protobuf.Timestamp", "timestamptz", {"nanos": -1000}),
    ("google.protobuf.Timestamp", "timestamptz", {"nanos": 10**9}),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": 253_402_300_800}),
    ("google.protobuf.Timestamp", "timestamptz", {"seconds": -62_135_596_801}),
    ("google.protobuf.Duration", "long", {"seconds": 1, "nanos": -1000}),
    ("google.protobuf.Duration", "long", {"nanos": 5}),
    ("google.protobuf.Int64Value", "int", {"value": 2**40}),
    ("int64", "string", 1),
    ("string", "long", "1"),
    ("bool", "int", True),
    ("Inner", "string", {}),
    ("string", "struct<a: int>", "x"),
]


@pytest.mark.parametrize(("kind", "column", "given"), WRONG)
def test_wrong_values(read: Read, kind: str, column: str, given: Any) -> None:
    form = settings_of(
        f"optional {kind} x = 1; repeated {kind} many = 2; map<string, {kind}> named = 3; int32 id = 4;",
        "message Inner { int32 a = 1; }",
    )
    schema = columns(x=column, many=f"list<{column}>", named=f"map<string, {column}>", id="int")
    records: list[bytes | None] = [
        message(form, id=1),
        message(form, id=2, x=given),
        message(form, id=3, many=[given]),
        message(form, id=4, named={"k": given}),
        message(form, id=5),
    ]
    found = read(schema, form, records)
    assert found.rows["id"].to_pylist() == [1, 5]
    assert [one[:2] for one in faults(found)] == [(1, Fault.TYPE), (2, Fault.TYPE), (3, Fault.TYPE)]
    assert found.bad[0].field == "x"
    left = read(schema, form, records, Contract(types="discard_value"))
    assert left.bad == ()
    assert left.rows["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert left.rows["x"].to_pylist()[1] is None
