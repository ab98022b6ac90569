"""What decoders of change events share, whatever their messages are written in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import pyarrow as pa

from frazil.core.changes import Op
from frazil.core.schema import Field, Schema
from frazil.stream.cdc.changes import Changes, Shape
from frazil.stream.cdc.decode.finish import Facts, Part, checked, finished, nothing
from frazil.stream.cdc.decode.flat import flat_facts, header_texts
from frazil.stream.cdc.decode.holes import Placeholder
from frazil.stream.cdc.decode.rows import Columns, Rows, joined, patched
from frazil.stream.cdc.decode.shape import grown
from frazil.stream.cdc.decode.trouble import Longs, mask_of
from frazil.stream.cdc.decode.wire import Fields, formless
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.source import RawBatch

_TRANSACTION = {"status", "id", "event_count", "data_collections"}
_DDL = {"source", "databaseName", "ddl", "tableChanges"}


class Keys(Protocol):
    """Reads the keys of messages."""

    def names(self, raw: RawBatch) -> tuple[str, ...]:
        """Fields of the first key of a batch; none: its messages have no keys."""

    def read(self, keys: pa.BinaryArray, places: Longs, fields: tuple[Field, ...]) -> Rows | None:
        """Columns of those that have a key, at their places; None: there are none."""


class Batch:
    """One batch on its way."""

    def __init__(self, raw: RawBatch, key: tuple[str, ...], sent: tuple[str, ...]) -> None:
        self.raw = raw
        #: What tells rows apart, and what the messages' keys have.
        self.key = key
        self.sent = sent
        self.parts: list[Part] = []
        self.bad: list[Undecodable] = []
        #: What the table would need; None: it has all.
        self.shape: Schema | None = None
        #: Whether flat rows say themselves that they are deleted.
        self.marked = False
        #: Whether they are rows alone; None: nobody knows yet.
        self.flat: bool | None = None


class ChangesBase(ABC):
    """Decodes batches of messages; for one thread."""

    def __init__(
        self,
        settings: DebeziumFormat,
        schema: Schema | None,
        key: tuple[str, ...],
        keys: Keys,
        *,
        transactions: bool,
    ) -> None:
        self.settings = settings
        #: Whether there is a table.
        self.known = schema is not None
        self.schema = schema if schema is not None else Schema(())
        self.transactions = transactions
        self.columns = Columns(self.schema.fields, Placeholder(settings.placeholder))
        self._key = key
        self._keys = keys

    def decode(self, raw: RawBatch) -> Changes:
        sent = self._keys.names(raw)
        batch = Batch(raw, self._key or sent, sent)
        if self.settings.envelope != "auto":
            batch.flat = self.settings.envelope == "flat"
        self.read(batch)
        if batch.shape is not None or not self.known:
            shape = Shape(batch.shape, batch.key) if batch.shape and batch.shape.fields else None
            bad = [] if shape else batch.bad
            return nothing(raw, self.schema, bad, shape, with_transactions=self.transactions)
        if batch.flat and not batch.marked:
            self._tombstones(batch)
        return finished(
            raw,
            self.schema,
            batch.parts,
            batch.bad,
            self.settings.sequence_by,
            with_transactions=self.transactions,
        )

    @abstractmethod
    def read(self, batch: Batch) -> None:
        """Adds the changes of all messages that have a value."""

    def is_flat(self, batch: Batch, names: set[str]) -> bool:
        """Of messages with these fields. The first ones asked for decide: a broken one among envelopes must
        not pass for a row, nor make tombstones to deletes."""
        if batch.flat is None:
            batch.flat = not ("op" in names and names & {"before", "after", "source"})
        return batch.flat

    def is_other(self, names: set[str]) -> bool:
        """Messages of Debezium's own that are no changes: about transactions, about DDL, heartbeats. Of those
        that are said to be changes, none are."""
        if self.settings.envelope != "auto":
            return False
        return names == {"ts_ms"} or names >= _TRANSACTION or names >= _DDL

    def grow(self, batch: Batch, columns: Fields) -> bool:
        """Whether the table would need something for these columns."""
        base = batch.shape or (self.schema if self.known else None)
        shape = grown(base, self.settings.columns, columns)
        batch.shape = shape or batch.shape
        return batch.shape is not None

    def add(
        self,
        batch: Batch,
        rows: Rows,
        facts: Facts | None,
        places: Longs,
        extra: dict[str, pa.Array],
        columns: Fields = (),
    ) -> None:
        """Rows, their places being among `places`. `facts` are of all those; None: the rows' own fields.
        `columns`: what their schema tells."""
        if facts is None:
            own = flat_facts(extra, header_texts(batch.raw.headers, places[rows.places]), len(rows.places))
        else:
            rows = self._lenient(batch, rows, facts, places)
            own = facts.take(rows.places)
        batch.bad += [moved(one, places) for one in rows.bad]
        found = Rows(places[rows.places], rows.columns, rows.holes)
        self._add(batch, found, own, next(formless(columns), None))

    def _lenient(self, batch: Batch, rows: Rows, facts: Facts, places: Longs) -> Rows:
        """A delete whose row cannot be read is one all the same, if its message has a key."""
        keys = batch.raw.keys
        if not rows.bad or keys is None:
            return rows
        saved = [
            one.index
            for one in rows.bad
            if facts.op[one.index] == Op.DELETE and keys[int(places[one.index])].is_valid
        ]
        if not saved:
            return rows
        left = tuple(one for one in rows.bad if one.index not in set(saved))
        nulls = tuple(pa.nulls(len(saved), field.type) for field in self.schema.to_arrow())
        more = Rows(np.array(saved, np.int64), nulls, {})
        return joined([Rows(rows.places, rows.columns, rows.holes, left), more])

    def _add(self, batch: Batch, rows: Rows, facts: Facts, odd: str | None = None) -> None:
        """With the keys of deletes, which may come without a row."""
        deletes = np.flatnonzero(facts.op == Op.DELETE)
        fields = tuple(one for one in self.schema if one.name in batch.key and one.name in batch.sent)
        keys = batch.raw.keys
        if len(deletes) and fields and keys is not None:
            found = self._keys.read(keys.take(pa.array(rows.places[deletes])), deletes, fields)
            if found is not None:
                rows = patched(rows, found, [self.schema.fields.index(field) for field in fields])
        batch.parts.append(checked(rows, facts, self.schema, batch.key, odd))

    def _tombstones(self, batch: Batch) -> None:
        """Flat messages without a value delete by their key, where rows do not say so themselves."""
        empty = np.flatnonzero(mask_of(batch.raw.values.is_null()))
        if not len(empty):
            return
        columns = tuple(pa.nulls(len(empty), field.type) for field in self.schema.to_arrow())
        facts = flat_facts({}, header_texts(batch.raw.headers, empty), len(empty))
        facts.op[:] = Op.DELETE
        self._add(batch, Rows(empty, columns, {}), facts)


def moved(one: Undecodable, places: Longs) -> Undecodable:
    return Undecodable(int(places[one.index]), one.reason, one.field, one.fault)
