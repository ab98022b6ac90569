"""Changes in the order of a column, `sequence_by`, key by key.

A change without a value counts as the newest where it stands in the log, and if it leaves the row without
one, whatever comes behind it counts, too. A delete that becomes a mark on the row keeps the row's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Numbers = npt.NDArray[np.int64]
_Truths = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sequenced:
    """Changes in their new order. A place that had a change of a key has one of the same key."""

    rows: pa.Table
    order: pa.Table
    moves: Mapping[int, int]
    #: Of each change; null: it counts, whatever the table has.
    values: pa.Int64Array
    #: By key: whether one of its changes counts whatever the table has, and those behind it, too.
    certain: _Truths
    #: By key: whether what becomes of it depends on the row in the table, and all of its changes are needed.
    undecided: _Truths
    #: The changes of those keys.
    chains: _Numbers


def in_sequence(
    rows: pa.Table, order: pa.Table, codes: _Numbers, count: int, column: str, moves: Mapping[int, int]
) -> Sequenced:
    """`codes`: the same number below `count` for the same key; `moves`: as from `moved`."""
    valued = order.column("line").is_valid().to_numpy()
    holes = order.column("holes").combine_chunks()
    keeps = ~valued & _lacks(holes, rows.column_names.index(column))
    places = _sorted(codes, order.column("at0").to_numpy(), valued, keeps)
    where = np.empty_like(places)
    where[places] = np.arange(len(places))
    rows, order = rows.take(pa.array(places)), order.take(pa.array(places))
    moves = {int(where[row]): int(where[delete]) for row, delete in moves.items()}
    valued, keeps = valued[places], keeps[places]
    resets = ~valued & ~keeps
    chains = _chains(codes, count, order.column("holes"), keeps, resets, moves)
    values = pa.array(order.column("at0").to_numpy(), mask=~valued)
    return Sequenced(
        rows,
        order,
        moves,
        values,
        _by_key(codes[resets], count),
        _by_key(codes[chains], count),
        chains,
    )


def without_value(order: pa.Table, changes: _Numbers) -> pa.Table:
    """As if those changes had none."""
    kept = np.ones(len(order), np.bool_)
    kept[changes] = False
    line = pc.if_else(pa.array(kept), order.column("line"), pa.scalar(None, pa.string()))
    return order.set_column(order.schema.get_field_index("line"), order.schema.field("line"), line)


def _sorted(codes: _Numbers, at: _Numbers, valued: _Truths, keeps: _Truths) -> _Numbers:
    """For each place the change that comes there.

    What leaves a row without a value begins a new part of its key's changes. One that keeps the value comes
    behind all that it met.
    """
    by_key = np.argsort(codes, kind="stable")
    begins = (~valued & ~keeps)[by_key]
    begins[1:] |= np.diff(codes[by_key]) != 0
    levels = np.zeros(len(codes), np.int64)
    levels[valued] = np.unique(at[valued], return_inverse=True)[1] + 1
    levels = np.cumsum(begins) * (len(codes) + 1) + levels[by_key]
    levels = np.where(keeps[by_key], np.maximum.accumulate(levels), levels)
    places = np.empty(len(codes), np.int64)
    places[by_key] = by_key[np.argsort(levels, kind="stable")]
    return places


def _chains(
    codes: _Numbers,
    count: int,
    holes: pa.ChunkedArray,
    keeps: _Truths,
    resets: _Truths,
    moves: Mapping[int, int],
) -> _Numbers:
    """Changes of keys that need all of them: some may be late, and others be done to what is there."""
    holed = holes.is_valid().to_numpy()
    several = (np.bincount(codes, minlength=count) > 1) & _by_key(codes[holed], count)
    if not several.any():
        return np.zeros(0, np.int64)
    # What they lack is not under their key.
    holed[list(moves)] = False
    by_key = np.argsort(codes, kind="stable")
    by_key = by_key[several[codes[by_key]]]
    ends = np.flatnonzero(np.diff(codes[by_key])) + 1

    def undecided(changes: _Numbers) -> bool:
        first = np.flatnonzero(resets[changes])
        if not len(first):
            return bool(holed[changes[-1]] or keeps[changes].any())
        return bool(first[0] > 0 and holed[changes[first[0] :]].all())

    found = [changes for changes in np.split(by_key, ends) if undecided(changes)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _by_key(codes: _Numbers, count: int) -> _Truths:
    found = np.zeros(count, np.bool_)
    found[codes] = True
    return found


def _lacks(holes: pa.BinaryArray, column: int) -> _Truths:
    """Which changes have a hole in that column."""
    if holes.null_count == len(holes):
        return np.zeros(len(holes), np.bool_)
    byte, bit = divmod(column, 8)
    return np.array(
        [bool(mask and len(mask) > byte and mask[byte] >> bit & 1) for mask in holes.to_pylist()], np.bool_
    )
