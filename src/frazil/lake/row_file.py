"""A data file that is being written, whatever its format.

Rows are held as Arrow until a group is full, so that small batches do not make small groups. A file in the
making holds at most one group of rows (GROUP_BYTES) and what its encoder holds.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.lake.files import MEGABYTE, DataFile, FileOptions, Metrics
from frazil.lake.metrics import Leaf
from frazil.lake.storage import FileStorage, Output

#: Rows of a group, as Arrow holds them.
GROUP_BYTES: int = 64 * MEGABYTE
GROUP_ROWS = 4 * 1024 * 1024


class RowFile(ABC):
    """Rows of one partition on their way to one file, which is made when the first group is full."""

    #: As Iceberg calls it, and how names of such files end.
    format: ClassVar[str]

    def __init__(
        self,
        storage: FileStorage,
        path: str,
        schema: Schema,
        arrow: pa.Schema,
        columns: tuple[Leaf, ...],
        options: FileOptions,
    ) -> None:
        self.path = path
        self._storage = storage
        self._schema = schema
        #: Of the batches that `add` takes.
        self._arrow = arrow
        self._columns = columns
        self._options = options
        self._group_bytes = min(GROUP_BYTES, options.size)
        self._output: Output | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._groups = 0
        self._records = 0
        #: Bytes of rows in memory, and of the file so far.
        self.held = 0
        self.written = 0

    @abstractmethod
    def _begin(self, output: Output, rows: pa.Table) -> None:
        """Make the encoder; `rows` is the first group."""

    @abstractmethod
    def _write(self, rows: pa.Table) -> None:
        """Encode a group of rows."""

    @abstractmethod
    def _end(self) -> None:
        """Let the encoder write what it holds; the output stays open."""

    @abstractmethod
    def _described(self) -> tuple[Metrics, tuple[int, ...]]:
        """Metrics and split offsets of the file that was ended."""

    @property
    def is_open(self) -> bool:
        """Whether something of it is at the store."""
        return self._output is not None

    @property
    def is_full(self) -> bool:
        """Whether another group would lead further from the wished size than no other."""
        if not self._groups or self._held:
            return False
        return self.written + self.written / self._groups / 2 >= self._options.size

    def add(self, batch: pa.RecordBatch) -> bool:
        """Take rows, which must not be more than a group holds; whether that filled one."""
        self._held.append(batch)
        self._held_rows += batch.num_rows
        self.held += batch.nbytes
        return self.held >= self._group_bytes or self._held_rows >= GROUP_ROWS

    def flush(self) -> None:
        """Write the rows in memory as a group."""
        table = pa.Table.from_batches(self._held, self._arrow)
        self._held = []
        self._held_rows = self.held = 0
        self._groups += 1
        begun = self._output is not None
        if self._output is None:
            self._output = self._storage.open_output(self.path)
        with self._output.guard():
            if not begun:
                self._begin(self._output, table)
            self._write(table)
            self.written = self._output.sink.tell()
        self._records += table.num_rows

    def close(self, spec_id: int, partition: dict[int, Any]) -> DataFile:
        """End the file and describe it."""
        if self._held:
            self.flush()
        assert self._output is not None, "files are begun with rows in hand"
        with self._output.guard():
            self._end()
        size = self._output.close()
        metrics, offsets = self._described()
        return DataFile(self.path, size, self._records, spec_id, partition, metrics, offsets, self.format)

    def discard(self) -> None:
        """Give it up; never raises."""
        self._held = []
        if self._output is not None:
            # Left to the garbage collector an encoder would try again, and say so on stderr.
            with contextlib.suppress(Exception):
                self._end()
            self._output.discard()
