"""Debezium's messages in JSON, with schemas or without, in their envelope or flat."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.errors import InvalidConfig
from frazil.core.schema import Schema
from frazil.stream.cdc.decode.base import Batch, ChangesBase, moved
from frazil.stream.cdc.decode.envelope import Envelopes, read_envelopes
from frazil.stream.cdc.decode.finish import IGNORED, Codes, Facts, codes_of, facts_of, unfit
from frazil.stream.cdc.decode.flat import meta_of_row, split_meta
from frazil.stream.cdc.decode.groups import Group, schema_groups
from frazil.stream.cdc.decode.infer import REFUSED, inferred, loose_reader
from frazil.stream.cdc.decode.keys import JsonKeys
from frazil.stream.cdc.decode.loose import adapted
from frazil.stream.cdc.decode.rows import JsonRows, Rows, without
from frazil.stream.cdc.decode.trouble import Longs, mask_of
from frazil.stream.cdc.decode.wire import Fields, Wire, formless
from frazil.stream.cdc.decode.wire_schema import connect_wire
from frazil.stream.config.model import DebeziumFormat
from frazil.stream.decode.decoded import Fault, Undecodable

_NO_ROW = b"{}"
_BROKEN = 'begins with a schema, but is not one JSON object of "schema" and "payload"'


@dataclass(frozen=True)
class _Kind:
    """What messages with one schema are."""

    flat: bool
    #: None: no schema tells them.
    columns: Fields | None
    #: Fields of a flat row that are no columns.
    extra: Mapping[str, Wire]
    reader: JsonRows


class JsonChanges(ChangesBase):
    """Decodes batches of messages; for one thread."""

    def __init__(
        self, settings: DebeziumFormat, schema: Schema | None, key: tuple[str, ...], *, transactions: bool
    ) -> None:
        super().__init__(settings, schema, key, JsonKeys(settings), transactions=transactions)
        self._kinds: dict[tuple[bytes, bool | None], _Kind] = {}

    def read(self, batch: Batch) -> None:
        for group in schema_groups(batch.raw.values):
            if group.broken:
                batch.bad += [Undecodable(int(place), _BROKEN) for place in group.places]
                continue
            try:
                kind = self._kind(batch, group)
            except InvalidConfig as problem:
                batch.bad += [
                    Undecodable(int(place), problem.message, "schema", Fault.UNKNOWN_SCHEMA)
                    for place in group.places
                ]
                continue
            if kind is None:
                continue
            batch.marked |= "__deleted" in kind.extra
            if kind.columns is not None and self.grow(batch, kind.columns):
                continue
            if kind.flat:
                self._rows(batch, kind, group.payload, group.places, None)
            else:
                self._enveloped(batch, group, kind)

    def _kind(self, batch: Batch, group: Group) -> _Kind | None:
        """None: they are no changes."""
        known = self._kinds.get((group.head, batch.flat))
        if known is None:
            known = self._new_kind(batch, group)
            if known is None:
                return None
            self._kinds[group.head, batch.flat] = known
        batch.flat = known.flat
        return known

    def _new_kind(self, batch: Batch, group: Group) -> _Kind | None:
        schema = group.schema()
        if schema is None:
            row = _first(group.payload)
            if self.is_other(set(row)):
                return None
            flat = self.is_flat(batch, set(row))
            extra = meta_of_row(row) if flat else {}
            return _Kind(flat, None, extra, loose_reader(self.schema, self.settings, extra, strict=True))
        wire = connect_wire(schema)
        names = {name for name, _ in wire.inner}
        if self.is_other(names):
            return None
        flat = self.is_flat(batch, names)
        image = wire if flat else wire.field("after") or wire.field("before") or Wire("struct")
        columns, extra = split_meta(image.inner) if flat else (image.inner, {})
        odd = set(formless(columns))
        own = {name: one for name, one in columns if name not in odd}

        def wires(row: Mapping[str, Any]) -> Mapping[str, Wire]:
            return {name: adapted(one, row.get(name)) for name, one in own.items()}

        return _Kind(flat, columns, extra, JsonRows(self.columns, wires, extra, strict=False))

    def _enveloped(self, batch: Batch, group: Group, kind: _Kind) -> None:
        found, bad = read_envelopes(group.payload)
        batch.bad += [moved(one, group.places) for one in bad]
        op = codes_of(found.op)
        places = group.places[found.places]
        wrong = unfit(op, found.op, mask_of(found.after.is_valid()))
        batch.bad += [moved(one, places) for one in wrong]
        good = op != IGNORED
        good[[one.index for one in wrong]] = False
        images = _images(found, op)
        facts = facts_of(op, found.source, found.transaction if self.transactions else None)
        if not good.all():
            kept = np.flatnonzero(good)
            images, facts, places = images.take(pa.array(kept)), facts.take(kept), places[kept]
        if len(places):
            self._rows(batch, kind, images, places, facts)

    def _rows(
        self, batch: Batch, kind: _Kind, images: pa.BinaryArray, places: Longs, facts: Facts | None
    ) -> None:
        if not self.known:
            columns = self.settings.columns
            base = batch.shape or Schema(columns.fields if columns else ())
            batch.shape, _ = inferred(base, images, self.settings, kind.extra)
            return
        rows, extra = kind.reader.read(images)
        if rows.changes:
            base = batch.shape or self.schema
            shape, refused = inferred(base, images, self.settings, kind.extra)
            if shape is not base:
                batch.shape = shape
                return
            rows, extra = self._without_refused(kind, images, refused)
        self.add(batch, rows, facts, places, extra, kind.columns or ())

    def _without_refused(
        self, kind: _Kind, images: pa.BinaryArray, refused: frozenset[str]
    ) -> tuple[Rows, dict[str, pa.Array]]:
        """Rows that have one of these columns are bad."""
        more = {**kind.extra, **dict.fromkeys(refused, Wire("string"))}
        rows, extra = loose_reader(self.schema, self.settings, more, strict=False).read(images)
        found: dict[int, Undecodable] = {}
        for name in sorted(refused):
            for place in np.flatnonzero(mask_of(extra[name].is_valid())):
                found.setdefault(int(place), Undecodable(int(place), REFUSED, name, Fault.TYPE))
        kept = np.ones(len(rows.places), bool)
        kept[list(found)] = False
        mask = pa.array(kept)
        return without(rows, found), {name: values.filter(mask) for name, values in extra.items()}


def _first(payload: pa.BinaryArray) -> dict[str, Any]:
    """The first object of a group; without a schema they are all taken to be like it."""
    for value in payload[:100].to_pylist():
        try:
            row = json.loads(value)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            return row
    return {}


def _images(found: Envelopes, op: Codes) -> pa.BinaryArray:
    """Rows as they are after the change; of deletes as they were, as far as that is told."""
    images = found.after
    if (op == Op.DELETE).any():
        images = pc.coalesce(images, found.before)
    return images.fill_null(_NO_ROW) if images.null_count else images
