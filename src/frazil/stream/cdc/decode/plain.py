"""Rows as plain JSON, without an envelope: the records of a hot table.

A value is the whole row, and replaces the one that has its key. A record without a value deletes the row that
its own key names, a JSON object of the key columns. The place in the log is the only order there is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from frazil.core.changes import ORDER, Op
from frazil.core.schema import Schema
from frazil.stream.cdc.changes import Changes
from frazil.stream.cdc.decode.trouble import Longs
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.source import RawBatch

_NO_KEY = (
    "a record without a value deletes the row that its key names, and it has no key; give it one, a JSON "
    "object of {columns}"
)
_NO_ROW = "a record without a value is no row, and this table has no key by which one could be deleted"


class PlainChanges:
    """Decodes batches of records; for one thread."""

    def __init__(self, settings: JsonFormat, schema: Schema, key: tuple[str, ...]) -> None:
        """`key`: none if rows only come; a required column, and each of the key, must have a value."""
        fields = [replace(one, required=one.required or one.name in key) for one in schema]
        self._key = tuple(schema.field(name) for name in key)
        self._values = JsonDecoder(Schema(tuple(fields)), settings)
        self._keys = JsonDecoder(Schema(tuple(replace(one, required=True) for one in self._key)), settings)
        # A delete has nothing but the key, whatever the table requires.
        self._columns = Schema(tuple(replace(one, required=False) for one in schema)).to_arrow()

    def decode(self, raw: RawBatch) -> Changes:
        gone = raw.values.is_null().to_numpy(zero_copy_only=False) if raw.values.null_count else None
        if gone is None:
            places, rows, bad = self._rows(raw, None)
            return self._changes(raw, rows, places, np.full(len(places), self._comes, np.int8), bad)
        places, rows, bad = self._rows(raw, np.flatnonzero(~gone))
        deleted, keys, faults = self._deletes(raw, np.flatnonzero(gone))
        merged = np.concatenate([places, deleted])
        ops = np.concatenate(
            [np.full(len(places), self._comes, np.int8), np.full(len(deleted), int(Op.DELETE), np.int8)]
        )
        order = np.argsort(merged, kind="stable")
        together = pa.Table.from_batches([rows, keys]).take(pa.array(order)).combine_chunks()
        return self._changes(raw, _one_batch(together), merged[order], ops[order], bad + faults)

    @property
    def _comes(self) -> int:
        return int(Op.UPDATE if self._key else Op.CREATE)

    def _rows(self, raw: RawBatch, places: Longs | None) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
        """Of the records at these places, which are those with a value, or of all without them: where the
        good ones are, and their rows."""
        values = raw.values if places is None else raw.values.drop_null()
        at = np.arange(len(values)) if places is None else places
        good, found, bad = _read(self._values, values, at)
        return good, pa.RecordBatch.from_arrays(found.columns, schema=self._columns), bad

    def _deletes(self, raw: RawBatch, places: Longs) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
        none = np.zeros(0, np.int64)
        if not self._key:
            return none, self._without([]), [_empty(place, _NO_ROW) for place in places]
        keys = pa.nulls(len(raw), pa.binary()) if raw.keys is None else raw.keys
        keyed = keys.take(pa.array(places)).is_valid().to_numpy(zero_copy_only=False)
        reason = _NO_KEY.format(columns=", ".join(one.name for one in self._key))
        bad = [_empty(place, reason) for place in places[~keyed]]
        named = places[keyed]
        good, found, wrong = _read(self._keys, keys.take(pa.array(named)), named)
        return good, self._without(found.columns), bad + [_of_key(one) for one in wrong]

    def _without(self, keys: list[pa.Array]) -> pa.RecordBatch:
        """Rows of a key alone, whose columns these are; none: no rows."""
        known = dict(zip((one.name for one in self._key), keys, strict=bool(keys)))
        count = len(keys[0]) if keys else 0
        columns = [known.get(one.name, pa.nulls(count, one.type)) for one in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._columns)

    def _changes(
        self,
        raw: RawBatch,
        rows: pa.RecordBatch,
        places: Longs,
        ops: np.ndarray[tuple[int], np.dtype[np.int8]],
        bad: list[Undecodable],
    ) -> Changes:
        count = len(places)
        offsets = raw.offsets if count == len(raw) else raw.offsets.take(pa.array(places))
        zeros = pa.array(np.zeros(count, np.int64))
        order = pa.RecordBatch.from_arrays(
            [
                pa.array(ops),
                offsets,
                pa.nulls(count, pa.string()),
                zeros,
                zeros,
                zeros,
                zeros,
                pa.nulls(count, pa.binary()),
            ],
            schema=ORDER,
        )
        return Changes(raw, rows, order, tuple(sorted(bad, key=lambda one: one.index)))


def _read(
    decoder: JsonDecoder, values: pa.BinaryArray, places: Longs
) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
    found = decoder.decode(RawBatch("", 0, values, None, None))
    if not found.bad:
        return places, found.rows, []
    good = np.delete(places, [one.index for one in found.bad])
    bad = [Undecodable(int(places[one.index]), one.reason, one.field, one.fault) for one in found.bad]
    return good, found.rows, bad


def _empty(place: int, reason: str) -> Undecodable:
    return Undecodable(int(place), reason, None, Fault.EMPTY)


def _of_key(one: Undecodable) -> Undecodable:
    return Undecodable(one.index, f"in the record's key: {one.reason}", one.field, one.fault)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if not len(rows):
        return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in rows.schema], schema=rows.schema)
    (batch,) = rows.to_batches()
    return batch
