"""Arrow batches into the data files of a table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.fitting import Fitter
from frazil.lake.metrics import leaves
from frazil.lake.parquet_file import ParquetFile
from frazil.lake.partitions import Partition, Partitioner
from frazil.lake.row_file import GROUP_BYTES, RowFile
from frazil.lake.storage import FileStorage

#: Rows in memory, over all partitions; the fullest is written first.
HELD_BYTES = 2 * GROUP_BYTES
#: Files at the store that are not finished; the largest is ended first.
OPEN_FILES = 16


class TableWriter:
    """Writes rows into new files; none is part of the table before somebody commits what `close` returns.

    >>> writer = TableWriter(target, storage, f"{target.location}/orders/000001/00000007-5e1c0a4b-00000")
    ... # doctest: +SKIP
    >>> writer.write(batch)  # doctest: +SKIP
    >>> files = writer.close()  # doctest: +SKIP
    """

    def __init__(self, target: WriteTarget, storage: FileStorage, prefix: str) -> None:
        self._target = target
        self._storage = storage
        self._prefix = prefix
        self._fitter = Fitter(target.schema)
        self._columns = leaves(target.schema)
        self._number = 0
        self._partitioner = Partitioner(target.spec, target.schema)
        self._files: dict[Partition, RowFile] = {}
        #: Bytes of rows in memory, of all files.
        self._held = 0
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. InvalidInput: they do not fit the table; StorageError: see `abort`."""
        if batch.num_rows == 0:
            return
        for piece in _pieces(self._fitter.fit(batch)):
            for partition, rows in self._partitioner.split(piece):
                self._add(partition, rows)

    def close(self) -> list[DataFile]:
        """End every file. If that fails, nothing is left."""
        try:
            for partition in list(self._files):
                self._end(partition)
        except BaseException:
            self.abort()
            raise
        return self._done

    def abort(self) -> None:
        """Remove what was written, as far as the store lets us; never raises."""
        for file in self._files.values():
            file.discard()
        self._files = {}
        done, self._done = self._done, []
        with contextlib.suppress(Exception):
            self._storage.delete([file.path for file in done])

    def _add(self, partition: Partition, rows: pa.RecordBatch) -> None:
        file = self._files.get(partition)
        if file is None:
            file = self._files[partition] = self._begin()
        before = file.held
        full = file.add(rows)
        self._held += file.held - before
        if full:
            self._flush(partition)
        while self._held > HELD_BYTES:
            self._flush(max(self._files, key=lambda each: self._files[each].held))

    def _flush(self, partition: Partition) -> None:
        """A group of rows to the store, and with it the file if it is large enough."""
        file = self._files[partition]
        if not file.is_open:
            self._make_room()
        self._held -= file.held
        file.flush()
        if file.is_full:
            self._end(partition)

    def _make_room(self) -> None:
        """Each open file has buffers for its upload, so there are never too many."""
        opened = [partition for partition, file in self._files.items() if file.is_open]
        if len(opened) >= OPEN_FILES:
            self._end(max(opened, key=lambda each: self._files[each].written))

    def _begin(self) -> RowFile:
        target = self._target
        made = _kind(target.options.format)
        path = f"{self._prefix}-{self._number:03d}.{made.format}"
        self._number += 1
        return made(self._storage, path, target.schema, self._fitter.schema, self._columns, target.options)

    def _end(self, partition: Partition) -> None:
        file = self._files[partition]
        self._held -= file.held
        self._done.append(file.close(self._target.spec.id, partition.values))
        del self._files[partition]


def _kind(format_: str) -> type[RowFile]:
    """Libraries of the rarer ones are loaded where they are needed: each Python worker pays for that."""
    if format_ == "orc":
        from frazil.lake.orc_file import OrcFile

        return OrcFile
    if format_ == "avro":
        from frazil.lake.avro_file import AvroFile

        return AvroFile
    return ParquetFile


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices that each fit into a group."""
    count = -(-batch.nbytes // GROUP_BYTES)
    if count <= 1:
        yield batch
        return
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
