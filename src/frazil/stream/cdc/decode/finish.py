"""Changes of a batch, put together from the records that were read alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import ORDER, Op
from frazil.core.schema import Schema
from frazil.stream.cdc.changes import Changes, Shape
from frazil.stream.cdc.decode.holes import packed
from frazil.stream.cdc.decode.position import Positions, Source, by_column, positions, transactions
from frazil.stream.cdc.decode.rows import Rows, joined, without
from frazil.stream.cdc.decode.trouble import Longs, Mask, longs_of, mask_of, shown, spans
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.source import RawBatch

#: Of messages that change no row.
IGNORED, UNKNOWN = -1, -2
#: By the letter.
CODES = np.full(256, UNKNOWN, np.int8)
for _letter, _code in zip(
    b"crudtm", (Op.CREATE, Op.READ, Op.UPDATE, Op.DELETE, Op.TRUNCATE, IGNORED), strict=True
):
    CODES[_letter] = _code


Codes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int8]]


@dataclass(frozen=True)
class Facts:
    """What records say besides their rows; each in the order of the records that they are of."""

    op: Codes
    positions: Positions
    ts: Longs
    transactions: pa.StringArray

    def take(self, places: Longs) -> Facts:
        if len(places) == len(self.op):
            return self
        numbers = pa.array(places)
        chosen = Positions(0)
        chosen.line = self.positions.line.take(numbers)
        chosen.at = [own[places] for own in self.positions.at]
        return Facts(self.op[places], chosen, self.ts[places], self.transactions.take(numbers))


@dataclass(frozen=True)
class Part:
    """Rows, and what their records say; `rows.places` are places in the batch."""

    rows: Rows
    facts: Facts
    #: Columns that the table would need.
    shape: Schema | None = None


def codes_of(op: pa.StringArray) -> Codes:
    """Of the letters in `op`."""
    data, starts = spans(op)
    single = np.diff(starts) == 1
    codes = np.full(len(op), UNKNOWN, np.int8)
    codes[single] = CODES[data[starts[:-1][single]]]
    return codes


def unfit(op: Codes, letters: pa.StringArray, after: Mask) -> list[Undecodable]:
    """Envelopes that are none; `after`: which have a row there."""
    found = [
        Undecodable(int(row), "a create, read or update without a row in `after`", "after")
        for row in np.flatnonzero((op >= Op.READ) & (op <= Op.UPDATE) & ~after)
    ]
    for row in np.flatnonzero(op == UNKNOWN):
        letter = letters[int(row)].as_py()
        reason = f"found {'nothing' if letter is None else shown(letter)}, expected c, r, u, d, t or m"
        found.append(Undecodable(int(row), reason, "op"))
    return found


def facts_of(op: Codes, source: Source, ids: pa.StringArray | None) -> Facts:
    """Of envelopes; `ids` are those of transactions."""
    reads = op == Op.READ
    if not reads.all() and "snapshot" in source:
        reads = reads | ~mask_of(pc.fill_null(pc.equal(source["snapshot"], "false"), True))
    named = pa.nulls(len(op), pa.string()) if ids is None else transactions(ids)
    ts = source.get("ts_ms", pa.nulls(len(op), pa.int64()))
    return Facts(op, positions(source, reads), longs_of(ts), named)


def checked(rows: Rows, facts: Facts, schema: Schema, key: tuple[str, ...], odd: str | None = None) -> Part:
    """Less the rows that lack their key or what the table requires.

    `facts` are of the rows; `odd` is a column that rows have and that cannot be read.
    """
    op = facts.op
    found = _whole(op, schema, key, odd)
    for index, field in enumerate(schema.fields):
        if field.name not in key and not field.required:
            continue
        column = rows.columns[index]
        if not column.null_count:
            continue
        missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), bool) & (op != Op.TRUNCATE)
        if field.name not in key:
            missing &= op != Op.DELETE
        if index in rows.holes:
            missing &= ~rows.holes[index]
        for place in np.flatnonzero(missing):
            found.setdefault(int(place), _missing(int(place), field.name, key=field.name in key))
    if not found:
        return Part(rows, facts)
    kept = np.ones(len(op), bool)
    kept[list(found)] = False
    return Part(without(rows, found), facts.take(np.flatnonzero(kept)))


def _whole(op: Codes, schema: Schema, key: tuple[str, ...], odd: str | None) -> dict[int, Undecodable]:
    """What is wrong with all rows alike."""
    found: dict[int, Undecodable] = {}
    names = {field.name for field in schema}
    for name in key:
        if name not in names:
            for place in np.flatnonzero(op != Op.TRUNCATE):
                found.setdefault(int(place), _missing(int(place), name, key=True))
    if odd is not None:
        for place in np.flatnonzero((op != Op.TRUNCATE) & (op != Op.DELETE)):
            found.setdefault(int(place), Undecodable(int(place), _FORMLESS, odd, Fault.TYPE))
    return found


_FORMLESS = (
    "is of a type that has no form here (a map whose keys are no texts, a union, or a type inside itself); "
    "leave the column out by the connector's `column.exclude.list`"
)


def _missing(place: int, name: str, *, key: bool) -> Undecodable:
    if key:
        reason = (
            "is missing or null, and is part of the key; if the message's key has fields that are no "
            "columns, set `key`"
        )
    else:
        reason = "is missing or null, and its column is required"
    return Undecodable(place, reason, name, Fault.MISSING)


def finished(
    raw: RawBatch,
    schema: Schema,
    parts: list[Part],
    bad: list[Undecodable],
    sequence_by: str | None,
    *,
    with_transactions: bool,
) -> Changes:
    """All parts in the order of the log."""
    rows = joined([part.rows for part in parts]) if parts else None
    if rows is None:
        return nothing(raw, schema, bad, with_transactions=with_transactions)
    facts = _in_order(parts)
    line, at = facts.positions.line, facts.positions.at
    if sequence_by is not None:
        index = [field.name for field in schema].index(sequence_by)
        line, first = by_column(rows.columns[index])
        at = [first, np.zeros_like(first), np.zeros_like(first)]
    order = pa.RecordBatch.from_arrays(
        [
            pa.array(facts.op),
            raw.offsets.take(pa.array(rows.places)),
            line,
            *map(pa.array, at),
            pa.array(facts.ts),
            packed(dict(rows.holes), len(rows.places), len(schema.fields)),
        ],
        schema=ORDER,
    )
    return Changes(
        raw,
        pa.RecordBatch.from_arrays(list(rows.columns), schema=schema.to_arrow()),
        order,
        tuple(sorted((*rows.bad, *bad), key=lambda one: one.index)),
        transactions=facts.transactions if with_transactions else None,
    )


def _in_order(parts: list[Part]) -> Facts:
    if len(parts) == 1:
        return parts[0].facts
    order = np.argsort(np.concatenate([part.rows.places for part in parts]), kind="stable")
    facts = [part.facts for part in parts]
    positions = Positions(0)
    positions.line = pa.concat_arrays([one.positions.line for one in facts])
    positions.at = [np.concatenate([one.positions.at[n] for one in facts]) for n in range(3)]
    whole = Facts(
        np.concatenate([one.op for one in facts]),
        positions,
        np.concatenate([one.ts for one in facts]),
        pa.concat_arrays([one.transactions for one in facts]),
    )
    numbers = pa.array(order)
    positions.line = positions.line.take(numbers)
    positions.at = [own[order] for own in positions.at]
    return Facts(whole.op[order], positions, whole.ts[order], whole.transactions.take(numbers))


def nothing(
    raw: RawBatch,
    schema: Schema,
    bad: list[Undecodable],
    shape: Shape | None = None,
    *,
    with_transactions: bool,
) -> Changes:
    """No changes: there are none, or the table has to grow first."""
    empty = [pa.array([], field.type) for field in schema.to_arrow()]
    rows = pa.RecordBatch.from_arrays(empty, schema=schema.to_arrow())
    order = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in ORDER], schema=ORDER)
    bad = sorted(bad, key=lambda one: one.index)
    none = pa.array([], pa.string()) if with_transactions else None
    return Changes(raw, rows, order, tuple(bad), shape, none)
