"""Many changes become one for each key: the last one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.stream.cdc.filling import fill, moved
from frazil.stream.cdc.sequence import Sequenced, in_sequence, without_value

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
    #: Where a column orders changes: what keys and patches have there (as in `SequenceBy`). A key then has
    #: several patches, in order, where it depends on the row in the table which of them count.
    key_values: pa.Int64Array | None = None
    patch_values: pa.Int64Array | None = None


def fold(
    rows: pa.Table,
    order: pa.Table,
    key: Sequence[str],
    soft_delete: str | None = None,
    sequence_by: str | None = None,
) -> Folded:
    """`rows` are in log order within each key; there is no truncate among them.

    `soft_delete`: a column that says of rows that they are gone, which then stay. `sequence_by`: a column
    that orders the changes of a key.
    """
    rows, order, moves = _prepared(rows, order, key, soft_delete, sequence_by)
    codes, count = key_codes(rows, key)
    story = None
    if sequence_by is not None:
        story = in_sequence(rows, order, codes, count, sequence_by, moves)
        rows, order, moves = story.rows, story.order, story.moves
    last = np.full(count, -1, np.int64)
    # The last one of equal indices is the one that stays.
    last[codes] = np.arange(len(codes))
    last.sort()
    ops = order.column("op").combine_chunks().take(pa.array(last))
    deleted = pc.equal(ops, int(Op.DELETE)).to_numpy(zero_copy_only=False)
    masks = order.column("holes").combine_chunks()
    holed = masks.take(pa.array(last)).is_valid().to_numpy(zero_copy_only=False) & ~deleted
    known = ~deleted
    if story is not None:
        known &= ~story.undecided[codes[last]]
    filled = fill(rows, masks, codes, last[holed & known], moves)
    full = filled.holes.is_null()
    left = pc.invert(full)
    complete = pa.concat_tables([rows.take(pa.array(last[known & ~holed])), filled.rows.filter(full)])
    keys = rows.select(list(key))
    found = Folded(
        complete,
        filled.rows.filter(left),
        filled.holes.drop_null(),
        keys.take(pa.array(filled.origins)).filter(left),
        keys.take(pa.array(last)),
        keys.take(pa.array(last[deleted])),
    )
    if story is None:
        return found
    patched = last[holed & known][left.to_numpy(zero_copy_only=False)]
    return _sequenced(found, story, keys, _values(story, codes, last), _values(story, codes, patched))


def _prepared(
    rows: pa.Table, order: pa.Table, key: Sequence[str], soft_delete: str | None, sequence_by: str | None
) -> tuple[pa.Table, pa.Table, Mapping[int, int]]:
    """Deletes as they are meant, and which rows came of others that had another key."""
    moves = moved(order, by_column=sequence_by is not None)
    if sequence_by is not None and moves:
        # Such a row is compared with none: there are two that it could be compared with.
        order = without_value(order, np.array([*moves, *moves.values()]))
    if soft_delete is not None:
        rows, order = _softened(rows, order, key, soft_delete, sequence_by)
    return rows, order, moves


def _sequenced(
    found: Folded, story: Sequenced, keys: pa.Table, of_keys: pa.Int64Array, of_patches: pa.Int64Array
) -> Folded:
    """With the changes that nobody can decide about without the table."""
    chains = pa.array(story.chains)
    return replace(
        found,
        patches=pa.concat_tables([found.patches, story.rows.take(chains)]),
        holes=pa.concat_arrays([found.holes, story.order.column("holes").combine_chunks().take(chains)]),
        origins=pa.concat_tables([found.origins, keys.take(chains)]),
        key_values=of_keys,
        patch_values=pa.concat_arrays([of_patches, story.values.take(chains)]),
    )


def _values(story: Sequenced, codes: _Numbers, changes: _Numbers) -> pa.Int64Array:
    """Of what became of keys in the end."""
    certain = pa.array(story.certain[codes[changes]])
    return pc.if_else(certain, pa.scalar(None, pa.int64()), story.values.take(pa.array(changes)))


def _softened(
    rows: pa.Table, order: pa.Table, key: Sequence[str], column: str, sequence_by: str | None
) -> tuple[pa.Table, pa.Table]:
    """Deletes as updates: a column says that the row is gone, and all others stay but the key, and what
    orders the changes, if the delete has it."""
    gone = pc.equal(order.column("op"), int(Op.DELETE))
    mask = _mask(name not in key for name in rows.column_names)
    if sequence_by is not None:
        told = _mask(name not in key and name != sequence_by for name in rows.column_names)
        mask = pc.if_else(order.column("line").is_valid(), told, mask)
    ops = pc.if_else(gone, pa.scalar(int(Op.UPDATE), pa.int8()), order.column("op"))
    holes = pc.if_else(gone, mask, order.column("holes"))
    softer = order.set_column(order.schema.get_field_index("op"), order.schema.field("op"), ops)
    softer = softer.set_column(order.schema.get_field_index("holes"), order.schema.field("holes"), holes)
    return rows.append_column(column, gone), softer


def _mask(holes: Iterable[bool]) -> pa.Scalar:
    return pa.scalar(bytes(np.packbits(np.array(list(holes)), bitorder="little")), pa.binary())


def key_codes(rows: pa.Table, key: Sequence[str]) -> tuple[_Numbers, int]:
    """A number for each row, the same for the same key (nulls are equal), and how many there are."""
    codes = np.zeros(len(rows), np.int64)
    count = 1
    for name in key:
        column = rows.column(name).combine_chunks()
        if isinstance(column.type, pa.BaseExtensionType):
            # UUIDs, which Arrow knows of and has no kernels for.
            column = column.storage
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
