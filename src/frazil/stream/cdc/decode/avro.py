"""Debezium's messages in Avro, by the schemas of a registry, in their envelope or flat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.errors import InvalidConfig, NotFound
from frazil.core.schema import Field, Schema, StructType
from frazil.stream.cdc.decode.base import Batch, ChangesBase, moved
from frazil.stream.cdc.decode.finish import IGNORED, codes_of, facts_of, unfit
from frazil.stream.cdc.decode.flat import split_meta
from frazil.stream.cdc.decode.holes import Placeholder
from frazil.stream.cdc.decode.position import SOURCE_FIELDS, Source
from frazil.stream.cdc.decode.rows import Columns, Rows, joined
from frazil.stream.cdc.decode.trouble import Longs, mask_of
from frazil.stream.cdc.decode.wire import Fields, Wire, formless, physical
from frazil.stream.cdc.decode.wire_schema import avro_wire
from frazil.stream.config.model import AvroFormat, DebeziumFormat, Registry
from frazil.stream.decode.avro import AvroDecoder
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.registry import HEADER_BYTES, NO_HEADER, NO_VALUE, RegistryClient, header_ids
from frazil.stream.source import RawBatch

_LONGEST = 2**31 - 1


@dataclass(frozen=True)
class _Writer:
    """A registered schema."""

    wire: Wire
    #: Its text, values being what they are written as.
    text: str
    _decoders: dict[Schema, AvroDecoder] = field(default_factory=dict)

    def read(self, values: pa.BinaryArray, wanted: Schema) -> tuple[Longs, pa.RecordBatch, list[Undecodable]]:
        """Places and columns of the good ones of messages that are without their header."""
        if wanted not in self._decoders:
            self._decoders[wanted] = AvroDecoder(wanted, AvroFormat(schema=self.text))
        found = self._decoders[wanted].decode(RawBatch("", 0, values, None, None))
        places = np.delete(np.arange(len(values)), [one.index for one in found.bad])
        return places, found.rows, list(found.bad)


class _Writers:
    """Schemas by their ids."""

    def __init__(self, registry: Registry) -> None:
        self._client = RegistryClient(registry)
        self._known: dict[int, _Writer] = {}

    def get(self, number: int) -> _Writer | str:
        """Why there is none, if so. Unavailable: the registry does not answer."""
        known = self._known.get(number)
        if known is not None:
            return known
        try:
            registered = self._client.schema(number)
        except NotFound as problem:
            return problem.message
        if registered.kind != "AVRO" or registered.references:
            what = "refers to others" if registered.kind == "AVRO" else f"is one of {registered.kind}"
            return f"schema {number} {what}; Debezium's are of Avro, each whole in itself"
        try:
            found = _Writer(*avro_wire(registered.text))
            found.read(pa.array([], pa.binary()), Schema(()))
        except (InvalidConfig, ValueError, KeyError, TypeError) as problem:
            return f"schema {number} is no Avro schema that can be read: {problem}"
        self._known[number] = found
        return found

    def groups(self, values: pa.BinaryArray) -> Iterator[tuple[int, Longs, pa.BinaryArray]]:
        """Messages that have a value by the id of their schema, without their header; the most first."""
        ids = header_ids(values)
        numbers, counts = np.unique(ids, return_counts=True)
        for number in numbers[np.argsort(-counts, kind="stable")]:
            if number == NO_VALUE:
                continue
            places = np.flatnonzero(ids == number)
            mine = values if len(places) == len(values) else values.take(pa.array(places))
            # Arrow's room for the result overflows without an end.
            yield int(number), places, pc.binary_slice(mine, HEADER_BYTES, _LONGEST)


class AvroChanges(ChangesBase):
    """Decodes batches of messages; for one thread."""

    def __init__(
        self, settings: DebeziumFormat, schema: Schema | None, key: tuple[str, ...], *, transactions: bool
    ) -> None:
        if settings.registry is None:
            raise InvalidConfig("change events in Avro name their schema: give the pipeline a `registry`")
        self._writers = _Writers(settings.registry)
        keys = _AvroKeys(self._writers, settings)
        super().__init__(settings, schema, key, keys, transactions=transactions)

    def read(self, batch: Batch) -> None:
        for number, places, values in self._writers.groups(batch.raw.values):
            writer = _no_header() if number == NO_HEADER else self._writers.get(number)
            if isinstance(writer, str):
                fault = Fault.BROKEN if number == NO_HEADER else Fault.UNKNOWN_SCHEMA
                batch.bad += [Undecodable(int(place), writer, None, fault) for place in places]
            elif self.is_other(names := {name for name, _ in writer.wire.inner}):
                continue
            elif self.is_flat(batch, names):
                self._flat(batch, writer, places, values)
            else:
                self._enveloped(batch, writer, places, values)

    def _flat(self, batch: Batch, writer: _Writer, places: Longs, values: pa.BinaryArray) -> None:
        columns, extra = split_meta(writer.wire.inner)
        batch.marked |= "__deleted" in extra
        if self.grow(batch, columns):
            return
        wanted = Schema((*self._wanted(columns), *_fields(tuple(extra.items()))))
        good, found, bad = writer.read(values, wanted)
        batch.bad += [moved(one, places) for one in bad]
        arrays = _by_name(found)
        rows = self.columns.rows(arrays, dict(columns), good)
        kept = pa.array(np.isin(good, rows.places))
        more = {name: arrays[name].filter(kept) for name in extra}
        self.add(batch, rows, None, places, more, columns)

    def _enveloped(self, batch: Batch, writer: _Writer, places: Longs, values: pa.BinaryArray) -> None:
        wire = writer.wire
        image = wire.field("after") or wire.field("before") or Wire("struct")
        if self.grow(batch, image.inner):
            return
        good, found, bad = writer.read(values, self._envelope(wire, image.inner))
        batch.bad += [moved(one, places) for one in bad]
        op = codes_of(found.column("op"))
        after = found.column("after")
        wrong = unfit(op, found.column("op"), mask_of(after.is_valid()))
        batch.bad += [moved(one, places[good]) for one in wrong]
        fit = op != IGNORED
        fit[[one.index for one in wrong]] = False
        ids = found.column("transaction").field("id") if self.transactions else None
        facts = facts_of(op, _source(found), ids)
        arrays = _by_name(pa.RecordBatch.from_struct_array(after)) if after.type.num_fields else {}
        deletes = np.flatnonzero(op == Op.DELETE)
        if len(deletes):
            arrays = self._before(writer, values.take(pa.array(good[deletes])), deletes, arrays, image.inner)
        kept = np.flatnonzero(fit)
        if len(kept) < len(fit):
            chosen = pa.array(kept)
            arrays = {name: one.take(chosen) for name, one in arrays.items()}
        if len(kept):
            rows = self.columns.rows(arrays, dict(image.inner), np.arange(len(kept)))
            self.add(batch, rows, facts.take(kept), places[good][kept], {}, image.inner)

    def _envelope(self, wire: Wire, columns: Fields) -> Schema:
        source = wire.field("source") or Wire("struct")
        known = tuple(Field(name, SOURCE_FIELDS[name]) for name, _ in source.inner if name in SOURCE_FIELDS)
        block = StructType((Field("id", "string"),))
        return Schema(
            (
                Field("after", StructType(self._wanted(columns))),
                Field("source", StructType(known)),
                *((Field("transaction", block),) if self.transactions else ()),
                Field("op", "string"),
            )
        )

    def _wanted(self, columns: Fields) -> tuple[Field, ...]:
        """Of the columns that the table has."""
        mine = {one.name for one in self.schema}
        return _fields(tuple((name, wire) for name, wire in columns if name in mine))

    def _before(
        self,
        writer: _Writer,
        values: pa.BinaryArray,
        deletes: Longs,
        arrays: Mapping[str, pa.Array],
        columns: Fields,
    ) -> dict[str, pa.Array]:
        """With the rows of deletes as they were."""
        good, found, _ = writer.read(values, Schema((Field("before", StructType(self._wanted(columns))),)))
        before = found.column("before")
        chosen = np.arange(len(next(iter(arrays.values()), [])))
        chosen[deletes[good]] = len(chosen) + np.arange(len(good))
        numbers = pa.array(chosen)
        return {
            name: pa.concat_arrays([one, before.field(name)]).take(numbers) for name, one in arrays.items()
        }


class _AvroKeys:
    """Keys of messages in Avro."""

    def __init__(self, writers: _Writers, settings: DebeziumFormat) -> None:
        self._writers = writers
        self._placeholder = Placeholder(settings.placeholder)

    def names(self, raw: RawBatch) -> tuple[str, ...]:
        """Of most of them."""
        ids = header_ids(raw.keys) if raw.keys is not None else np.zeros(0, np.int64)
        known = ids[ids >= 0]
        if not len(known):
            return ()
        numbers, counts = np.unique(known, return_counts=True)
        writer = self._writers.get(int(numbers[np.argmax(counts)]))
        return () if isinstance(writer, str) else tuple(name for name, _ in writer.wire.inner)

    def read(self, keys: pa.BinaryArray, places: Longs, fields: tuple[Field, ...]) -> Rows | None:
        columns = Columns(fields, self._placeholder)
        parts = []
        for number, mine, values in self._writers.groups(keys):
            writer = "" if number == NO_HEADER else self._writers.get(number)
            if isinstance(writer, str):
                continue
            names = {one.name for one in fields}
            wires = {name: wire for name, wire in writer.wire.inner if name in names}
            good, found, _ = writer.read(values, Schema(_fields(tuple(wires.items()))))
            rows = columns.rows(_by_name(found), wires, good)
            parts.append(Rows(places[mine[rows.places]], rows.columns, rows.holes))
        return joined(parts) if parts else None


def _no_header() -> str:
    return "a record does not begin with 00 and the id of its schema in 4 bytes"


def _fields(columns: Fields) -> tuple[Field, ...]:
    odd = set(formless(columns))
    return tuple(Field(name, physical(wire)) for name, wire in columns if name not in odd)


def _by_name(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return {name: batch.column(name) for name in batch.schema.names}


def _source(found: pa.RecordBatch) -> Source:
    block = found.column("source")
    return {one.name: block.field(one.name) for one in block.type}
