"""One Parquet file that is being written.

Rows are held as Arrow until a row group is full, so that small batches do not make small row groups. A file
in the making holds at most one row group of rows (GROUP_BYTES) and what pyarrow holds of its encoded form.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.lake.files import MEGABYTE, DataFile, FileOptions
from frazil.lake.metrics import Leaf, file_metrics
from frazil.lake.storage import Output

#: Rows of a row group, as Arrow holds them.
GROUP_BYTES = 64 * MEGABYTE
GROUP_ROWS = 4 * 1024 * 1024
_LEVELS = {"zstd": 1}


class ParquetFile:
    """Rows of one partition on their way to one file."""

    def __init__(
        self, output: Output, schema: pa.Schema, columns: tuple[Leaf, ...], options: FileOptions
    ) -> None:
        self._output = output
        self._schema = schema
        self._columns = columns
        self._options = options
        self._group_bytes = min(GROUP_BYTES, options.size)
        self._footers: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self.held_bytes = 0
        self._nans: list[dict[int, int]] = []
        self.records = 0

    @property
    def path(self) -> str:
        return self._output.path

    @property
    def is_full(self) -> bool:
        """Whether another row group would lead further from the wished size than no other."""
        groups = len(self._nans)
        if not groups or self._held:
            return False
        written = self._output.sink.tell()
        return bool(written + written / groups / 2 >= self._options.size)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows, which must not be more than a row group holds."""
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.held_bytes += batch.nbytes
        self.records += batch.num_rows
        if self.held_bytes >= self._group_bytes or self._held_rows >= GROUP_ROWS:
            self._flush()

    def close(self, spec_id: int, partition: dict[int, Any]) -> DataFile:
        """End the file and describe it."""
        if self._held:
            self._flush()
        assert self._writer is not None, "files are begun with rows in hand"
        with self._output.guard():
            self._writer.close()
        size = self._output.close()
        metrics, offsets = file_metrics(self._footers[0], self._columns, self._nans)
        return DataFile(self.path, size, self.records, spec_id, partition, metrics, offsets)

    def discard(self) -> None:
        """Give it up; never raises."""
        self._held = []
        if self._writer is not None:
            # Left to the garbage collector it would try again, and say so on stderr.
            with contextlib.suppress(Exception):
                self._writer.close()
        self._output.discard()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._held, self._schema)
        self._held = []
        self._held_rows = self.held_bytes = 0
        self._nans.append({leaf.id: _count_nans(table, leaf) for leaf in self._columns if leaf.may_be_nan})
        with self._output.guard():
            if self._writer is None:
                self._writer = self._open()
            self._writer.write_table(table, row_group_size=table.num_rows)

    def _open(self) -> pq.ParquetWriter:
        options = self._options
        level = options.compression_level
        return pq.ParquetWriter(
            self._output.sink,
            self._schema,
            compression=options.compression,
            compression_level=_LEVELS.get(options.compression) if level is None else level,
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=self._footers,
        )


def _count_nans(table: pa.Table, leaf: Leaf) -> int:
    column = table.column(leaf.path[0])
    if len(leaf.path) > 1:
        column = pc.struct_field(column, list(leaf.path[1:]))
    return pc.sum(pc.is_nan(column)).as_py() or 0
