"""Data files of a table, read in tasks: rows under the names that the columns have now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.core.errors import StorageError, Unsupported
from frazil.core.schema import Schema
from frazil.lake.avro_rows import avro_batches
from frazil.lake.name_mapping import Names, has_ids, identified
from frazil.lake.places import KeyedPlace, nearest
from frazil.lake.projection import field_id, projected
from frazil.lake.storage import FileStorage
from frazil.stream.source import RawBatch, Slice
from frazil.stream.tables.manifests import SourceFile

_BATCH = 65_536


def slice_of(file: SourceFile, millis: int) -> Slice:
    """A whole file; offsets are its rows. The version is what else a task has to know of it."""
    return Slice(file.path, 0, 0, file.records, f"{file.format}/{file.spec}/{millis}")


@dataclass(frozen=True)
class TableReader:
    """A `Reader` of slices that `slice_of` made, or parts of them."""

    places: tuple[KeyedPlace, ...]
    #: The columns of now.
    schema: Schema
    #: By partition spec, the fields whose values may be in the partition instead of the file.
    identities: Mapping[int, frozenset[int]]
    #: Of columns in files that were not written for the table.
    names: Names = field(default_factory=dict)

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        storages = {place.location: place.storage() for place in self.places}
        for part in slices:
            storage = storages[nearest(self.places, part.topic).location]
            kind, spec, millis = part.version.split("/")
            with storage.open_input(part.topic) as source:
                for first, found in _guarded(storage, part, _batches(kind, source, part)):
                    batch = found if has_ids(found.schema) else identified(found, self.names)
                    self._require_complete(part, batch.schema, int(spec))
                    yield _raw(part, first, projected(batch, self.schema), int(millis))

    def _require_complete(self, part: Slice, columns: pa.Schema, spec: int) -> None:
        there = {field_id(column) or column.name for column in columns}
        divided = [column for column in self.schema if column.id in self.identities.get(spec, ())]
        named = [column.name for column in divided if not {column.id, column.name} & there]
        if named:
            raise Unsupported(
                f"{part.topic} does not hold the column {', '.join(named)}: its value is in the partition "
                "alone, as in files that were added to the table and not written for it. Rewrite it with an "
                "engine (rewrite_data_files), and start after that"
            )


def _raw(part: Slice, first: int, rows: pa.RecordBatch, millis: int) -> RawBatch:
    count = len(rows)
    return RawBatch(
        part.topic,
        part.partition,
        pa.nulls(count, pa.binary()),
        pa.array(np.arange(first, first + count, dtype=np.int64)),
        pa.array(np.full(count, millis, dtype=np.int64)),
        rows=rows,
        slice_start=part.start,
    )


def _guarded(
    storage: FileStorage, part: Slice, batches: Iterator[tuple[int, pa.RecordBatch]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """What the store or the file says, as our error; what happens to the rows outside is not ours."""
    while True:
        try:
            with storage.reading(part.topic):
                found = next(batches, None)
        except pa.ArrowException as error:
            raise StorageError(f"read {part.topic}: {error}") from None
        if found is None:
            return
        yield found


def _batches(kind: str, source: pa.NativeFile, part: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Rows of the slice, with the number of the first of each batch."""
    for first, batch in _READERS[kind](source, part):
        start, end = max(part.start, first), min(part.end, first + len(batch))
        if start < end:
            yield start, batch.slice(start - first, end - start)


def _parquet(source: pa.NativeFile, part: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Only of row groups that reach into the slice."""
    file = pq.ParquetFile(source, pre_buffer=True)
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    ends = np.cumsum([0, *sizes])
    groups = [
        number for number in range(len(sizes)) if ends[number] < part.end and ends[number + 1] > part.start
    ]
    if groups:
        first = int(ends[groups[0]])
        for batch in file.iter_batches(_BATCH, row_groups=groups):
            yield first, batch
            first += len(batch)


def _orc(source: pa.NativeFile, part: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
    from pyarrow import orc

    file = orc.ORCFile(source)
    first = 0
    for stripe in range(file.nstripes):
        if first < part.end:
            batch = file.read_stripe(stripe)
            yield first, batch
            first += len(batch)


def _avro(source: pa.NativeFile, part: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
    first = 0
    for batch in avro_batches(part.topic, source, _BATCH):
        if first >= part.end:
            return
        yield first, batch
        first += len(batch)


_READERS = {"parquet": _parquet, "orc": _orc, "avro": _avro}
#: Of data files that can be read.
FORMATS = tuple(_READERS)
