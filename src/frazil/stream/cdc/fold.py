"""Many changes become one for each key: the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import BY_COLUMN, Op
from frazil.stream.cdc.filling import fill, moved

_Numbers = npt.NDArray[np.int64]
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Folded:
    """What became of the rows."""

    #: Rows as they are now, complete.
    rows: pa.Table
    #: Rows as they are now but for their holes, which the row in the table fills.
    patches: pa.Table
    #: Of the patches, as in `ORDER`.
    holes: pa.BinaryArray
    #: Of the patches: the key under which the table has the row that fills them. Another than their own
    #: where the key of the row was changed.
    origins: pa.Table
    #: Every key that was changed: rows of the table that have one of them go.
    keys: pa.Table
    #: Keys whose rows are gone.
    deleted: pa.Table


def fold(rows: pa.Table, order: pa.Table, key: Sequence[str], soft_delete: str | None = None) -> Folded:
    """`rows` are in log order within each key; there is no truncate among them.

    `soft_delete`: a column that says of rows that they are gone, which then stay.
    """
    rows, order = _by_column(rows, order)
    moves = moved(order)
    if soft_delete is not None:
        rows, order = _softened(rows, order, key, soft_delete)
    codes, count = key_codes(rows, key)
    last = np.full(count, -1, np.int64)
    # The last one of equal indices is the one that stays.
    last[codes] = np.arange(len(codes))
    last.sort()
    ops = order.column("op").combine_chunks().take(pa.array(last))
    deleted = pc.equal(ops, int(Op.DELETE)).to_numpy(zero_copy_only=False)
    masks = order.column("holes").combine_chunks()
    holed = masks.take(pa.array(last)).is_valid().to_numpy(zero_copy_only=False) & ~deleted
    filled = fill(rows, masks, codes, last[holed], moves)
    full = filled.holes.is_null()
    left = pc.invert(full)
    complete = pa.concat_tables([rows.take(pa.array(last[~deleted & ~holed])), filled.rows.filter(full)])
    keys = rows.select(list(key))
    return Folded(
        complete,
        filled.rows.filter(left),
        filled.holes.drop_null(),
        keys.take(pa.array(filled.origins)).filter(left),
        keys.take(pa.array(last)),
        keys.take(pa.array(last[deleted])),
    )


def _by_column(rows: pa.Table, order: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Where a column orders the changes: by that, and by the log where it is the same."""
    if not pc.any(pc.equal(order.column("line"), BY_COLUMN)).as_py():
        return rows, order
    by = pa.array(np.argsort(order.column("at0").to_numpy(), kind="stable"))
    return rows.take(by), order.take(by)


def _softened(rows: pa.Table, order: pa.Table, key: Sequence[str], column: str) -> tuple[pa.Table, pa.Table]:
    """Deletes as updates: a column says that the row is gone, and all others but the key stay."""
    gone = pc.equal(order.column("op"), int(Op.DELETE))
    bits = np.array([name not in key for name in rows.column_names])
    mask = pa.scalar(bytes(np.packbits(bits, bitorder="little")), pa.binary())
    ops = pc.if_else(gone, pa.scalar(int(Op.UPDATE), pa.int8()), order.column("op"))
    holes = pc.if_else(gone, mask, order.column("holes"))
    softer = order.set_column(order.schema.get_field_index("op"), order.schema.field("op"), ops)
    softer = softer.set_column(order.schema.get_field_index("holes"), order.schema.field("holes"), holes)
    return rows.append_column(column, gone), softer


def key_codes(rows: pa.Table, key: Sequence[str]) -> tuple[_Numbers, int]:
    """A number for each row, the same for the same key (nulls are equal), and how many there are."""
    codes = np.zeros(len(rows), np.int64)
    count = 1
    for name in key:
        column = rows.column(name).combine_chunks()
        found = pc.dictionary_encode(column, null_encoding="encode")
        size = max(1, len(found.dictionary))
        if count * size > _LARGEST:
            values, codes = np.unique(codes, return_inverse=True)
            count = len(values)
        codes = codes * size + found.indices.to_numpy().astype(np.int64)
        count *= size
    if len(key) != 1 or not len(rows):
        values, codes = np.unique(codes, return_inverse=True)
        count = len(values)
    return codes, count
