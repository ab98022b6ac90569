from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.stream.fingerprint import Fingerprint

LISTS = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False, None]),
    (pa.int32(), [0, 1, -1, None]),
    (pa.int64(), [0, 1 << 60, -(1 << 60), None]),
    (pa.float32(), [0.0, 1.5, -1.5, None]),
    (pa.float64(), [0.0, 1e300, float("inf"), None]),
    (pa.decimal128(38, 2), [Decimal("0.00"), Decimal("-1.25"), Decimal(10**30), None]),
    (pa.string(), ["", "a", "aa", "a\0", None]),
    (pa.binary(), [b"", b"\0", b"\xff", None]),
    (pa.binary(3), [b"abc", b"abx", None]),
    (pa.uuid(), [bytes(16), bytes(range(16)), None]),
    (pa.date32(), [dt.date(1970, 1, 1), dt.date(2026, 1, 1), None]),
    (pa.time64("us"), [dt.time(0), dt.time(1), None]),
    (pa.timestamp("us", "UTC"), [0, 1, -1, None]),
    (pa.list_(pa.int64()), [[], [0], [0, 0], [1, 2], [2, 1], [None], None]),
    (LISTS, [[], [{"x": 1, "y": "a"}], [{"x": None, "y": "a"}], [None], None]),
    (
        pa.map_(pa.string(), pa.int64()),
        [[], [("a", 1)], [("a", 2)], [("b", 1)], [("a", None)], [("a", 1), ("b", 1)], None],
    ),
    (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": "1"}, None]),
]


def batch(kind: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["c"])


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda found: str(found)[:20])
def test_every_value_counts(kind: pa.DataType, values: list[Any]) -> None:
    totals = [Fingerprint.of(batch(kind, [value])).total for value in values]
    assert len(set(totals)) == len(values)
    whole = Fingerprint.of(batch(kind, values))
    assert whole == Fingerprint(len(values), sum(totals) % 2**64)
    # A part of a larger batch is what it is, wherever it lies in memory.
    assert Fingerprint.of(batch(kind, values).slice(1, 2)).total == sum(totals[1:3]) % 2**64


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.text(max_size=5)),
        st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=3),
    ),
    max_size=20,
)
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.binary()))])


def table(found: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip("abc", row, strict=True)) for row in found], SCHEMA)


@given(rows, rows, st.randoms())
def test_order_and_cuts_do_not_count_and_all_else_does(one: list[Any], two: list[Any], random: Any) -> None:
    whole = Fingerprint.of(table([*one, *two]))
    mixed = [*one, *two]
    random.shuffle(mixed)
    assert Fingerprint.of(table(mixed)) == whole
    assert Fingerprint.of(table(one)) + Fingerprint.of(table(two)) == whole
    if sorted(map(repr, one)) != sorted(map(repr, two)):
        assert Fingerprint.of(table(one)) != Fingerprint.of(table(two))


def test_values_of_two_columns_do_not_trade_places() -> None:
    names = ["a", "b"]
    one = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=names)
    two = pa.RecordBatch.from_arrays([pa.array([1, 2]), pa.array([4, 3])], names=names)
    assert Fingerprint.of(one) != Fingerprint.of(two)


def test_twice_the_same_row_is_not_no_row() -> None:
    twice = Fingerprint.of(batch(pa.int64(), [5, 5]))
    assert twice.rows == 2
    assert twice.total not in (0, Fingerprint.of(batch(pa.int64(), [5])).total)


def test_maps_have_no_order() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    one = Fingerprint.of(batch(kind, [[("a", 1), ("b", 2)]]))
    assert one == Fingerprint.of(batch(kind, [[("b", 2), ("a", 1)]]))
