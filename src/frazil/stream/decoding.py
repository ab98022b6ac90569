"""Inside tasks: from slices to typed rows, with what could not become one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from frazil.core.errors import BadRecord
from frazil.core.failpoints import reach
from frazil.core.schema import Schema, SchemaChange, arrow_type
from frazil.stream.bootstrap.place import is_history
from frazil.stream.config.model import Contract, Format, MetadataColumns, ParquetFormat
from frazil.stream.decode.decoded import Decoded, Decoder, Fault, Undecodable
from frazil.stream.decode.formats import decoder_of
from frazil.stream.needs import Lacking, Needs
from frazil.stream.sizes import LARGEST, fitting, taken
from frazil.stream.source import RawBatch, Reader, Slice


@dataclass(frozen=True)
class Reading:
    """How records are fetched and decoded. Sent by broadcast: the reader may hold secrets."""

    reader: Reader
    format: Format
    #: The columns of values.
    schema: Schema
    metadata: MetadataColumns = field(default_factory=MetadataColumns)
    contract: Contract = field(default_factory=Contract)
    event_time: str | None = None
    #: Whether bad records are set aside; else the first one ends the round.
    lenient: bool = False
    #: Bytes of a record above which it is bad.
    largest: int = LARGEST

    @property
    def columns(self) -> Schema:
        """Of the rows."""
        return Schema((*self.schema.fields, *self.metadata.fields()))


@dataclass(frozen=True)
class Rows:
    """One batch: as it came, its good records as rows, and the bad ones."""

    raw: RawBatch
    batch: pa.RecordBatch
    bad: tuple[Undecodable, ...] = ()


def decoded(reading: Reading, slices: Sequence[Slice]) -> Iterator[Rows]:
    """The records of the slices. BadRecord: one that stops the pipeline; Lacking: the table must change."""
    reserved = tuple(column.name for column in reading.metadata.fields())
    decoder = decoder_of(reading.format, reading.schema, reading.contract, reserved)
    history: Decoder | None = None
    changes: list[SchemaChange] = []
    for raw in reading.reader.read(slices):
        reach("task.fetched")
        if is_history(raw.topic):
            # Columns of metadata as well: the table may have them, and its rows are of no record of now.
            history = history or decoder_of(ParquetFormat(), reading.columns, reading.contract)
            found = history.decode(raw)
        else:
            found = _decode(decoder, raw, reading.largest)
        stopping = next((bad for bad in found.bad if _stops(reading, bad)), None)
        if stopping is not None:
            raise _bad_record(reading, raw, stopping)
        changes += found.changes
        # All that the slices need is collected, so that the round is run again once.
        if not changes:
            rows = found.rows if is_history(raw.topic) else _with_metadata(raw, found, reading.metadata)
            yield Rows(raw, rows, found.bad)
    if changes:
        raise Lacking(Needs.of(changes))


def _decode(decoder: Decoder, raw: RawBatch, largest: int) -> Decoded:
    fit = fitting(raw, largest)
    found = decoder.decode(fit.raw)
    return replace(found, bad=fit.bad(found.bad))


def _with_metadata(raw: RawBatch, found: Decoded, wanted: MetadataColumns) -> pa.RecordBatch:
    fields = wanted.fields()
    if not fields:
        return found.rows
    if found.bad:
        good = np.setdiff1d(np.arange(len(raw)), [bad.index for bad in found.bad])
        raw = taken(raw, pa.array(good, pa.int64()))
    length = len(raw)
    columns: dict[str | None, Callable[[], pa.Array]] = {
        wanted.topic: lambda: pa.repeat(raw.topic, length),
        wanted.partition: lambda: pa.repeat(pa.scalar(raw.partition, pa.int32()), length),
        wanted.offset: lambda: raw.offsets,
        wanted.timestamp: raw.times,
        wanted.key: lambda: _or_nulls(raw.keys, length),
        wanted.headers: lambda: _or_nulls(raw.headers, length),
    }
    batch = found.rows
    for column in fields:
        kind = arrow_type(column.type)
        values = columns[column.name]()
        batch = batch.append_column(pa.field(column.name, kind), values.cast(kind))
    return batch


def _or_nulls(column: pa.Array | None, length: int) -> pa.Array:
    return pa.nulls(length) if column is None else column


def _stops(reading: Reading, bad: Undecodable) -> bool:
    if not reading.lenient:
        return True
    frozen = {Fault.UNKNOWN_FIELD: reading.contract.columns, Fault.TYPE: reading.contract.types}
    return frozen.get(bad.fault) == "freeze"


def _bad_record(reading: Reading, raw: RawBatch, bad: Undecodable) -> BadRecord:
    offset = raw.offsets[bad.index].as_py()
    where = f"topic {raw.topic}, partition {raw.partition}, offset {offset}"
    then = (
        "Everything before it is in the table, and the pipeline stops there. Correct the schema, let bad "
        "records go to a dead-letter table (`dead_letters`), or skip this one record with `frazil reset "
        f"pipelines.yaml NAME --to-offsets {raw.topic}={raw.partition}:{offset + 1}`"
    )
    if "/" in raw.topic:
        # No topic has such a name: a file is taken as a whole, or not.
        where = f"{raw.topic}, record {offset}"
        then = "Correct the schema or the file, or let bad records go to a dead-letter table (`dead_letters`)"
    frozen = " (the contract says freeze)" if reading.lenient else ""
    return BadRecord.at(
        (raw.topic, raw.partition, offset), f"a record cannot be taken{frozen}: {where}: {bad.reason}. {then}"
    )
