"""Many changes become one for each key: the last one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op

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
    #: Every key that was changed: rows of the table that have one of them go.
    keys: pa.Table
    #: Keys whose rows are gone.
    deleted: pa.Table


def fold(rows: pa.Table, order: pa.Table, key: Sequence[str]) -> Folded:
    """`rows` are in log order within each key; there is no truncate among them."""
    codes, count = key_codes(rows, key)
    last = np.full(count, -1, np.int64)
    # The last one of equal indices is the one that stays.
    last[codes] = np.arange(len(codes))
    last.sort()
    ops = order.column("op").combine_chunks().take(pa.array(last))
    deleted = pc.equal(ops, int(Op.DELETE)).to_numpy(zero_copy_only=False)
    masks = order.column("holes").combine_chunks()
    holed = masks.take(pa.array(last)).is_valid().to_numpy(zero_copy_only=False) & ~deleted
    patches, holes = _patches(rows, masks, codes, last[holed])
    full = holes.is_null()
    complete = pa.concat_tables([rows.take(pa.array(last[~deleted & ~holed])), patches.filter(full)])
    keys = rows.select(list(key))
    return Folded(
        complete,
        patches.filter(pc.invert(full)),
        holes.drop_null(),
        keys.take(pa.array(last)),
        keys.take(pa.array(last[deleted])),
    )


def softened(rows: pa.Table, order: pa.Table, key: Sequence[str], column: str) -> tuple[pa.Table, pa.Table]:
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


def _patches(
    rows: pa.Table, masks: pa.BinaryArray, codes: _Numbers, last: _Numbers
) -> tuple[pa.Table, pa.BinaryArray]:
    """The rows at `last`, their holes filled from earlier changes of the key; and the holes left."""
    if not len(last):
        return rows.slice(0, 0), pa.array([], pa.binary())
    width = rows.num_columns
    sources = _sources(masks, codes, last, width)
    columns = []
    for number in range(width):
        at = sources[:, number]
        columns.append(rows.column(number).take(pa.array(at, mask=at < 0)))
    left = np.packbits(sources < 0, axis=1, bitorder="little")
    holes = [bytes(mask) if mask.any() else None for mask in left]
    return pa.table(columns, schema=rows.schema), pa.array(holes, pa.binary())


def _sources(masks: pa.BinaryArray, codes: _Numbers, last: _Numbers, width: int) -> _Numbers:
    """For each row at `last` and column: the row that has its value, -1 where none has."""
    number = {int(code): row for row, code in enumerate(codes[last])}
    sources = np.full((len(last), width), -1, np.int64)
    wanted = np.flatnonzero(np.isin(codes, codes[last]))
    for row in wanted.tolist():
        values = sources[number[int(codes[row])]]
        mask = masks[row].as_py()
        if mask is None:
            values[:] = row
        else:
            bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little")[:width]
            values[: len(bits)][bits == 0] = row
            values[len(bits) :] = row
    return sources
