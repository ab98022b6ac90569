"""Rows of a history as changes: each was there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import ORDER, Op
from frazil.core.schema import Schema
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.cdc.change_log import LOG_COLUMNS
from frazil.stream.cdc.changes import Changes, Shape
from frazil.stream.config.model import Contract, ParquetFormat
from frazil.stream.decode.rows import RowsDecoder
from frazil.stream.source import RawBatch, Reader
from frazil.stream.tables.columns import without_ids


class HistoryRows:
    """A `ChangeDecoder` of batches that are of a history."""

    def __init__(
        self, schema: Schema | None, key: tuple[str, ...], soft_delete: str | None, reader: Reader
    ) -> None:
        """`schema`: the columns of the table that gets them; None: there is none, and its shape is told.

        `soft_delete`: a column by which rows are marked as deleted, there as here.
        """
        self._schema = schema
        self._key = key
        self._deleted = soft_delete
        self._reader = reader

    def decode(self, raw: RawBatch) -> Changes:
        raw = self._living(raw)
        shape = self._shape()
        if self._schema is None or not {f.name for f in shape.columns} <= {f.name for f in self._schema}:
            return Changes(raw, _none(Schema(()).to_arrow()), _none(ORDER), shape=shape)
        found = RowsDecoder(self._schema, ParquetFormat(), Contract()).decode(raw)
        offsets = raw.offsets
        if found.bad:
            good = np.setdiff1d(np.arange(len(raw)), [bad.index for bad in found.bad])
            offsets = offsets.take(pa.array(good))
        return Changes(raw, found.rows, _read(offsets), found.bad)

    def _shape(self) -> Shape:
        assert isinstance(self._reader, BothReader), "nothing else reads a history"
        files = self._reader.history.files
        own = {self._deleted, *(column.name for column in LOG_COLUMNS)}
        fields = [replace(f, required=False) for f in without_ids(files.shape.schema) if f.name not in own]
        return Shape(Schema(tuple(fields)), self._key or files.key)

    def _living(self, raw: RawBatch) -> RawBatch:
        """Without rows that are only there to say that they are gone."""
        if raw.rows is None or self._deleted not in raw.rows.schema.names:
            return raw
        kept = pc.invert(pc.fill_null(raw.rows.column(self._deleted), False))
        return replace(
            raw,
            values=raw.values.filter(kept),
            offsets=raw.offsets.filter(kept),
            timestamps=raw.timestamps.filter(kept),
            rows=raw.rows.filter(kept),
        )


def _read(offsets: pa.Int64Array) -> pa.RecordBatch:
    """By `ORDER`: they are before all changes, and have no place in the order of commits."""
    count = len(offsets)
    zeros = pa.array(np.zeros(count, np.int64))
    columns = [
        pa.array(np.full(count, int(Op.READ), np.int8)),
        offsets,
        pa.nulls(count, pa.string()),
        *[zeros] * 4,
        pa.nulls(count, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ORDER)


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
