"""Arrow batches into the data files of a table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.fitting import Fitter
from frazil.lake.metrics import leaves
from frazil.lake.parquet_file import GROUP_BYTES, ParquetFile
from frazil.lake.storage import FileStorage


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
        self._open: dict[tuple[Any, ...], ParquetFile] = {}
        self._done: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. InvalidInput: they do not fit the table; StorageError: see `abort`."""
        if batch.num_rows == 0:
            return
        for piece in _pieces(self._fitter.fit(batch)):
            self._add((), piece)

    def close(self) -> list[DataFile]:
        """End every file. If that fails, nothing is left."""
        try:
            for key in list(self._open):
                self._end(key)
        except BaseException:
            self.abort()
            raise
        return self._done

    def abort(self) -> None:
        """Remove what was written, as far as the store lets us; never raises."""
        for file in self._open.values():
            file.discard()
        self._open = {}
        done, self._done = self._done, []
        with contextlib.suppress(Exception):
            self._storage.delete([file.path for file in done])

    def _add(self, key: tuple[Any, ...], rows: pa.RecordBatch) -> None:
        file = self._open.get(key)
        if file is None:
            file = self._open[key] = self._begin()
        file.add(rows)
        if file.is_full:
            self._end(key)

    def _begin(self) -> ParquetFile:
        output = self._storage.open_output(f"{self._prefix}-{self._number:03d}.parquet")
        self._number += 1
        return ParquetFile(output, self._fitter.schema, self._columns, self._target.options)

    def _end(self, key: tuple[Any, ...]) -> None:
        self._done.append(self._open[key].close(self._target.spec.id, {}))
        del self._open[key]


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in slices that each fit into a row group."""
    count = -(-batch.nbytes // GROUP_BYTES)
    if count <= 1:
        yield batch
        return
    rows = -(-batch.num_rows // count)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
