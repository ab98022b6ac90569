"""Data files in Avro: the container with blocks of rows, each a record."""

from __future__ import annotations

import io
import secrets
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import msgspec
import pyarrow as pa

from frazil.core.schema import arrow_type
from frazil.lake.avro_schema import converter, record_schema
from frazil.lake.files import Metrics
from frazil.lake.layout import Layout
from frazil.lake.row_file import RowFile
from frazil.lake.row_metrics import RowMetrics
from frazil.lake.storage import Output

#: Rows are encoded in blocks of about this size, and turned into Python's objects so many at a time.
_BLOCK_BYTES = 256 * 1024
#: Of a file at least, if it is small.
_BLOCKS = 8
_ROWS = 4096
_SYNC = 16
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC}},
        ],
    }
)
_BLOCK = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Block",
        "fields": [{"name": "count", "type": "long"}, {"name": "rows", "type": "bytes"}],
    }
)
_INTEGERS = {
    "date": pa.int32(),
    "time": pa.int64(),
    "timestamp": pa.int64(),
    "timestamptz": pa.int64(),
}


class AvroFile(RowFile):
    """One row after the other: slower than the formats by columns, by much."""

    format = "avro"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._layout = Layout(self._schema, _stored, _no_labels)
        self._metrics = RowMetrics(self._columns)
        self._document = record_schema(self._schema)
        self._parsed = fastavro.parse_schema(self._document)
        self._convert = converter(self._schema)
        self._compress = _compressor(self._options.codec, self._options.compression_level)
        self._sync = secrets.token_bytes(_SYNC)
        self._block = io.BytesIO()
        self._block_bytes = min(_BLOCK_BYTES, self._options.size // _BLOCKS)
        self._count = 0
        self._sink: Any = None

    def _begin(self, output: Output, rows: pa.Table) -> None:
        self._sink = output.sink
        meta = {
            "avro.schema": msgspec.json.encode(self._document),
            "avro.codec": self._options.codec.encode(),
        }
        header = io.BytesIO()
        fastavro.schemaless_writer(header, _HEADER, {"magic": b"Obj\x01", "meta": meta, "sync": self._sync})
        self._sink.write(header.getvalue())

    def _write(self, rows: pa.Table) -> None:
        self._metrics.add(rows)
        for batch in self._layout.of(rows).to_batches(max_chunksize=_ROWS):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                fastavro.schemaless_writer(self._block, self._parsed, self._convert(row))
                self._count += 1
                if self._block.tell() >= self._block_bytes:
                    self._put()

    def _put(self) -> None:
        """A block: the number of rows, their bytes, and the mark by which a reader finds the next."""
        block = io.BytesIO()
        row_bytes = self._compress(self._block.getvalue())
        fastavro.schemaless_writer(block, _BLOCK, {"count": self._count, "rows": row_bytes})
        self._sink.write(block.getvalue() + self._sync)
        self._block, self._count = io.BytesIO(), 0

    def _end(self) -> None:
        if self._count:
            self._put()

    def _described(self) -> tuple[Metrics, tuple[int, ...]]:
        return self._metrics.found(), ()


def _stored(kind: str) -> pa.DataType:
    return _INTEGERS.get(kind) or arrow_type(kind)


def _no_labels(*_: object) -> dict[str, str]:
    return {}


def _compressor(codec: str, level: int | None) -> Callable[[bytes], bytes]:
    """By pyarrow: what fastavro has needs further packages."""
    if codec == "zstandard":
        zstd = pa.Codec("zstd", compression_level=level)
        return lambda data: bytes(zstd.compress(data, asbytes=True))
    if codec == "snappy":
        snappy = pa.Codec("snappy")
        # Avro wants a checksum of the rows behind them.
        return lambda data: snappy.compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")
    if codec == "deflate":
        return lambda data: _deflated(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level)
    return lambda data: data


def _deflated(data: bytes, level: int) -> bytes:
    packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
