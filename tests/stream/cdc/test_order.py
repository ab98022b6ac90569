"""Replays are left out, resets are noticed; against the rule applied change by change."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.core.changes import ORDER, Op
from frazil.core.errors import SourceChanged
from frazil.core.stamp import Mark
from frazil.stream.cdc.order import admit, raised

Change = tuple[Op, tuple[int, int, int], int]


def batch(changes: Sequence[Change], line: str | None = "lsn") -> pa.RecordBatch:
    rows = [
        {
            "op": int(op),
            "offset": 100 + number,
            "line": None if op is Op.READ else line,
            "at0": at[0],
            "at1": at[1],
            "at2": at[2],
            "ts": ts,
            "holes": None,
        }
        for number, (op, at, ts) in enumerate(changes)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ORDER)


def one_by_one(changes: Sequence[Change], mark: Mark | None) -> tuple[list[int], Mark | None]:
    kept = []
    for number, (op, at, ts) in enumerate(changes):
        if op is Op.READ:
            kept.append(number)
            continue
        if mark is not None and at < mark.at:
            if ts > mark.ts:
                raise SourceChanged("reset")
            continue
        mark = Mark("lsn", at, ts if mark is None else max(ts, mark.ts))
        kept.append(number)
    return kept, mark


_SMALL = st.integers(0, 3)
_CHANGE = st.tuples(
    st.sampled_from([Op.READ, Op.CREATE, Op.DELETE]), st.tuples(_SMALL, _SMALL, _SMALL), st.integers(0, 2)
)
_MARK = st.none() | st.builds(Mark, st.just("lsn"), st.tuples(_SMALL, _SMALL, _SMALL), st.integers(0, 2))


@settings(max_examples=400, deadline=None)
@given(st.lists(_CHANGE, max_size=8), _MARK)
def test_as_one_by_one(changes: list[Change], mark: Mark | None) -> None:
    try:
        kept, after = one_by_one(changes, mark)
    except SourceChanged:
        with pytest.raises(SourceChanged, match="incarnation"):
            admit(batch(changes), mark, "orders-0")
        return
    found, then = admit(batch(changes), mark, "orders-0")
    assert (list(range(len(changes))) if found is None else found.tolist()) == kept
    assert then == after


def test_a_reset_names_the_offset() -> None:
    changes = [(Op.CREATE, (9, 0, 0), 50), (Op.CREATE, (3, 0, 0), 60)]
    with pytest.raises(SourceChanged, match=r"behind orders-0 was reset.*offset 101"):
        admit(batch(changes), None, "orders-0")
    with pytest.raises(SourceChanged, match="offset 100"):
        admit(batch(changes[1:]), Mark("lsn", (9, 0, 0), 50), "orders-0")


def test_a_long_statement_that_is_committed_last_is_no_reset() -> None:
    """Its change has the highest place and an older time than the one before, which is then sent again."""
    short, long = (Op.UPDATE, (5, 0, 0), 90), (Op.UPDATE, (6, 0, 0), 40)
    _, mark = admit(batch([short, long]), None, "orders-0")
    assert mark == Mark("lsn", (6, 0, 0), 90)
    found, after = admit(batch([short, long]), mark, "orders-0")
    assert found is not None
    assert found.tolist() == [1]
    assert after == mark
    with pytest.raises(SourceChanged, match="younger than all before it"):
        admit(batch([(Op.UPDATE, (5, 0, 0), 91)]), mark, "orders-0")


def test_another_count_is_another_source() -> None:
    mark = Mark("binlog:7", (1, 0, 0), 50)
    with pytest.raises(SourceChanged, match="counted by binlog:7, and now by lsn"):
        admit(batch([(Op.CREATE, (9, 0, 0), 50)]), mark, "orders-0")


def test_without_an_order_all_count() -> None:
    mark = Mark("lsn", (5, 0, 0), 50)
    assert admit(batch([(Op.UPDATE, (1, 0, 0), 60)], line=None), mark, "orders-0") == (None, mark)


def test_a_column_orders_the_changes_of_one_key_only() -> None:
    changes = [(Op.UPDATE, (9, 0, 0), 5), (Op.UPDATE, (1, 0, 0), 60)]
    assert admit(batch(changes, line="column"), None, "orders-0") == (None, None)


def test_raised() -> None:
    low, high, other = Mark("lsn", (1, 0, 0), 9), Mark("lsn", (2, 0, 0), 1), Mark("gtid:0", (0, 0, 0), 1)
    assert raised(None, low) == raised(low, low) == low
    assert raised(low, high) == raised(high, low) == Mark("lsn", (2, 0, 0), 9)
    assert raised(high, other) == other
