"""Values that a change left out are those that the row had before, in the same round or in the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.changes import Op

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Filled:
    """Rows whose holes are filled as far as the round can."""

    rows: pa.Table
    #: What is left of them, as in `ORDER`; null: nothing.
    holes: pa.BinaryArray
    #: For each row one of the changes of the key that the table has the rest under.
    origins: _Numbers


@dataclass(frozen=True)
class _State:
    """A row in the middle of its changes: by column the change that has its value, -1 for the table's."""

    values: _Numbers
    #: One of the changes of the key that the table has it under.
    origin: int


def moved(order: pa.Table, *, by_column: bool = False) -> dict[int, int]:
    """Rows that came with holes because their key was changed, and the deletes of their old keys.

    The database has one record of such a change, and so both have the same place in its log. `by_column`:
    there is no such place, but what follows on the delete, or on its tombstone, came of the same record.
    """
    ops, line = order.column("op").to_numpy(), order.column("line")
    holed = (ops == int(Op.CREATE)) & order.column("holes").is_valid().to_numpy()
    if not holed.any():
        return {}
    gone = ops == int(Op.DELETE)
    if by_column:
        return _followed_up(order, np.flatnonzero(gone), np.flatnonzero(holed))
    placed = line.is_valid().to_numpy()
    at = [order.column(name).to_numpy() for name in ("at0", "at1", "at2")]

    def place(row: int) -> tuple[object, ...]:
        return line[row].as_py(), *(int(numbers[row]) for numbers in at)

    deletes = {place(int(row)): int(row) for row in np.flatnonzero(gone & placed)}
    creates = {int(row): deletes.get(place(int(row))) for row in np.flatnonzero(holed & placed)}
    return {row: delete for row, delete in creates.items() if delete is not None}


def _followed_up(order: pa.Table, deletes: _Numbers, creates: _Numbers) -> dict[int, int]:
    offsets, ts = order.column("offset").to_numpy(), order.column("ts").to_numpy()
    ends = {(int(ts[row]), int(offsets[row])): int(row) for row in deletes}
    found = {}
    for row in creates.tolist():
        for back in (2, 1):
            delete = ends.get((int(ts[row]), int(offsets[row]) - back))
            if delete is not None:
                found[row] = delete
    return found


def fill(
    rows: pa.Table, masks: pa.BinaryArray, codes: _Numbers, last: _Numbers, moves: Mapping[int, int]
) -> Filled:
    """The rows at `last`. `codes`: the same number for the same key."""
    if not len(last):
        return Filled(rows.slice(0, 0), pa.array([], pa.binary()), np.zeros(0, np.int64))
    states = _followed(masks, codes, codes[last], moves, rows.num_columns)
    found = [states[int(code)] for code in codes[last]]
    sources = np.stack([state.values for state in found])
    columns = []
    for number in range(rows.num_columns):
        at = sources[:, number]
        columns.append(rows.column(number).take(pa.array(at, mask=at < 0)))
    left = np.packbits(sources < 0, axis=1, bitorder="little")
    holes = [bytes(mask) if mask.any() else None for mask in left]
    return Filled(
        pa.table(columns, schema=rows.schema),
        pa.array(holes, pa.binary()),
        np.array([state.origin for state in found], np.int64),
    )


def _followed(
    masks: pa.BinaryArray, codes: _Numbers, wanted: _Numbers, moves: Mapping[int, int], width: int
) -> dict[int, _State]:
    """By key, the rows after all of their changes; those whose key is changed on the way included."""
    known = {int(code) for code in wanted} | {int(codes[delete]) for delete in moves.values()}
    deletes = set(moves.values())
    states: dict[int, _State] = {}
    before: dict[int, _State] = {}
    for row in np.flatnonzero(np.isin(codes, list(known))).tolist():
        code = int(codes[row])
        state = states.get(code) or _untouched(width, row)
        if row in deletes:
            before[row] = state
        if row in moves:
            state = before.get(moves[row]) or _untouched(width, moves[row])
        states[code] = _after(state, row, masks[row].as_py(), width)
    return states


def _untouched(width: int, row: int) -> _State:
    return _State(np.full(width, -1, np.int64), row)


def _after(state: _State, row: int, mask: bytes | None, width: int) -> _State:
    if mask is None:
        return _State(np.full(width, row, np.int64), row)
    bits = np.zeros(width, np.uint8)
    given = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[:width]
    bits[: len(given)] = given
    return _State(np.where(bits == 1, state.values, row), state.origin)
