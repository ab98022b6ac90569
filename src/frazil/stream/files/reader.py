"""Slices of files, read in tasks.

Offsets count lines, records or rows of the slice from 0; a header and empty lines are counted. A slice is a
whole file, unless the file is cut into parts, which are then its partitions.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from frazil.core.errors import FrazilError
from frazil.core.schema import Schema
from frazil.stream.config.model import AvroFormat, Contract, CsvFormat, Format, JsonFormat, ParquetFormat
from frazil.stream.files.arrays import elements
from frazil.stream.files.avro import avro_batches
from frazil.stream.files.found import OpenFile, Place, Seekable, broken
from frazil.stream.files.lines import MB, Numbered, check_length, csv_records, lines
from frazil.stream.files.place import place_of
from frazil.stream.source import RawBatch, Slice

BATCH_RECORDS = 65_536
BATCH_BYTES = 16 * MB
_CHUNK = 4 * MB
_LOOK = 64 * 1024
#: Objects whose beginning is fetched while others are decoded: a small one is mostly waiting.
_AHEAD = 8
_MARK = b"\xef\xbb\xbf"
_COMPRESSED = {".gz": "gzip", ".zst": "zstd"}
#: What Arrow raises for a file that is not what it should be.
_BROKEN = (pa.ArrowException, OSError, ValueError)


def compression_of(path: str) -> str | None:
    return next((codec for ending, codec in _COMPRESSED.items() if path.endswith(ending)), None)


@dataclass(frozen=True)
class FileReader:
    """A `Reader`. `settings` are those of the store, complete."""

    location: str
    settings: Mapping[str, str] = field(repr=False)
    format: Format

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        place = _shared_place(self.location, frozenset(self.settings.items()))
        for part, file in _opened(place, slices):
            with contextlib.closing(file):
                yield from self._read(part, file)

    def _read(self, part: Slice, file: Beginning) -> Iterator[RawBatch]:
        try:
            for batch in self._batches(part, file):
                yield from _bounded(batch)
        except FrazilError:
            raise
        except _BROKEN as error:
            kind = type(self.format).__name__.removesuffix("Format").lower()
            what = compression_of(part.topic) or kind
            raise broken(part.topic, f"cannot be read as {what}: {error}") from None

    def _batches(self, part: Slice, file: Beginning) -> Iterator[RawBatch]:
        match self.format:
            case ParquetFormat():
                source = pa.PythonFile(Seekable(file, part.end), "r")
                rows = pq.ParquetFile(source, pre_buffer=True).iter_batches(BATCH_RECORDS)
                return _of_rows(part, file, rows)
            case AvroFormat():
                return _of_rows(part, file, avro_batches(part.topic, Seekable(file, part.end), BATCH_RECORDS))
            case JsonFormat():
                return _of_values(part, file, _json(part, file))
            case CsvFormat(header=True):
                return _with_header(part, file, _csv(part, file, self.format), self.format)
            case CsvFormat():
                return _of_values(part, file, _csv(part, file, self.format))
        return _of_values(part, file, _raw(part, file))


class Beginning:
    """An open file of which some bytes were fetched already."""

    def __init__(self, file: OpenFile, start: int, first: bytes) -> None:
        self._file = file
        self._start = start
        self._first = first

    @property
    def modified(self) -> int:
        return self._file.modified

    @property
    def size(self) -> int:
        return self._file.size

    def read(self, start: int, end: int) -> bytes:
        here = start - self._start
        if here >= 0 and end - self._start <= len(self._first):
            return self._first[here : end - self._start]
        return self._file.read(start, end)

    def close(self) -> None:
        self._file.close()


@functools.lru_cache(maxsize=16)
def _shared_place(location: str, settings: frozenset[tuple[str, str]]) -> Place:
    """One for all tasks of a process: it keeps its connections."""
    return place_of(location, dict(settings))


def _opened(place: Place, slices: Sequence[Slice]) -> Iterator[tuple[Slice, Beginning]]:
    """The files in their order, those that come next being fetched meanwhile."""
    waiting: deque[tuple[Slice, Future[Beginning]]] = deque()
    left = iter(slices)
    with ThreadPoolExecutor(_AHEAD) as pool:
        try:
            while True:
                while len(waiting) < _AHEAD and (part := next(left, None)) is not None:
                    waiting.append((part, pool.submit(_begin, place, part)))
                if not waiting:
                    return
                part, future = waiting.popleft()
                yield part, future.result()
        finally:
            for _, future in waiting:
                if not future.cancel() and future.exception() is None:
                    future.result().close()


def _begin(place: Place, part: Slice) -> Beginning:
    file = place.open(part.topic, part.version)
    # The byte before a part tells whether a line begins there.
    start = max(part.start - 1, 0)
    try:
        return Beginning(file, start, file.read(start, min(part.end, start + _CHUNK)))
    except BaseException:
        file.close()
        raise


def _json(part: Slice, file: Beginning) -> Iterator[Numbered]:
    if len(part) < file.size:
        if not _is_array(file.read(0, min(file.size, _LOOK))):
            return lines(part.topic, _part(part, file))
        # It cannot be cut: the first part reads it all.
        if part.start:
            return iter(())
        part = replace(part, end=file.size)
    chunks = _chunks(part, file)
    first = next(chunks, b"")
    return (elements if _is_array(first) else lines)(part.topic, _joined(first, chunks))


def _csv(part: Slice, file: Beginning, format: CsvFormat) -> Iterator[Numbered]:  # noqa: A002
    return csv_records(part.topic, _chunks(part, file), format.delimiter, format.quote)


def _raw(part: Slice, file: Beginning) -> Iterator[Numbered]:
    check_length(part.topic, len(part), "record")
    yield pa.array([file.read(0, part.end)], pa.binary()), np.zeros(1, np.int64)


def _is_array(first: bytes) -> bool:
    return first.removeprefix(_MARK).lstrip().startswith(b"[")


def _joined(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _chunks(part: Slice, file: Beginning) -> Iterator[bytes]:
    """The text of a whole file, decompressed."""
    codec = compression_of(part.topic)
    found: Iterator[bytes]
    if codec is None:
        found = (file.read(at, min(part.end, at + _CHUNK)) for at in range(0, part.end, _CHUNK))
    else:
        # Buffered: the decompressor asks for little at a time.
        raw = io.BufferedReader(Seekable(file, part.end), _CHUNK)
        stream = pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)
        found = iter(lambda: stream.read(_CHUNK), b"")
    yield next(found, b"").removeprefix(_MARK)
    yield from found


def _part(part: Slice, file: Beginning) -> Iterator[bytes]:
    """The lines that begin in the part."""
    begin = _after_line_end(part.topic, file, part.start - 1) if part.start else 0
    stop = _after_line_end(part.topic, file, part.end - 1)
    for at in range(begin, stop, _CHUNK):
        data = file.read(at, min(stop, at + _CHUNK))
        yield data if at else data.removeprefix(_MARK)


def _after_line_end(path: str, file: Beginning, start: int) -> int:
    """Where the first line begins behind `start`; the end of the file if none does."""
    for at in range(start, file.size, _LOOK):
        check_length(path, at - start, "line")
        found = file.read(at, min(file.size, at + _LOOK)).find(b"\n")
        if found >= 0:
            return at + found + 1
    return file.size


def _of_values(part: Slice, file: Beginning, found: Iterable[Numbered]) -> Iterator[RawBatch]:
    for values, numbers in found:
        yield _batch(part, file, values, numbers)


def _with_header(
    part: Slice,
    file: Beginning,
    found: Iterable[Numbered],
    format: CsvFormat,  # noqa: A002 - the settings' word
) -> Iterator[RawBatch]:
    header: bytes | None = None
    records = 0
    for values, numbers in found:
        if header is None and len(values):
            header = values[0].as_py()
            values, numbers = values[1:], numbers[1:]
        records += len(values)
        yield replace(_batch(part, file, values, numbers), header=header)
    if header is not None and not records:
        _require_readable(part.topic, header, format)


def _require_readable(path: str, header: bytes, format: CsvFormat) -> None:  # noqa: A002 - the settings' word
    """A quote that is not closed, or ends of lines that are none, make a header of all the records."""
    from frazil.stream.decode.csv_reference import CsvReference

    problem = CsvReference(Schema(()), format, Contract()).layout(header).problem
    if problem is not None:
        raise broken(path, f"has no records, and {problem}")


def _of_rows(part: Slice, file: Beginning, found: Iterable[pa.RecordBatch]) -> Iterator[RawBatch]:
    number = 0
    for rows in found:
        count = len(rows)
        values = pa.nulls(count, pa.binary())
        yield replace(_batch(part, file, values, np.arange(number, number + count)), rows=rows)
        number += count


def _batch(part: Slice, file: Beginning, values: pa.BinaryArray, numbers: NDArray[np.int64]) -> RawBatch:
    return RawBatch(
        part.topic,
        part.partition,
        values,
        pa.array(numbers, pa.int64()),
        pa.repeat(pa.scalar(file.modified // 1000, pa.int64()), len(values)),
        slice_start=part.start,
    )


def _bounded(batch: RawBatch) -> Iterator[RawBatch]:
    """The batch in pieces of bounded size; none if it is empty."""
    count = len(batch)
    size = batch.values.nbytes + (batch.rows.nbytes if batch.rows is not None else 0)
    pieces = max(-(-count // BATCH_RECORDS), -(-size // BATCH_BYTES))
    step = max(1, -(-count // max(1, pieces)))
    for at in range(0, count, step):
        yield replace(
            batch,
            values=batch.values.slice(at, step),
            offsets=batch.offsets.slice(at, step),
            timestamps=batch.timestamps.slice(at, step),
            rows=None if batch.rows is None else batch.rows.slice(at, step),
        )
