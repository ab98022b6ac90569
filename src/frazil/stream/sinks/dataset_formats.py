"""Rows as one file: a JSON array, JSON lines, CSV or Parquet."""

from __future__ import annotations

import base64
import io
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from frazil.core.schema import Schema
from frazil.stream.spark_types import to_spark

EXTENSIONS = {"json": "json", "jsonl": "jsonl", "csv": "csv", "parquet": "parquet"}


class FileMaker(Protocol):
    def add(self, rows: pa.RecordBatch) -> None: ...

    def finish(self) -> bytes: ...


def file_maker(format_: str, schema: Schema) -> FileMaker:
    """Makes one file of the format; `schema` has the columns, for a file without rows too."""
    if format_ == "json":
        return _Json(schema, b"[", b",\n", b"]\n")
    if format_ == "jsonl":
        return _Json(schema, b"", b"\n", b"\n")
    return _Csv(schema) if format_ == "csv" else _Parquet(schema)


class _Json:
    """Times are ISO 8601, decimals and UUIDs text, binary base64; NaN and infinities become null."""

    def __init__(self, schema: Schema, begin: bytes, between: bytes, end: bytes) -> None:
        self._schema = schema
        self._begin, self._between, self._end = begin, between, end
        self._encoder = msgspec.json.Encoder(decimal_format="string")
        self._parts: list[bytes] = []

    def add(self, rows: pa.RecordBatch) -> None:
        found = to_spark(rows, self._schema).to_pylist(maps_as_pydicts="strict")
        self._parts += [self._encoder.encode(row) for row in found]

    def finish(self) -> bytes:
        if not self._parts:
            return self._begin + self._end if self._begin else b""
        return self._begin + self._between.join(self._parts) + self._end


class _Csv:
    """A header, then a line for each row. Nested values are JSON, binary base64."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._file = io.BytesIO()
        self._writer: csv.CSVWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        flat = _flat(to_spark(rows, self._schema))
        self._open(flat.schema).write_batch(flat)

    def finish(self) -> bytes:
        empty = (
            _flat(to_spark(self._schema.to_arrow().empty_table().to_batches()[0], self._schema))
            if self._writer is None and self._schema.fields
            else None
        )
        if empty is not None:
            self._open(empty.schema)
        if self._writer is not None:
            self._writer.close()
        return self._file.getvalue()

    def _open(self, schema: pa.Schema) -> csv.CSVWriter:
        if self._writer is None:
            self._writer = csv.CSVWriter(self._file, schema)
        return self._writer


class _Parquet:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema.to_arrow()
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        self._batches.append(rows)

    def finish(self) -> bytes:
        file = io.BytesIO()
        table = pa.Table.from_batches(self._batches) if self._batches else self._schema.empty_table()
        pq.write_table(table, file, compression="zstd")
        return file.getvalue()


def _flat(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_as_text(column) if _is_odd(column.type) else column for column in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _as_text(column: pa.Array) -> pa.StringArray:
    def text(value: Any) -> str | None:
        if value is None:
            return None
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return msgspec.json.encode(value).decode()

    return pa.array([text(value) for value in column.to_pylist()], pa.string())
