"""Rows that did not change, and updates: against a count by hand, on random rows."""

from __future__ import annotations

import math
import random
import uuid
from collections import Counter
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from frazil.lake import changelog_pairs
from frazil.lake.changelog import told
from frazil.lake.changelog_pairs import KEY_DIGEST, ROW_DIGEST, complete, paired, paired_all, slots
from frazil.lake.changelog_rows import SignedRows
from frazil.lake.changelog_units import Commit
from frazil.lake.row_bytes import digests, row_bytes

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [0, 1, -1, None]),
    "text": (pa.string(), ["", "a", "ab", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "double": (pa.float64(), [math.nan, 0.0, -0.0, 1.5, math.inf, None]),
    "float": (pa.float32(), [math.nan, 0.0, 1.5, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("1.20"), Decimal("-1.20"), Decimal(0), None]),
    "date": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1), None]),
    "time": (pa.time64("us"), [time(1, 2, 3), time(0), None]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC), None],
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=1), uuid.UUID(int=2), None]),
    "fixed": (pa.binary(3), [b"abc", b"\0\0\0", None]),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        [{"a": 1, "b": None}, {"a": None, "b": "1"}, {"a": None, "b": None}, None],
    ),
    "list": (pa.list_(pa.string()), [["ab", "c"], ["a", "bc"], ["abc"], [], [None], None]),
    "lists": (pa.list_(pa.list_(pa.int64())), [[[1], [2]], [[1, 2]], [[], [1, 2]], None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", 2)], [("a", 1)], [("b", None)], [], None]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_bytes_are_equal_where_values_are(kind: str) -> None:
    arrow, values = VALUES[kind]
    array = pa.array([values[0], *values], arrow)
    codes = row_bytes([array.slice(1)], len(values)).to_pylist()
    assert len(set(codes)) == len(values)
    twice = row_bytes([pa.concat_arrays([array, array]).slice(1)], 2 * len(values) + 1).to_pylist()
    assert twice == [*codes, codes[0], *codes]


def test_what_is_equal_and_does_not_look_so() -> None:
    maps = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int64()))
    nans = pa.array(np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64))
    # What a null hides is not a part of it.
    hidden = pa.Array.from_buffers(
        pa.int64(), 2, [pa.py_buffer(b"\0"), pa.py_buffer(np.array([1, 2], np.int64).tobytes())]
    )
    rows = row_bytes([maps, nans, hidden], 2).to_pylist()
    assert rows[0] == rows[1]
    assert row_bytes([], 2).to_pylist() == [b"", b""]
    lengths = row_bytes([pa.array(["a", "ab"]), pa.array(["bc", "c"])], 2).to_pylist()
    assert lengths[0] != lengths[1]


def events(rng: random.Random, count: int, commits: int) -> list[tuple[int, str, int, bool]]:
    """Key, word, commit, came."""
    return [
        (rng.randrange(8), rng.choice("abc"), rng.randrange(commits), rng.random() < 0.5)
        for _ in range(count)
    ]


def batches(rows: list[tuple[int, str, int, bool]], keyed: bool) -> list[pa.RecordBatch]:
    made = []
    for key, word, number, came in rows:
        columns = [pa.array([key], pa.int64()), pa.array([word])]
        signed = SignedRows(
            pa.RecordBatch.from_arrays(columns, ["id", "word"]), np.array([came]), np.array([0])
        )
        batch = told(Commit(number + 100, number, number, None, ()), signed)
        whole = digests(columns, 1)
        mine = digests(columns[:1], 1) if keyed else whole
        made.append(
            pa.RecordBatch.from_arrays(
                [*batch.columns, whole, mine], [*batch.schema.names, ROW_DIGEST, KEY_DIGEST]
            )
        )
    return made


def check(
    rows: list[tuple[int, str, int, bool]], found: list[dict[str, Any]], keyed: bool, net: bool
) -> None:
    balance, left = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for key, word, number, came in rows:
        balance[key, word, 0 if net else number] += 1 if came else -1
    for number, row in enumerate(found):
        came = row["_change_type"] in ("INSERT", "UPDATE_AFTER")
        place = (row["id"], row["word"], 0 if net else row["_change_ordinal"])
        left[place] += 1 if came else -1
        assert row["_commit_snapshot_id"] == row["_change_ordinal"] + 100
        if row["_change_type"] == "UPDATE_BEFORE":
            after = found[number + 1]
            assert after["_change_type"] == "UPDATE_AFTER"
            assert [row[name] for name in ("id", "_change_ordinal")] == [
                after[name] for name in ("id", "_change_ordinal")
            ]
    assert {key: count for key, count in left.items() if count} == {
        key: count for key, count in balance.items() if count
    }
    assert len(found) == sum(map(abs, balance.values()))
    kinds = Counter((row["_change_type"], row["id"], 0 if net else row["_change_ordinal"]) for row in found)
    assert keyed or not any(kind.startswith("UPDATE") for kind, _, _ in kinds)
    if keyed:
        assert not any(kinds["INSERT", key, at] for kind, key, at in list(kinds) if kind == "DELETE")


@pytest.mark.parametrize("net", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_pairs(keyed: bool, net: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(30):
        rng = random.Random(seed)
        rows = events(rng, rng.randrange(60), rng.choice([1, 3]))
        made = batches(rows, keyed)
        monkeypatch.setattr(changelog_pairs, "IN_MEMORY", rng.choice([5, 1000]))
        tables = list(paired_all(iter(made), len(made), keyed=keyed, net=net))
        check(rows, [row for table in tables for row in table.to_pylist()], keyed, net)
        places = [place for table in tables for place in slots(table.column(KEY_DIGEST), 1000).tolist()]
        assert places == sorted(places)
        if made:
            ordered = pa.Table.from_batches(made).sort_by(KEY_DIGEST)
            pieces = complete(ordered.to_batches(max_chunksize=rng.choice([1, 2, 7])))
            again = [row for piece in pieces for row in paired(piece, keyed=keyed, net=net).to_pylist()]
            check(rows, again, keyed, net)


def test_the_latest_of_equal_rows_is_told() -> None:
    rows = [(1, "a", 0, False), (1, "a", 1, True), (1, "a", 2, False)]
    table = pa.Table.from_batches(batches(rows, False))
    (row,) = paired(table, keyed=False, net=True).to_pylist()
    assert (row["_change_type"], row["_change_ordinal"]) == ("DELETE", 2)
