"""Data files in Parquet."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.lake.files import Metrics
from frazil.lake.metrics import UNORDERED, Leaf, count_nans, footer_metrics
from frazil.lake.row_file import RowFile
from frazil.lake.storage import Output

#: On rows of events, level 3 takes a third more time for files that are no smaller.
_LEVELS = {"zstd": 1}
_SAMPLE = 65_536
#: Of files that are smaller than that: a dictionary too many or too few does not matter there.
_SMALL_SAMPLE = 4_096
_UNIQUE = 0.95


class ParquetFile(RowFile):
    """Each group of rows is a row group."""

    format = "parquet"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._footers: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None
        self._nans: list[dict[int, int]] = []

    def _begin(self, output: Output, rows: pa.Table) -> None:
        options, level = self._options, self._options.compression_level
        self._writer = pq.ParquetWriter(
            output.sink,
            self._arrow,
            use_dictionary=_repeating(rows, self._columns) if options.dictionaries else False,
            write_statistics=[leaf.parquet_path for leaf in self._columns if leaf.kind not in UNORDERED],
            compression=options.codec,
            compression_level=_LEVELS.get(options.codec) if level is None else level,
            store_decimal_as_integer=True,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def _write(self, rows: pa.Table) -> None:
        assert self._writer is not None, "a file is begun before it is written"
        self._nans.append({leaf.id: count_nans(rows, leaf) for leaf in self._columns if leaf.may_be_nan})
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _described(self) -> tuple[Metrics, tuple[int, ...]]:
        return footer_metrics(self._footers[0], self._columns, self._nans)


def _repeating(rows: pa.Table, columns: tuple[Leaf, ...]) -> list[str]:
    """The columns for which a dictionary pays, judged by the first rows.

    Where nearly every value is new, Parquet builds a dictionary, outgrows it and starts again without.
    """
    sample = rows.slice(0, _SAMPLE if rows.num_rows >= _SAMPLE else _SMALL_SAMPLE)
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
