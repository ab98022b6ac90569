"""Letters as records again, and the marks of those that were put back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.dead_letters import DEAD_LETTERS, FIRST_LINE, REPLAYED
from frazil.stream.source import NO_TIMESTAMP, RawBatch

POSITION = ("topic", "partition", "offset")
#: After a reset a position may fail a second time, and that is another letter.
IDENTITY = (*POSITION, "failed_at")
#: Arrow's arrays of bytes end at 2 GB.
_RUN_BYTES = 256 * 1024 * 1024


def raw_batches(letters: pa.Table, *, headed: bool = False) -> Iterator[tuple[RawBatch, int]]:
    """Runs of letters of one topic and partition, of bounded size, with the number of the first.

    `headed`: they are of files, and know the first line of theirs.
    """
    start = 0
    columns: Mapping[str, pa.ChunkedArray] = {name: letters[name] for name in letters.column_names}
    firsts = (
        [_first_line(found) for found in columns["headers"].to_pylist()] if headed else [None] * len(letters)
    )
    places = list(zip(columns["topic"].to_pylist(), columns["partition"].to_pylist(), firsts, strict=True))
    sizes = pc.fill_null(pc.binary_length(columns["value"]), 0).to_pylist()
    size = 0
    for end in range(1, len(places) + 1):
        size += sizes[end - 1]
        if end < len(places) and places[end] == places[start] and size < _RUN_BYTES:
            continue
        part = letters.slice(start, end - start).combine_chunks()
        schema = DEAD_LETTERS.to_arrow()

        def column(name: str, part: pa.Table = part, schema: pa.Schema = schema) -> pa.Array:
            found = part[name].cast(schema.field(name).type)
            return found.chunk(0) if found.num_chunks else pa.array([], found.type)

        yield (
            RawBatch(
                topic=places[start][0],
                partition=places[start][1],
                values=column("value"),
                offsets=column("offset"),
                timestamps=_millis(column("timestamp")),
                keys=column("key"),
                # Records of files have none: what stands there is the first line.
                headers=None if headed else column("headers"),
                slice_start=start,
                header=places[start][2],
            ),
            start,
        )
        start, size = end, 0


def _millis(times: pa.TimestampArray) -> pa.Int64Array:
    return times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).fill_null(NO_TIMESTAMP)


def _first_line(headers: list[dict[str, Any]] | None) -> bytes | None:
    return next((found["value"] for found in headers or () if found["key"] == FIRST_LINE), None)


def marks_of(letters: pa.Table) -> pa.Table:
    """One for each letter: its position and time, without the value."""
    schema = DEAD_LETTERS.to_arrow()
    count = len(letters)
    fixed = {
        "value": pa.nulls(count, pa.binary()),
        "key": pa.nulls(count, pa.binary()),
        "headers": pa.nulls(count, schema.field("headers").type),
        "stage": pa.repeat(REPLAYED, count),
        "reason": pa.repeat("put back", count),
    }
    columns = [
        fixed[name] if name in fixed else letters[name].cast(schema.field(name).type) for name in schema.names
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def identities(letters: pa.Table) -> pa.StringArray:
    joined = pc.binary_join_element_wise(
        letters["topic"],
        *(letters[name].cast(pa.int64()).cast(pa.string()) for name in IDENTITY[1:]),
        "\n",
    )
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def within(sizes: pa.ChunkedArray, limit: int) -> int:
    """How many of the first ones have no more than `limit` together; one, however large it is."""
    ends = pc.cumulative_sum(pc.fill_null(sizes, 0).cast(pa.int64())).to_pylist()
    return max(bisect_right(ends, limit), 1)
