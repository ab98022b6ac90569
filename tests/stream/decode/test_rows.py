"""Rows of files and tables into the schema: by name, without loss, nested types and contracts included."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, ListType, MapType, Schema, SchemaChange, StructType, parse_type
from frazil.stream.config.model import Contract, ContractWord, ParquetFormat
from frazil.stream.decode.decoded import Decoded, Fault
from frazil.stream.decode.rows import RowsDecoder
from frazil.stream.source import RawBatch


def batch(rows: pa.RecordBatch | None) -> RawBatch:
    numbers = pa.array(range(len(rows or [])), pa.int64())
    return RawBatch("f", 0, pa.nulls(len(rows or []), pa.binary()), numbers, numbers, rows=rows)


def fit(
    schema: Schema,
    rows: pa.RecordBatch,
    columns: ContractWord = "discard_value",
    types: ContractWord = "freeze",
) -> Decoded:
    found = RowsDecoder(schema, ParquetFormat(), Contract(columns=columns, types=types)).decode(batch(rows))
    found.rows.validate(full=True)
    assert found.rows.schema.equals(schema.to_arrow(), check_metadata=True)
    pq.write_table(pa.Table.from_batches([found.rows]), pa.BufferOutputStream())
    return found


def one(kind: str, values: pa.Array, required: bool = False, **contract: ContractWord) -> Decoded:
    schema = Schema((Field("c", parse_type(kind), required),)).with_fresh_ids()
    return fit(schema, pa.record_batch({"c": values}), **contract)


def faults(found: Decoded) -> list[tuple[int, Fault, str | None]]:
    return [(bad.index, bad.fault, bad.field) for bad in found.bad]


UTC = dt.UTC
_MICRO = dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None)
_NAN = float("nan")
LOSSLESS: list[tuple[str, pa.Array, list[Any]]] = [
    ("long", pa.array([1, None, -3], pa.int8()), [1, None, -3]),
    ("int", pa.array([1, 2**31 - 1], pa.int64()), [1, 2**31 - 1]),
    ("long", pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
    ("int", pa.array([1.0, None, -0.0]), [1, None, 0]),
    ("double", pa.array([2**53, -5]), [2.0**53, -5.0]),
    ("double", pa.array([2**53], pa.uint64()), [2.0**53]),
    ("double", pa.array([1.5], pa.float32()), [1.5]),
    ("float", pa.array([1.5, float("inf")]), [1.5, float("inf")]),
    ("decimal(20, 0)", pa.array([2**64 - 1], pa.uint64()), [Decimal(2**64 - 1)]),
    ("decimal(9, 2)", pa.array([Decimal("1.5")], pa.decimal128(4, 1)), [Decimal("1.50")]),
    ("string", pa.array(["é", None], pa.large_string()), ["é", None]),
    ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("fixed[2]", pa.array([b"ab", None], pa.binary()), [b"ab", None]),
    ("uuid", pa.array([b"0" * 16], pa.binary(16)), [b"0" * 16]),
    ("date", pa.array([dt.date(2024, 2, 29)], pa.date64()), [dt.date(2024, 2, 29)]),
    ("time", pa.array([dt.time(1, 2, 3)], pa.time32("s")), [dt.time(1, 2, 3)]),
    ("timestamp", pa.array([1_000], pa.timestamp("ns")), [_MICRO]),
    (
        "timestamptz",
        pa.array([5], pa.timestamp("s", "Asia/Tokyo")),
        [dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)],
    ),
    ("string", pa.nulls(2), [None, None]),
    ("list<long>", pa.array([[1], None, []], pa.large_list(pa.int32())), [[1], None, []]),
    ("list<long>", pa.array([[1, 2]], pa.list_(pa.int32(), 2)), [[1, 2]]),
    ("list<long>", pa.array([[1, 2], None, [], [3]], pa.list_view(pa.int32())), [[1, 2], None, [], [3]]),
    ("list<long>", pa.array([[1], [2, 3]], pa.large_list_view(pa.int32())), [[1], [2, 3]]),
    ("float", pa.array([1.5, None], pa.float16()), [1.5, None]),
]


@pytest.mark.parametrize(("kind", "values", "wanted"), LOSSLESS)
def test_without_loss(kind: str, values: pa.Array, wanted: list[Any]) -> None:
    found = one(kind, values)
    assert found.rows.column(0).to_pylist() == wanted
    assert found.bad == ()
    longer = pa.concat_arrays([values, values])[len(values) :]
    assert one(kind, longer).rows.column(0).to_pylist() == wanted


LOSSY: list[tuple[str, pa.Array, list[Any], list[int]]] = [
    ("int", pa.array([1, 2**31, None, -(2**31) - 1]), [1, None], [1, 3]),
    ("long", pa.array([2**63, 5], pa.uint64()), [5], [0]),
    ("long", pa.array([1.5, 2.0, _NAN, 2.0**63, -(2.0**63)]), [2, -(2**63)], [0, 2, 3]),
    ("double", pa.array([2**53 + 1, 2**63 - 1, 1]), [1.0], [0, 1]),
    ("double", pa.array([2**64 - 1, 1], pa.uint64()), [1.0], [0]),
    ("float", pa.array([1e300, 0.1, 0.5]), [0.5], [0, 1]),
    ("decimal(4, 2)", pa.array([Decimal("123.4"), Decimal("1.2")]), [Decimal("1.20")], [0]),
    ("decimal(4, 2)", pa.array([Decimal("1.255"), None]), [None], [0]),
    ("timestamp", pa.array([1_001, 1_000], pa.timestamp("ns")), [_MICRO], [0]),
    ("timestamp", pa.array([0], pa.timestamp("us", "UTC")), [], [0]),
    ("timestamptz", pa.array([0], pa.timestamp("us")), [], [0]),
    ("time", pa.array([1], pa.time64("ns")), [], [0]),
    ("fixed[2]", pa.array([b"abc", b"ab"]), [b"ab"], [0]),
    ("string", pa.array([1, None]), [None], [0]),
    ("long", pa.array(["1", None]), [None], [0]),
    ("boolean", pa.array([1]), [], [0]),
    ("binary", pa.array(["a"]), [], [0]),
    ("long", pa.array([[1], None]), [None], [0]),
    ("list<long>", pa.array([1]), [], [0]),
    ("list<int>", pa.array([[1, 2**40], [2], None, [2**40]]), [[2], None], [0, 3]),
    ("struct<a: int>", pa.array([{"a": 2**40}, {"a": 1}, None]), [{"a": 1}, None], [0]),
]


@pytest.mark.parametrize(("kind", "values", "wanted", "bad"), LOSSY)
def test_with_loss(kind: str, values: pa.Array, wanted: list[Any], bad: list[int]) -> None:
    found = one(kind, values)
    assert found.rows.column(0).to_pylist() == wanted
    assert [(one.index, one.fault) for one in found.bad] == [(row, Fault.TYPE) for row in bad]
    assert one(kind, values, types="evolve", required=True).rows is not None
    left = one(kind, values, types="discard_value")
    assert left.bad == ()
    assert len(left.rows) == len(values)


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        ("int", pa.array([1]), SchemaChange(("c",), "long", True)),
        ("float", pa.array([1.0]), SchemaChange(("c",), "double", True)),
        (
            "decimal(4, 2)",
            pa.array([Decimal(1)], pa.decimal128(9, 2)),
            SchemaChange(("c",), "decimal(9, 2)", True),
        ),
        ("list<int>", pa.array([[1]]), SchemaChange(("c", "element"), "long", True)),
        ("long", pa.array([1.0]), None),
        ("decimal(4, 2)", pa.array([Decimal(1)], pa.decimal128(9, 3)), None),
        ("long", pa.array([1], pa.int32()), None),
    ],
)
def test_wider_types(kind: str, values: pa.Array, wanted: SchemaChange | None) -> None:
    assert one(kind, values, types="evolve").changes == ((wanted,) if wanted else ())
    assert one(kind, values).changes == ()


NESTED = Schema(
    (
        Field("id", "long", True),
        Field("s", StructType((Field("a", "int", True), Field("b", "string")))),
        Field("l", ListType(StructType((Field("x", "long", True),)), True)),
        Field("m", MapType("string", "long", True)),
    )
).with_fresh_ids()


def test_nested() -> None:
    rows = pa.RecordBatch.from_pylist(
        [
            {"m": [("k", 1)], "s": {"b": "x", "a": 1}, "l": [{"x": 1}, {"x": 2}], "id": 1},
            {"m": None, "s": None, "l": None, "id": 2},
            {"m": [("k", None)], "s": None, "l": [], "id": 3},
            {"m": [], "s": {"b": "x", "a": None}, "l": [], "id": 4},
            {"m": [], "s": None, "l": [{"x": 1}, None], "id": 5},
            {"m": [], "s": None, "l": [{"x": None}], "id": 6},
            {"m": [("a", 1), ("b", 2)], "s": None, "l": [{"x": 7}], "id": None},
            {"m": [("a", 1), ("b", 2)], "s": None, "l": [{"x": 7}], "id": 8},
        ],
        schema=pa.schema(
            [
                ("m", pa.map_(pa.string(), pa.int32())),
                ("s", pa.struct([("b", pa.string()), ("a", pa.int32())])),
                ("l", pa.list_(pa.struct([("x", pa.int32())]))),
                ("id", pa.int64()),
            ]
        ),
    )
    for start in (0, 1):
        found = fit(NESTED, rows[start:])
        assert (
            found.rows.to_pylist()
            == [
                {"id": 1, "s": {"a": 1, "b": "x"}, "l": [{"x": 1}, {"x": 2}], "m": [("k", 1)]},
                {"id": 2, "s": None, "l": None, "m": None},
                {"id": 8, "s": None, "l": [{"x": 7}], "m": [("a", 1), ("b", 2)]},
            ][start:]
        )
        assert faults(found) == [
            (2 - start, Fault.MISSING, "m.value"),
            (3 - start, Fault.MISSING, "s.a"),
            (4 - start, Fault.MISSING, "l.element"),
            (5 - start, Fault.MISSING, "l.element.x"),
            (6 - start, Fault.MISSING, "id"),
        ]


def test_missing_columns() -> None:
    found = fit(NESTED, pa.record_batch({"id": pa.array([1, 2])}))
    assert found.rows.to_pylist() == [{"id": n, "s": None, "l": None, "m": None} for n in (1, 2)]
    found = fit(NESTED, pa.record_batch({"other": pa.array([1, 2])}))
    assert faults(found) == [(0, Fault.MISSING, "id"), (1, Fault.MISSING, "id")]


def test_unknown_columns() -> None:
    schema = Schema((Field("s", parse_type("struct<a: int>")),))
    rows = pa.RecordBatch.from_pylist(
        [
            {"s": {"a": 1, "b": "x"}, "n": None},
            {"s": {"a": 2, "b": None}, "n": 5},
            {"s": {"a": 3, "b": None}},
        ],
        schema=pa.schema(
            [("s", pa.struct([("a", pa.int32()), ("b", pa.string())])), ("n", pa.uint64()), ("z", pa.null())]
        ),
    )
    assert [row["s"]["a"] for row in fit(schema, rows).rows.to_pylist()] == [1, 2, 3]
    assert faults(fit(schema, rows)) == []
    words: list[ContractWord] = ["discard_row", "freeze"]
    for word in words:
        found = fit(schema, rows, columns=word)
        assert found.rows.to_pylist() == [{"s": {"a": 3}}]
        assert faults(found) == [(0, Fault.UNKNOWN_FIELD, "s.b"), (1, Fault.UNKNOWN_FIELD, "n")]
        assert word in found.bad[0].reason
    assert fit(schema, rows, columns="evolve").changes == (
        SchemaChange(("s", "b"), "string"),
        SchemaChange(("n",), "decimal(20, 0)"),
    )


def test_a_new_nested_column() -> None:
    rows = pa.record_batch({"n": pa.array([[{"a": 1, "t": dt.date(2024, 1, 1)}]])})
    found = fit(Schema((Field("c", "int"),)), rows, columns="evolve")
    assert found.changes == (SchemaChange(("n",), parse_type("list<struct<a: long, t: date>>")),)


def test_columns_that_cannot_be() -> None:
    rows = pa.record_batch({"c": pa.array([1, 2]), "C": pa.array([None, 5])})
    found = fit(Schema((Field("c", "long"),)), rows, columns="evolve")
    assert found.changes == ()
    assert faults(found) == [(1, Fault.UNKNOWN_FIELD, "C")]
    assert "only by case" in found.bad[0].reason


def test_records_without_columns() -> None:
    with pytest.raises(InvalidConfig, match="format"):
        RowsDecoder(NESTED, ParquetFormat(), Contract()).decode(batch(None))


def test_pickled() -> None:
    decoder = pickle.loads(pickle.dumps(RowsDecoder(NESTED, ParquetFormat(), Contract())))
    assert len(decoder.decode(batch(pa.record_batch({"id": pa.array([1])}))).rows) == 1
