"""Changes between tasks: by key, as Arrow streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from frazil.core.schema import Schema
from frazil.lake.files import WriteTarget
from frazil.lake.transforms import transformed

_MANY = 1 << 16
#: Types that Iceberg can put into buckets.
_HASHED = ("int", "long", "date", "time", "timestamp", "timestamptz", "string", "uuid", "binary")


def spread_by(target: WriteTarget, key: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The columns and transforms by which rows of equal keys meet.

    Where the table is in buckets of a part of the key: by those, so that each bucket gets one file a round.
    """
    names = {field.id: field.name for field in target.schema}
    buckets = [
        (names[field.source_id], field.transform)
        for field in target.spec.fields
        if field.transform.startswith("bucket") and names.get(field.source_id) in key
    ]
    return tuple(buckets) or spread_by_key(target.schema, key)


def spread_by_key(schema: Schema, key: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (field.name, f"bucket[{_MANY}]")
        for field in schema
        if field.name in key and (field.type in _HASHED or str(field.type).startswith(("decimal", "fixed")))
    )


def spread(
    changes: pa.RecordBatch, rows: pa.RecordBatch, by: Sequence[tuple[str, str]], buckets: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The changes by bucket, in their order; `rows` has the columns that they are spread by."""
    if buckets == 1 or not by:
        yield 0, changes
        return
    codes = np.zeros(len(changes), np.int64)
    for name, transform in by:
        found = transformed(transform, rows.column(name)).fill_null(0)
        codes = codes * 31 + found.to_numpy(zero_copy_only=False)
    codes %= buckets
    for bucket in range(buckets):
        at = np.flatnonzero(codes == bucket)
        if len(at):
            yield bucket, changes.take(pa.array(at))


def together(rows: pa.RecordBatch, order: pa.RecordBatch) -> pa.RecordBatch:
    """One batch of both; no name of a column can get in the way."""
    return pa.RecordBatch.from_arrays(
        [pa.StructArray.from_arrays(part.columns, fields=list(part.schema)) for part in (rows, order)],
        names=["rows", "order"],
    )


def apart(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Rows, and their order."""
    rows, order = (
        pa.Table.from_batches(
            [pa.RecordBatch.from_struct_array(chunk) for chunk in changes.column(name).chunks],
            schema=pa.schema(list(changes.schema.field(name).type)),
        )
        for name in ("rows", "order")
    )
    return rows, order


def packed(rows: pa.Table | pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def unpacked(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
