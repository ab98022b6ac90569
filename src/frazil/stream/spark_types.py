"""Spark knows neither UUIDs nor binaries of fixed length: how they pass through it."""

from __future__ import annotations

import uuid

import pyarrow as pa

from frazil.core.errors import InvalidInput
from frazil.core.schema import Field, Schema

_UUID_BYTES = 16


def to_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """UUIDs as text, fixed as binary; UUIDs may be marked as such, as those of files are."""
    if not any(_is_unknown(kind) for kind in batch.schema.types):
        return batch
    columns = [_loosened(column, field) for column, field in zip(batch.columns, schema.fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def from_spark(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The texts of a table's UUID columns as bytes; binaries fit fixed columns as they are."""
    texts = {field.name for field in schema if field.type == "uuid"}
    if not texts:
        return batch
    columns = [
        _uuid_bytes(column) if name in texts and pa.types.is_string(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_unknown(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) or pa.types.is_fixed_size_binary(kind)


def _loosened(column: pa.Array, field: Field) -> pa.Array:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if field.type == "uuid":
        texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(column.type) else column


def _uuid_bytes(column: pa.Array) -> pa.Array:
    try:
        values = [None if text is None else uuid.UUID(text).bytes for text in column.to_pylist()]
    except ValueError:
        raise InvalidInput("the transform gave a text that is no UUID for a column of UUIDs") from None
    return pa.array(values, pa.binary(_UUID_BYTES))
