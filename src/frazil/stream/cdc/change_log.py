"""Every change as a row: the table of changes beside that of rows, or instead of it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core.changes import Op
from frazil.core.schema import Field, Schema, arrow_type
from frazil.stream.source import RawBatch

#: What a row of changes has behind the columns of the table.
LOG_COLUMNS = (
    Field("_op", "string", doc="read, create, update, delete or truncate"),
    Field("_changed_at", "timestamptz", doc="when the database made the change"),
    Field("_partition", "int", doc="of the log"),
    Field("_offset", "long", doc="in the log"),
)
_WORDS = pa.array([op.name.lower() for op in Op])


def log_schema(columns: Schema) -> Schema:
    """Of the table of changes: nothing is required, as a delete has only a key and a truncate nothing."""
    fields = tuple(Field(field.name, field.type, doc=field.doc) for field in columns)
    return Schema((*fields, *LOG_COLUMNS))


def logged(rows: pa.RecordBatch, order: pa.RecordBatch, raw: RawBatch) -> pa.RecordBatch:
    """The rows of the table of changes."""
    ts = order.column("ts")
    added = [
        _WORDS.take(order.column("op")),
        pc.if_else(pc.equal(ts, 0), None, ts).cast(pa.timestamp("ms", "UTC")),
        pa.repeat(pa.scalar(raw.partition, pa.int32()), len(rows)),
        order.column("offset"),
    ]
    for field, values in zip(LOG_COLUMNS, added, strict=True):
        rows = rows.append_column(field.name, values.cast(arrow_type(field.type)))
    return rows
