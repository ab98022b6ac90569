"""Rows as one file: a JSON array, JSON lines, CSV or Parquet."""

from __future__ import annotations

import base64
import io
import uuid
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from frazil.core.schema import Field, ListType, MapType, Schema, StructType, Type

EXTENSIONS = {"json": "json", "jsonl": "jsonl", "csv": "csv", "parquet": "parquet"}
_encode = msgspec.json.Encoder(decimal_format="string").encode


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
        self._begin, self._between, self._end = begin, between, end
        self._odd = {field.name: make for field in schema if (make := _plain(field.type)) is not None}
        self._parts: list[bytes] = []

    def add(self, rows: pa.RecordBatch) -> None:
        found = rows.to_pylist()
        for name, make in self._odd.items():
            for row in found:
                row[name] = make(row[name])
        self._parts += [_encode(row) for row in found]

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
        columns = [
            _texts(column, field) if _is_odd(column.type) else column
            for column, field in zip(rows.columns, self._schema, strict=True)
        ]
        flat = pa.RecordBatch.from_arrays(columns, names=rows.schema.names)
        if self._writer is None:
            self._writer = csv.CSVWriter(self._file, flat.schema)
        self._writer.write_batch(flat)

    def finish(self) -> bytes:
        if self._writer is None:
            self.add(pa.RecordBatch.from_pylist([], self._schema.to_arrow()))
        assert self._writer is not None, "it was opened for the header at least"
        self._writer.close()
        return self._file.getvalue()


class _Parquet:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema.to_arrow()
        self._batches: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        self._batches.append(rows)

    def finish(self) -> bytes:
        file = io.BytesIO()
        table = pa.Table.from_batches(self._batches) if self._batches else self._schema.empty_table()
        pq.write_table(table.cast(self._schema), file, compression="zstd")
        return file.getvalue()


def _is_odd(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _texts(column: pa.Array, field: Field) -> pa.StringArray:
    make = _plain(field.type) or _same

    def text(value: Any) -> str | None:
        found = make(value)
        if isinstance(found, bytes):
            return base64.b64encode(found).decode()
        return found if found is None or isinstance(found, str) else _encode(found).decode()

    return pa.array([text(value) for value in column.to_pylist()], pa.string())


def _plain(kind: Type) -> Callable[[Any], Any] | None:
    """Makes values of the type such that JSON can say them; None where they are already."""
    match kind:
        case "uuid":
            return _uuid
        case StructType():
            fields = {field.name: make for field in kind.fields if (make := _plain(field.type)) is not None}
            return _struct(fields) if fields else None
        case ListType():
            element = _plain(kind.element)
            return None if element is None else lambda value: value and [element(each) for each in value]
        case MapType():
            return _map(kind)
    return None


def _uuid(value: Any) -> Any:
    # Behind a transform it is text already.
    return str(uuid.UUID(bytes=value)) if isinstance(value, bytes) else value


def _struct(fields: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        return value and value | {name: change(value[name]) for name, change in fields.items()}

    return make


def _map(kind: MapType) -> Callable[[Any], Any]:
    """An object; where keys are no simple values, a list of keys and values."""
    key, value = _plain(kind.key) or _same, _plain(kind.value) or _same
    if kind.key == "boolean":
        # The encoder takes no other keys than texts and numbers.
        key = {True: "true", False: "false"}.__getitem__
    if isinstance(kind.key, str):
        return lambda pairs: None if pairs is None else {key(name): value(each) for name, each in pairs}
    return lambda pairs: pairs and [{"key": key(name), "value": value(each)} for name, each in pairs]


def _same(value: Any) -> Any:
    return value
