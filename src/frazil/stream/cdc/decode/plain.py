"""Rows as plain JSON, without an envelope: the records of a hot table.

A value is the whole row, and replaces the one that has its key. A record without a value deletes the row that
its own key names, a JSON object of the key columns. The place in the log is the only order there is, and only
the key of each record brings all changes of a row to one partition.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
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
_STRAY = (
    "it has no key, and the topic has several partitions: it may be in another one than the other changes of "
    "its row, and which is the newest is then not known. Send each record with its key, a JSON object of "
    "{columns} (docs/hot.md has the format)"
)
_NO_ROW = "a record without a value is no row, and this table has no key by which one could be deleted"

Flags: TypeAlias = npt.NDArray[np.bool_]


class PlainChanges:
    """Decodes batches of records; for one thread."""

    def __init__(
        self, settings: JsonFormat, schema: Schema, key: tuple[str, ...], *, several: bool = False
    ) -> None:
        """`key`: none if rows only come; a required column, and each of the key, must have a value.

        `several`: the log has so many partitions.
        """
        fields = [replace(one, required=one.required or one.name in key) for one in schema]
        self._key = tuple(schema.field(name) for name in key)
        self._values = JsonDecoder(Schema(tuple(fields)), settings)
        self._keys = JsonDecoder(Schema(tuple(replace(one, required=True) for one in self._key)), settings)
        self._placed = several and bool(key)
        # A delete has nothing but the key, whatever the table requires.
        self._columns = Schema(tuple(replace(one, required=False) for one in schema)).to_arrow()

    def decode(self, raw: RawBatch) -> Changes:
        gone, stray = _nulls(raw.values), self._stray(raw)
        if not gone.any() and not stray.any():
            places, rows, bad = self._rows(raw, None)
            return self._changes(raw, rows, places, np.full(len(places), self._comes, np.int8), bad)
        places, rows, bad = self._rows(raw, np.flatnonzero(~gone & ~stray))
        bad += [_empty(int(place), self._told(_STRAY)) for place in np.flatnonzero(stray & ~gone)]
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

    def _stray(self, raw: RawBatch) -> Flags:
        """Records that somebody put into any partition."""
        if not self._placed:
            return np.zeros(len(raw), np.bool_)
        return np.ones(len(raw), np.bool_) if raw.keys is None else _nulls(raw.keys)

    def _told(self, reason: str) -> str:
        return reason.format(columns=", ".join(one.name for one in self._key))

    def _rows(self, raw: RawBatch, places: Longs | None) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
        """Of the records at these places, or of all without them, which have values: where the good ones are,
        and their rows."""
        values = raw.values if places is None else raw.values.take(pa.array(places))
        at = np.arange(len(values)) if places is None else places
        good, found, bad = _read(self._values, values, at)
        return good, pa.RecordBatch.from_arrays(found.columns, schema=self._columns), bad

    def _deletes(self, raw: RawBatch, places: Longs) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
        none = np.zeros(0, np.int64)
        if not self._key:
            return none, self._without([]), [_empty(place, _NO_ROW) for place in places]
        keys = pa.nulls(len(raw), pa.binary()) if raw.keys is None else raw.keys
        keyed = keys.take(pa.array(places)).is_valid().to_numpy(zero_copy_only=False)
        bad = [_empty(place, self._told(_NO_KEY)) for place in places[~keyed]]
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


def _nulls(texts: pa.BinaryArray) -> Flags:
    if not texts.null_count:
        return np.zeros(len(texts), np.bool_)
    found: Flags = texts.is_null().to_numpy(zero_copy_only=False)
    return found


def _empty(place: int, reason: str) -> Undecodable:
    return Undecodable(int(place), reason, None, Fault.EMPTY)


def _of_key(one: Undecodable) -> Undecodable:
    return Undecodable(one.index, f"in the record's key: {one.reason}", one.field, one.fault)


def _one_batch(rows: pa.Table) -> pa.RecordBatch:
    if not len(rows):
        return pa.RecordBatch.from_arrays([pa.array([], one.type) for one in rows.schema], schema=rows.schema)
    (batch,) = rows.to_batches()
    return batch
