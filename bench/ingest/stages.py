"""Where the CPU of the fused path goes: its stages in one process, each added to the ones before it."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from bench.ingest.encodings import REGISTERED, Name, format_of
from bench.ingest.messages import SCHEMA, Render
from bench.ingest.place import Place
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Field, Schema
from frazil.lake.files import WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter
from frazil.stream.config.model import Contract
from frazil.stream.decode.decoded import Decoder
from frazil.stream.decode.formats import decoder_of
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.source import RawBatch, Slice

_ROWS = 1_000_000
#: Records of a batch, as the fetcher makes them.
_BATCH = 65_536
_ENCODINGS: tuple[Name, ...] = ("json", "avro", "protobuf", "csv")


def measure(where: Place, topic: str) -> dict[str, float]:
    """CPU-seconds a million rows of JSON, by stage."""
    rows = min(_ROWS, where.topics[topic] // 2)
    reader = SliceReader({"bootstrap.servers": where.kafka.bootstrap_servers})
    schema, decoder = _schema(), _decoder(where, "json")

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


def decoding(where: Place, rows: int) -> dict[str, float]:
    """CPU-seconds a million rows of each format, decoded from memory; needs no broker."""
    rows = min(_ROWS, rows)
    found = dict[str, float]()
    for encoding in _ENCODINGS:
        if encoding in REGISTERED and where.registry is None:
            continue
        decoder, batches = _decoder(where, encoding), batches_of(where.renderer(encoding), rows)
        found[encoding] = _cpu(partial(map, decoder.decode, batches)) / rows * 1e6
    return found


def batches_of(rendered: Render, rows: int) -> list[RawBatch]:
    """Messages as the fetcher gives them."""
    batches = []
    for start in range(0, rows, _BATCH):
        ids = np.arange(start, min(rows, start + _BATCH), dtype=np.int64)
        values, offsets = pa.array(rendered(ids), pa.binary()), pa.array(ids)
        batches.append(RawBatch("memory", 0, values, offsets, offsets))
    return batches


def _schema() -> Schema:
    return Schema(tuple(Field(name, kind) for name, kind in SCHEMA.items())).with_fresh_ids()


def _decoder(where: Place, encoding: Name) -> Decoder:
    registry = where.registry.url if where.registry is not None else None
    return decoder_of(format_of(encoding, registry), _schema(), Contract())


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
