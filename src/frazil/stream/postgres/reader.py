"""What tasks read: the records themselves, which the driver has in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from frazil.stream.postgres.log import Chunk, Schemas
from frazil.stream.source import RawBatch, Slice

#: With its schema a record is some thousands of bytes, and an array holds 2 GB.
_ROWS = 8192


@dataclass(frozen=True)
class Block:
    """Consecutive records of a topic that have the same schemas, as Arrow's stream format."""

    topic: str
    partition: int
    first: int
    end: int
    schemas: Schemas
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class PostgresReader:
    """Holds the records of one round: a task that is tried again gets the same ones."""

    blocks: tuple[Block, ...] = field(repr=False)
    #: Keys and values in the form {"schema": …, "payload": …}, as connectors with schemas write them.
    schemas: bool = True

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        for part in slices:
            for block in self.blocks:
                if (block.topic, block.partition) == (part.topic, part.partition):
                    yield from self._read(block, part)

    def _read(self, block: Block, part: Slice) -> Iterator[RawBatch]:
        start, end = max(part.start, block.first), min(part.end, block.end)
        if start >= end:
            return
        with pa.ipc.open_stream(block.data) as stream:
            batch = stream.read_next_batch().slice(start - block.first, end - start)
        for row in range(0, len(batch), _ROWS):
            some = batch.slice(row, _ROWS)
            values, keys = some.column("value"), some.column("key")
            if self.schemas:
                values, keys = _wrap(block.schemas.value, values), _wrap(block.schemas.key, keys)
            yield RawBatch(
                part.topic,
                part.partition,
                values,
                pa.array(range(start + row, start + row + len(some)), pa.int64()),
                some.column("timestamp"),
                keys=keys,
                slice_start=part.start,
            )


def blocks(topic: str, chunks: Iterable[Chunk]) -> Iterator[Block]:
    """Chunks of one partition, in order."""
    for schemas, some in groupby(chunks, lambda chunk: chunk.schemas):
        run = list(some)
        times = [pa.repeat(pa.scalar(chunk.time, pa.int64()), len(chunk.values)) for chunk in run]
        batch = pa.record_batch(
            {
                "key": pa.concat_arrays([chunk.keys for chunk in run]),
                "value": pa.concat_arrays([chunk.values for chunk in run]),
                "timestamp": pa.concat_arrays(times),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        data = sink.getvalue().to_pybytes()
        yield Block(topic, run[0].partition, run[0].first, run[-1].end, schemas, data)


def _wrap(schema: bytes, payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Null stays null."""
    before = pa.scalar(b'{"schema":' + schema + b',"payload":', pa.binary())
    after, between = pa.scalar(b"}", pa.binary()), pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(before, payloads, after, between)
