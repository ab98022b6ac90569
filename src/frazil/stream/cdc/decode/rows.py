"""Rows in JSON into columns, whatever way their values are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.core.schema import Field, Schema, SchemaChange, Type
from frazil.stream.cdc.decode.convert import converted
from frazil.stream.cdc.decode.holes import Placeholder
from frazil.stream.cdc.decode.trouble import Longs, Mask, Trouble
from frazil.stream.cdc.decode.wire import ISO, UUID, Wire, physical
from frazil.stream.config.model import Contract, JsonFormat
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.source import RawBatch

#: The wire types of the columns of a row, for rows that look like this one.
Wires = Callable[[Mapping[str, Any]], Mapping[str, Wire]]
#: So often rows that look another way are read together; from then on one by one.
_TOGETHER = 8


@dataclass(frozen=True)
class Rows:
    """Columns of the good rows."""

    #: Their places among those that were given.
    places: Longs
    columns: tuple[pa.Array, ...]
    #: By column, which values were left out at the source.
    holes: Mapping[int, Mask]
    bad: tuple[Undecodable, ...] = ()
    #: Fields that no column has, if such are looked for; there are no rows then.
    changes: tuple[SchemaChange, ...] = ()


class Columns:
    """Brings values as they were written into the columns of a table."""

    def __init__(self, fields: tuple[Field, ...], placeholder: Placeholder) -> None:
        self.fields = fields
        self._placeholder = placeholder

    def rows(self, batch: Mapping[str, pa.Array], wires: Mapping[str, Wire], places: Longs) -> Rows:
        """Of values by name; those that are not there are null."""
        columns, holes = [], {}
        trouble = Trouble()
        for index, field in enumerate(self.fields):
            values, wire = batch.get(field.name), wires.get(field.name)
            if values is None or wire is None:
                columns.append(pa.nulls(len(places), field_type(field)))
                continue
            left_out = self._placeholder.holes(values, wire)
            if left_out is not None:
                holes[index] = left_out
                values = values.filter(pa.array(~left_out)).take(_spread(left_out))
            columns.append(converted(values, wire, field.type, trouble.inside(field.name)))
        rows = Rows(places, tuple(columns), holes)
        return without(rows, trouble.found) if trouble.found else rows


def field_type(field: Field) -> pa.DataType:
    return Schema((field,)).to_arrow().field(0).type


def _spread(gone: Mask) -> pa.Array:
    """Places among what is left; null for what is gone."""
    return pa.array(np.cumsum(~gone) - 1, mask=gone)


def without(rows: Rows, found: Mapping[int, Undecodable]) -> Rows:
    """Less those that are bad, which are named by their place here."""
    kept = np.ones(len(rows.places), bool)
    kept[list(found)] = False
    mask = pa.array(kept)
    bad = [
        Undecodable(int(rows.places[one.index]), one.reason, one.field, one.fault)
        for _, one in sorted(found.items())
    ]
    return Rows(
        rows.places[kept],
        tuple(column.filter(mask) for column in rows.columns),
        {index: holes[kept] for index, holes in rows.holes.items()},
        (*rows.bad, *bad),
        rows.changes,
    )


def joined(parts: list[Rows]) -> Rows:
    """In the order of their places."""
    if len(parts) == 1:
        return parts[0]
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places, kind="stable")
    numbers = pa.array(order)
    columns = tuple(
        pa.concat_arrays([part.columns[index] for part in parts]).take(numbers)
        for index in range(len(parts[0].columns))
    )
    holes = {}
    for index in {index for part in parts for index in part.holes}:
        masks = [part.holes.get(index, np.zeros(len(part.places), bool)) for part in parts]
        holes[index] = np.concatenate(masks)[order]
    bad = tuple(sorted((one for part in parts for one in part.bad), key=lambda one: one.index))
    return Rows(places[order], columns, holes, bad, tuple(c for part in parts for c in part.changes))


def patched(rows: Rows, found: Rows, indexes: list[int]) -> Rows:
    """With the columns of keys at their places."""
    columns = list(rows.columns)
    chosen = np.arange(len(rows.places))
    chosen[found.places] = len(rows.places) + np.arange(len(found.places))
    numbers = pa.array(chosen)
    for index, values in zip(indexes, found.columns, strict=True):
        columns[index] = pa.concat_arrays([columns[index], values]).take(numbers)
    return Rows(rows.places, tuple(columns), rows.holes, rows.bad)


class JsonRows:
    """Reads objects that are rows. Values that are written in another way than the first ones are no matter:
    those rows are read again as they look."""

    def __init__(self, columns: Columns, wires: Wires, extra: Mapping[str, Wire], *, strict: bool) -> None:
        """`extra`: fields that are no columns; `strict`: fields that are neither are looked for."""
        self._columns = columns
        self._wires = wires
        self._extra = extra
        contract = Contract(columns="evolve" if strict else "discard_value")
        self._contract = contract
        self._decoders: dict[tuple[tuple[str, Type], ...], JsonDecoder] = {}
        self._usual = wires({})

    def read(self, images: pa.BinaryArray) -> tuple[Rows, dict[str, pa.Array]]:
        """Rows, and the extra fields of the good ones."""
        parts: list[tuple[Rows, dict[str, pa.Array]]] = []
        places = np.arange(len(images))
        left, bad = self._part(images, places, self._usual, parts, quick=True)
        rounds = 0
        lost: list[Undecodable] = []
        while len(left):
            rounds += 1
            took = left if rounds <= _TOGETHER else left[:1]
            wires = self._looks(images[int(took[0])].as_py())
            if wires is None:
                lost.append(bad[int(took[0])])
                left = left[1:]
                continue
            rest, reasons = self._part(images.take(pa.array(took)), took, wires, parts, quick=False)
            if len(rest) and rest[0] == took[0]:
                lost.append(reasons[int(rest[0])])
                rest = rest[1:]
            bad |= reasons
            if 2 * (len(took) - len(rest)) > len(images):
                self._usual = wires
            left = rest if rounds <= _TOGETHER else np.concatenate([rest, left[1:]])
        return self._whole(parts, lost)

    def _whole(
        self, parts: list[tuple[Rows, dict[str, pa.Array]]], lost: list[Undecodable]
    ) -> tuple[Rows, dict[str, pa.Array]]:
        rows = joined([part for part, _ in parts])
        extra = parts[0][1]
        if len(parts) > 1:
            order = pa.array(np.argsort(np.concatenate([part.places for part, _ in parts]), kind="stable"))
            extra = {name: pa.concat_arrays([more[name] for _, more in parts]).take(order) for name in extra}
        bad = tuple(sorted((*rows.bad, *lost), key=lambda one: one.index))
        return replace(rows, bad=bad), extra

    def _looks(self, image: bytes) -> Mapping[str, Wire] | None:
        try:
            return self._wires(json.loads(image))
        except (ValueError, AttributeError, RecursionError):
            return None

    def _part(
        self,
        images: pa.BinaryArray,
        places: Longs,
        wires: Mapping[str, Wire],
        parts: list[tuple[Rows, dict[str, pa.Array]]],
        *,
        quick: bool,
    ) -> tuple[Longs, dict[int, Undecodable]]:
        """Adds the rows that are written this way, and gives those that are not."""
        decoded = self._decoder(wires, quick=quick).decode(RawBatch("", 0, images, None, None))
        bad = {int(places[one.index]): one for one in decoded.bad}
        kept = np.delete(places, [one.index for one in decoded.bad])
        if decoded.changes:
            kept = kept[:0]
        batch = {name: decoded.rows.column(name) for name in decoded.rows.schema.names}
        extra = {name: batch[name] for name in self._extra}
        rows = self._columns.rows(batch, wires, kept)
        if len(rows.places) < len(kept):
            mask = pa.array(np.isin(kept, rows.places))
            extra = {name: values.filter(mask) for name, values in extra.items()}
        parts.append((replace(rows, changes=decoded.changes), extra))
        moved = {place: Undecodable(place, one.reason, one.field, one.fault) for place, one in bad.items()}
        return np.array(sorted(bad), np.int64), moved

    def _decoder(self, wires: Mapping[str, Wire], *, quick: bool) -> JsonDecoder:
        types = [
            (field.name, _read_as(wire, field.type) if quick else physical(wire))
            for field in self._columns.fields
            if (wire := wires.get(field.name)) is not None
        ]
        types += [(name, physical(wire)) for name, wire in self._extra.items()]
        key = tuple(types)
        if key not in self._decoders:
            schema = Schema(tuple(Field(name, kind) for name, kind in types))
            self._decoders[key] = JsonDecoder(schema, JsonFormat(), self._contract)
        return self._decoders[key]


def _read_as(wire: Wire, target: Type) -> Type:
    """Straight into the column's type, where the native decoder reads the same text."""
    if wire.kind == "string" and target in ("timestamptz", "uuid"):
        same = (ISO.get(wire.logical) == "timestamptz", wire.logical == UUID)
        return target if same[("timestamptz", "uuid").index(str(target))] else "string"
    if wire == Wire("string") and isinstance(target, str) and target.startswith("decimal"):
        return target
    return physical(wire)
