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
from frazil.lake.metrics import UNORDERED, Leaf, file_metrics
from frazil.lake.storage import FileStorage, Output

#: Rows of a row group, as Arrow holds them.
GROUP_BYTES = 64 * MEGABYTE
GROUP_ROWS = 4 * 1024 * 1024
#: On rows of events, level 3 takes a third more time for files that are no smaller.
_LEVELS = {"zstd": 1}
_SAMPLE = 65_536
_UNIQUE = 0.95


class ParquetFile:
    """Rows of one partition on their way to one file, which is made when the first row group is full."""

    def __init__(
        self,
        storage: FileStorage,
        path: str,
        schema: pa.Schema,
        columns: tuple[Leaf, ...],
        options: FileOptions,
    ) -> None:
        self.path = path
        self._storage = storage
        self._schema = schema
        self._columns = columns
        self._options = options
        self._group_bytes = min(GROUP_BYTES, options.size)
        self._footers: list[pq.FileMetaData] = []
        self._output: Output | None = None
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._nans: list[dict[int, int]] = []
        self._records = 0
        #: Bytes of rows in memory, and of the file so far.
        self.held = 0
        self.written = 0

    @property
    def is_open(self) -> bool:
        """Whether something of it is at the store."""
        return self._output is not None

    @property
    def is_full(self) -> bool:
        """Whether another row group would lead further from the wished size than no other."""
        groups = len(self._nans)
        if not groups or self._held:
            return False
        return self.written + self.written / groups / 2 >= self._options.size

    def add(self, batch: pa.RecordBatch) -> bool:
        """Take rows, which must not be more than a row group holds; whether that filled one."""
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.held += batch.nbytes
        return self.held >= self._group_bytes or self._held_rows >= GROUP_ROWS

    def flush(self) -> None:
        """Write the rows in memory as a row group."""
        table = pa.Table.from_batches(self._held, self._schema)
        self._held = []
        self._held_rows = self.held = 0
        self._nans.append({leaf.id: _count_nans(table, leaf) for leaf in self._columns if leaf.may_be_nan})
        if self._output is None:
            self._output = self._storage.open_output(self.path)
        with self._output.guard():
            if self._writer is None:
                self._writer = self._begin(self._output, table)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self.written = self._output.sink.tell()
        self._records += table.num_rows

    def close(self, spec_id: int, partition: dict[int, Any]) -> DataFile:
        """End the file and describe it."""
        if self._held:
            self.flush()
        assert self._output is not None, "files are begun with rows in hand"
        assert self._writer is not None, "a file is opened to write to it"
        with self._output.guard():
            self._writer.close()
        size = self._output.close()
        metrics, offsets = file_metrics(self._footers[0], self._columns, self._nans)
        return DataFile(self.path, size, self._records, spec_id, partition, metrics, offsets)

    def discard(self) -> None:
        """Give it up; never raises."""
        self._held = []
        if self._writer is not None:
            # Left to the garbage collector it would try again, and say so on stderr.
            with contextlib.suppress(Exception):
                self._writer.close()
        if self._output is not None:
            self._output.discard()

    def _begin(self, output: Output, rows: pa.Table) -> pq.ParquetWriter:
        options = self._options
        level = options.compression_level
        return pq.ParquetWriter(
            output.sink,
            self._schema,
            use_dictionary=_repeating(rows, self._columns),
            write_statistics=[leaf.parquet_path for leaf in self._columns if leaf.kind not in UNORDERED],
            compression=options.compression,
            compression_level=_LEVELS.get(options.compression) if level is None else level,
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=self._footers,
        )


def _repeating(rows: pa.Table, columns: tuple[Leaf, ...]) -> list[str]:
    """The columns for which a dictionary pays, judged by the first rows.

    Where nearly every value is new, Parquet builds a dictionary, outgrows it and starts again without.
    """
    sample = rows.slice(0, _SAMPLE)
    unique = {
        leaf.path
        for leaf in columns
        if len(leaf.path) == 1
        and pc.count_distinct(_plain(sample.column(leaf.path[0]))).as_py() > _UNIQUE * sample.num_rows
    }
    return [leaf.parquet_path for leaf in columns if leaf.path not in unique]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """`uuid` as the bytes that it is, for functions that do not know it."""
    return column.cast(pa.binary(16)) if isinstance(column.type, pa.BaseExtensionType) else column


def _count_nans(table: pa.Table, leaf: Leaf) -> int:
    column = table.column(leaf.path[0])
    if len(leaf.path) > 1:
        column = pc.struct_field(column, list(leaf.path[1:]))
    return pc.sum(pc.is_nan(column)).as_py() or 0
