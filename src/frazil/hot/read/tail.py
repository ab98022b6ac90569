"""The tail of a hot table's log: what is not in the snapshot yet. Runs in tasks and in this process alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.errors import BadRecord, SourceChanged
from frazil.core.schema import Schema
from frazil.hot.table import LETTERS
from frazil.stream.cdc.changes import ChangeDecoder, Changes
from frazil.stream.cdc.decode.decoder import change_decoder
from frazil.stream.cdc.fold import key_codes
from frazil.stream.config.model import JsonFormat
from frazil.stream.sizes import LARGEST, fitting
from frazil.stream.source import RawBatch, Reader, Slice

#: Beside the columns of the table: whether the row of that key is gone, and then only the key is there.
GONE = "frazil gone"
#: Where in the log of its partition the change is.
OFFSET = "frazil offset"
#: Changes that are held before all but the last of each key are let go.
_HELD = 262_144


@dataclass(frozen=True)
class TailRead:
    """How the tail of one table is read. Sent by broadcast: the reader may hold secrets."""

    table: str
    reader: Reader
    #: The columns of the answer.
    schema: Schema
    #: None of them: rows are only appended.
    key: tuple[str, ...] = ()
    #: Whether bad records are left out, as tiering does with them; else the first one ends the read.
    lenient: bool = False
    #: Whether the log has several partitions: a row of a keyed table is then where its record's key puts it.
    several: bool = False

    def batches(self, slices: Sequence[Slice]) -> Iterator[pa.RecordBatch]:
        """What the slices come to, with `GONE`. A key's changes must all be in one of them.

        Of a log table every record is a row; of a keyed one, the last change of each key.
        """
        for part in slices:
            found = (batch.drop_columns([OFFSET]) for batch in self.changes(part))
            if self.key:
                yield from self._folded(found)
            else:
                yield from found

    def changes(self, part: Slice) -> Iterator[pa.RecordBatch]:
        """Every change of a slice in its order, with `GONE` and `OFFSET`; batches may be empty."""
        for changes in self.decoded(part):
            gone = pc.equal(changes.order.column("op"), int(Op.DELETE))
            rows = changes.rows.append_column(pa.field(GONE, pa.bool_(), False), gone)
            yield rows.append_column(pa.field(OFFSET, pa.int64(), False), changes.order.column("offset"))

    def decoded(self, part: Slice) -> Iterator[Changes]:
        """The same as it comes from the decoder, with what is bad and left out."""
        decoder = change_decoder(JsonFormat(), self.schema, self.key, several=self.several)
        try:
            for raw in self.reader.read([part]):
                changes = _decode(decoder, raw)
                if changes.bad and not self.lenient:
                    raise self._bad(changes)
                yield changes
        except SourceChanged as error:
            raise SourceChanged(
                f"the tail of the hot table {self.table} cannot be read; if the log was trimmed since it was "
                f"pinned, pin it again: {error.message}"
            ) from None

    def _folded(self, changes: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        count, limit = 0, _HELD
        for batch in changes:
            held.append(batch)
            count += len(batch)
            if count >= limit:
                held = last_of(held, self.key).to_batches()
                count = sum(map(len, held))
                limit = max(_HELD, 2 * count)
        if held:
            yield from last_of(held, self.key).to_batches()

    def _bad(self, changes: Changes) -> BadRecord:
        raw, first = changes.raw, changes.bad[0]
        offset = raw.offsets[first.index].as_py()
        return BadRecord.at(
            (raw.topic, raw.partition, offset),
            f"a record of the hot table {self.table} is no row of it: topic {raw.topic}, partition "
            f"{raw.partition}, offset {offset}: {first.reason}. Tiering stops there as well, and what comes "
            f"after it cannot be read. Name a table for such records in the property {LETTERS}: both then "
            "leave them out",
        )


def _decode(decoder: ChangeDecoder, raw: RawBatch) -> Changes:
    fit = fitting(raw, LARGEST)
    found = decoder.decode(fit.raw)
    return found if fit.kept is None else replace(found, raw=raw, bad=fit.bad(found.bad))


def last_of(batches: Sequence[pa.RecordBatch], key: Sequence[str]) -> pa.Table:
    """The last change of each key; batches are in log order."""
    changes = pa.Table.from_batches(batches).combine_chunks()
    codes, count = key_codes(changes, key)
    last = np.full(count, -1, np.int64)
    # The last one of equal indices is the one that stays.
    last[codes] = np.arange(len(codes))
    last.sort()
    return changes.take(pa.array(last[last >= 0]))
