"""Files of a dataset as others read them: every type, in every format."""

from __future__ import annotations

import csv
import decimal
import io
import json
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type
from frazil.stream.sinks.dataset_formats import file_maker

REF = uuid.UUID(int=7)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
#: Name, type, value, and what JSON says.
COLUMNS: list[tuple[str, Type, Any, Any]] = [
    ("b", "boolean", True, True),
    ("i", "int", -1, -1),
    ("l", "long", 2**60, 2**60),
    ("f", "float", 1.5, 1.5),
    ("d", "double", float("nan"), None),
    ("day", "date", date(2026, 1, 2), "2026-01-02"),
    ("t", "time", time(1, 2, 3), "01:02:03"),
    ("ts", "timestamp", AT.replace(tzinfo=None), "2026-01-02T03:04:05.000006"),
    ("tz", "timestamptz", AT, "2026-01-02T03:04:05.000006Z"),
    ("s", "string", 'a "b", €\n', 'a "b", €\n'),
    ("u", "uuid", REF.bytes, str(REF)),
    ("raw", "binary", b"\x00\xff", "AP8="),
    ("m", "decimal(10, 2)", decimal.Decimal("1.20"), "1.20"),
    ("fix", "fixed[3]", b"abc", "YWJj"),
    (
        "st",
        StructType((Field("u", "uuid"), Field("n", ListType("uuid")))),
        {"u": REF.bytes, "n": [REF.bytes, None]},
        {"u": str(REF), "n": [str(REF), None]},
    ),
    ("li", ListType("timestamptz"), [AT, None], ["2026-01-02T03:04:05.000006Z", None]),
    ("ma", MapType("int", "uuid"), [(1, REF.bytes)], {"1": str(REF)}),
    ("mb", MapType("uuid", "decimal(3, 1)"), [(REF.bytes, decimal.Decimal("1.5"))], {str(REF): "1.5"}),
    ("md", MapType("boolean", "int"), [(True, 1), (False, 2)], {"true": 1, "false": 2}),
    (
        "mc",
        MapType(StructType((Field("u", "uuid"),)), "int"),
        [({"u": REF.bytes}, 1)],
        [{"key": {"u": str(REF)}, "value": 1}],
    ),
]
SCHEMA = Schema(tuple(Field(name, kind) for name, kind, _, _ in COLUMNS))
ROWS: list[dict[str, Any]] = [{name: value for name, _, value, _ in COLUMNS}, {}]
SAID = [{name: said for name, _, _, said in COLUMNS}, dict.fromkeys(SCHEMA.to_arrow().names)]


def made(format_: str, rows: list[dict[str, Any]]) -> bytes:
    maker = file_maker(format_, SCHEMA)
    for row in rows:
        maker.add(pa.RecordBatch.from_pylist([row], schema=SCHEMA.to_arrow()))
    return maker.finish()


def lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize(("format_", "read"), [("json", json.loads), ("jsonl", lines)])
def test_json(format_: str, read: Callable[[bytes], Any]) -> None:
    assert read(made(format_, ROWS)) == SAID
    assert read(made(format_, ROWS[:1])) == SAID[:1]
    assert read(made(format_, [])) == []


def test_csv() -> None:
    first, second = csv.DictReader(io.StringIO(made("csv", ROWS).decode(), newline=""))
    assert (first["s"], first["u"], first["raw"], first["m"]) == ('a "b", €\n', str(REF), "AP8=", "1.20")
    for name in ("st", "li", "ma", "mb", "mc", "md"):
        assert json.loads(first[name]) == SAID[0][name]
    assert set(second.values()) == {""}
    (header,) = csv.reader(io.StringIO(made("csv", []).decode()))
    assert header == SCHEMA.to_arrow().names


def test_parquet() -> None:
    found = pq.read_table(io.BytesIO(made("parquet", ROWS)))
    assert found.drop_columns("d").to_pylist() == [
        {name: row.get(name) for name in SCHEMA.to_arrow().names if name != "d"} for row in ROWS
    ]
    empty = pq.read_table(io.BytesIO(made("parquet", [])))
    assert empty.num_rows == 0
    assert empty.schema.equals(found.schema)
