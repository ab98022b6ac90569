"""Where the CPU of the fused path goes: its stages in one process, each added to the ones before it."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator

import pyarrow as pa

from bench.ingest.messages import SCHEMA
from bench.ingest.place import Place
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.files import WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.json import JsonDecoder
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.source import RawBatch, Slice

_ROWS = 1_000_000


def measure(where: Place, topic: str) -> dict[str, float]:
    """CPU-seconds a million rows, by stage."""
    schema = Schema(tuple(Field(name, kind) for name, kind in SCHEMA.items())).with_fresh_ids()
    rows = min(_ROWS, where.topics[topic] // 2)
    settings = {"bootstrap.servers": where.kafka.bootstrap_servers}
    reader, decoder = SliceReader(settings), JsonDecoder(schema, JsonFormat(timestamps="ms"))

    def fetched() -> Iterator[RawBatch]:
        yield from reader.read([Slice(topic, 0, 0, rows)])

    def decoded() -> Iterator[pa.RecordBatch]:
        for raw in fetched():
            yield decoder.decode(raw).rows

    def landed() -> Iterator[None]:
        with tempfile.TemporaryDirectory() as directory:
            target = WriteTarget(directory, schema, PartitionSpec())
            writer = TableWriter(target, FileStorage.of(directory, None), f"{directory}/part")
            for batch in decoded():
                writer.write(batch)
                yield None
            writer.close()

    stages: dict[str, Callable[[], Iterator[object]]] = {"fetch": fetched, "decode": decoded, "write": landed}
    totals = {name: _cpu(stage) / rows * 1e6 for name, stage in stages.items()}
    reader.close()
    names = list(totals)
    return {
        name: totals[name] - (totals[names[number - 1]] if number else 0.0)
        for number, name in enumerate(names)
    }


def _cpu(stage: Callable[[], Iterator[object]]) -> float:
    """The second time: the first one loads libraries and connects."""
    for _ in stage():
        pass
    before = _used()
    for _ in stage():
        pass
    return _used() - before


def _used() -> float:
    found = resource.getrusage(resource.RUSAGE_SELF)
    return found.ru_utime + found.ru_stime
