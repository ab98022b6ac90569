"""Records that could not become rows: the table that they go to, and their rows in it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pyarrow as pa

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, ListType, Schema, StructType
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.fit import problems
from frazil.stream.source import RawBatch

#: What a dead letter says about itself. `stage` is where it failed (`decode`, `route`), or `replayed` for the
#: mark that a letter of the same position was put back.
DEAD_LETTERS = Schema(
    (
        Field("pipeline", "string", required=True),
        Field("topic", "string", required=True),
        Field("partition", "int", required=True),
        Field("offset", "long", required=True),
        Field("timestamp", "timestamptz", doc="of the record"),
        Field("key", "binary"),
        Field("headers", ListType(StructType((Field("key", "string"), Field("value", "binary"))))),
        Field("value", "binary", doc="the record as it came"),
        Field("stage", "string", required=True),
        Field("fault", "string", required=True),
        Field("field", "string", doc="where in the record"),
        Field("reason", "string", required=True),
        Field("failed_at", "timestamptz", required=True),
    )
)
PARTITIONING = parse_partitioning(["day(failed_at)"])
DECODE = "decode"
ROUTE = "route"
REPLAYED = "replayed"
#: Among the headers of a record of a file whose first line names the columns: that line.
FIRST_LINE = "first-line"


def require_letters(table: str, columns: Schema) -> None:
    """InvalidConfig: it is a table of something else, which would get rows of nothing."""
    if wrong := problems(DEAD_LETTERS, columns):
        raise InvalidConfig(
            f"the table {table} is named for bad records, and is one of something else: {'; '.join(wrong)}. "
            "Name another, which is made if it is not there"
        )


def letters(pipeline: str, raw: RawBatch, bad: Sequence[Undecodable], stage: str = DECODE) -> pa.RecordBatch:
    """The bad records of a batch as rows of the dead-letter table."""
    rows = pa.array([each.index for each in bad], pa.int64())
    count = len(bad)
    schema = DEAD_LETTERS.to_arrow()

    def taken(column: pa.Array | None, name: str) -> pa.Array:
        kind = schema.field(name).type
        return pa.nulls(count, kind) if column is None else column.take(rows).cast(kind)

    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pipeline, count),
            pa.repeat(raw.topic, count),
            pa.repeat(pa.scalar(raw.partition, pa.int32()), count),
            raw.offsets.take(rows),
            raw.times().take(rows),
            taken(raw.keys, "key"),
            taken(raw.headers, "headers") if raw.header is None else _first_lines(raw.header, count),
            raw.values.take(rows),
            pa.repeat(stage, count),
            pa.array([str(each.fault) for each in bad]),
            pa.array([each.field for each in bad], pa.string()),
            pa.array([each.reason for each in bad]),
            pa.repeat(pa.scalar(time.time_ns() // 1000, pa.timestamp("us", "UTC")), count),
        ],
        schema=schema,
    )


def _first_lines(header: bytes, count: int) -> pa.ListArray:
    """Without it nobody could tell which fields the record has."""
    kind = DEAD_LETTERS.to_arrow().field("headers").type
    return pa.array([[{"key": FIRST_LINE, "value": header}]] * count, kind)
