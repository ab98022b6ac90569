"""Which changes count: those that a source sends again are left out, and a source that was reset is noticed.

A partition is read in log order, and its changes come in the order in which the database committed them. One
below the highest so far was sent again (a connector that restarts goes back a little), unless it is younger
than all of them: then the database counts anew, because it was restored or replaced, and nothing can be
compared any more. Not than the highest alone: databases that tell when a statement began may commit a younger
change first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import BY_COLUMN, Op
from frazil.core.errors import SourceChanged
from frazil.core.stamp import Mark

_Numbers = npt.NDArray[np.int64]
_Truths = npt.NDArray[np.bool_]


def admit(
    order: pa.RecordBatch, mark: Mark | None, where: str
) -> tuple[npt.NDArray[np.int64] | None, Mark | None]:
    """Rows of a batch (by `ORDER`) that count, None for all of them, and the mark behind it.

    Reads, and changes that have no place in the order of commits, always count and do not move the mark.
    SourceChanged: the source was reset; `where` names the partition.
    """
    line = order.column("line")
    ordered = pc.fill_null(pc.not_equal(line, BY_COLUMN), False)
    placed = pc.and_(pc.not_equal(order.column("op"), int(Op.READ)), ordered)
    rows = np.flatnonzero(placed.to_numpy(zero_copy_only=False))
    if not len(rows):
        return None, mark
    offsets = order.column("offset").to_numpy()[rows]
    counted = _line(line.take(pa.array(rows)), mark, offsets, where)
    at = [order.column(name).to_numpy()[rows] for name in ("at0", "at1", "at2")]
    ts = order.column("ts").to_numpy()[rows]
    if mark is not None:
        at = [np.concatenate(([before], after)) for before, after in zip(mark.at, at, strict=True)]
        ts = np.concatenate(([mark.ts], ts))
    below, highest = _below(at)
    if below is None:
        return None, _mark(counted, at, ts, highest)
    _require_replays(below, ts, offsets, where)
    gone = below if mark is None else below[1:]
    kept = np.setdiff1d(np.arange(len(order)), rows[gone])
    return kept, _mark(counted, at, ts, highest)


def raised(mark: Mark | None, at: Mark) -> Mark:
    """The higher of the two, with the younger time; of different lines the newer one."""
    if mark is None or mark.line != at.line:
        return at
    return Mark(at.line, max(mark.at, at.at), max(mark.ts, at.ts))


def mark_at(order: pa.RecordBatch, row: int) -> Mark | None:
    """The place of one change; None: it has none."""
    found = order.slice(row, 1).to_pylist()[0]
    if found["line"] is None:
        return None
    return Mark(found["line"], (found["at0"], found["at1"], found["at2"]), found["ts"])


def not_below(order: pa.Table | pa.RecordBatch, floor: Mark) -> pa.Array:
    """Which changes are not known to be older than the floor."""
    at = [order.column(name).to_numpy() for name in ("at0", "at1", "at2")]
    low = np.zeros(len(order), np.bool_)
    for numbers, bound in zip(reversed(at), reversed(floor.at), strict=True):
        low = (numbers < bound) | ((numbers == bound) & low)
    same = pc.fill_null(pc.equal(order.column("line"), floor.line), False).to_numpy(zero_copy_only=False)
    reads = order.column("op").to_numpy() == int(Op.READ)
    return pa.array(~(low & same & ~reads))


def _line(lines: pa.StringArray, mark: Mark | None, offsets: _Numbers, where: str) -> str:
    """What the changes are counted by: one thing alone."""
    expected = lines[0].as_py() if mark is None else mark.line
    others = np.flatnonzero(pc.not_equal(lines, expected).to_numpy(zero_copy_only=False))
    if len(others):
        found = lines[int(others[0])].as_py()
        raise _reset(
            where, int(offsets[others[0]]), f"its changes were counted by {expected}, and now by {found}"
        )
    return str(expected)


def _below(at: list[_Numbers]) -> tuple[_Truths | None, int]:
    """Which are below one before them (None: none is), and the last row of the highest."""
    first, second, third = (np.diff(numbers) for numbers in at)
    rising = (first > 0) | ((first == 0) & ((second > 0) | ((second == 0) & (third >= 0))))
    if rising.all():
        return None, len(at[0]) - 1
    order = np.lexsort(at[::-1])
    moved = np.zeros(len(order), np.bool_)
    for numbers in at:
        moved[1:] |= np.diff(numbers[order]) != 0
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(moved)
    return rank < np.maximum.accumulate(rank), int(np.flatnonzero(rank == rank.max())[-1])


def _require_replays(below: _Truths, ts: _Numbers, offsets: _Numbers, where: str) -> None:
    younger = np.flatnonzero(below[1:] & (ts[1:] > np.maximum.accumulate(ts)[:-1])) + 1
    if len(younger):
        row = int(younger[0])
        # Counted from the end: the mark may stand before the first change.
        offset = int(offsets[row - len(below)])
        raise _reset(
            where,
            offset,
            "it is younger than all before it and stands before one of them in the database's log",
        )


def _mark(line: str, at: list[_Numbers], ts: _Numbers, row: int) -> Mark:
    return Mark(line, (int(at[0][row]), int(at[1][row]), int(at[2][row])), int(ts.max()))


def _reset(where: str, offset: int, found: str) -> SourceChanged:
    return SourceChanged(
        f"the database behind {where} was reset, restored or failed over: of the change at offset {offset}, "
        f"{found}. Nothing of it was written. Make sure that no change was lost (a new snapshot of the table "
        "is the safe way), then raise `changes.incarnation` of the pipeline by one to go on"
    )
