"""The way to librdkafka through `frazil.stream._fetch`: no Python object for a record."""

from __future__ import annotations

import ctypes.util
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka
import pyarrow as pa

from frazil.stream.kafka.consumer import HEADERS, Event, Extras, Fault, refused
from frazil.stream.source import RawBatch, Slice

if TYPE_CHECKING:
    from frazil.stream import _fetch

_log = logging.getLogger(__name__)
# Not pa.array([]): given a list it loads pandas, 40 MB in every Python worker.
_NONE = [pa.nulls(0, pa.string()), pa.nulls(0, pa.binary())]


class NativeFetcher:
    """Over the librdkafka that Kafka's Python client carries; a consumer without a group."""

    def __init__(
        self, settings: Mapping[str, str], extras: Extras, *, batch_records: int, batch_bytes: int
    ) -> None:
        """ImportError where it cannot be used."""
        from frazil.stream._fetch import Client

        self._starts: dict[tuple[str, int], int] = {}
        try:
            self._client = Client(
                librdkafka(),
                settings,
                keys=extras.keys,
                headers=extras.headers,
                batch_records=batch_records,
                batch_bytes=batch_bytes,
            )
        except ValueError as error:
            raise refused(str(error), settings) from None

    def assign(self, slices: Sequence[Slice]) -> None:
        self._starts = {(s.topic, s.partition): s.start for s in slices}
        self._client.assign([(s.topic, s.partition, s.start, s.end) for s in slices])

    def poll(self, seconds: float) -> Sequence[Event]:
        batches, ends, faults = self._client.poll(seconds)
        found: list[Event] = [_batch(self._starts[batch[0], batch[1]], *batch) for batch in batches]
        found += ends
        for fault in faults:
            found.append(Fault(*fault))
            _log.debug("%s", fault[1])
        return found

    def unassign(self) -> None:
        self._client.unassign()

    def close(self) -> None:
        self._client.close()


@functools.cache
def native_usable() -> bool:
    """Whether the module was built, finds its library, and is not switched off by FRAZIL_NATIVE=0."""
    if os.environ.get("FRAZIL_NATIVE") == "0":
        return False
    try:
        NativeFetcher({"log_level": "0"}, Extras(), batch_records=1, batch_bytes=1).close()
    except ImportError as error:
        _log.info("Kafka is read without native code, which is slower: %s", error)
        return False
    return True


@functools.cache
def librdkafka() -> str:
    """The library: that of the installed client, else the system's. ImportError if there is none."""
    package = Path(confluent_kafka.__file__).parent
    for folder in (package.with_name("confluent_kafka.libs"), package / ".dylibs"):
        for path in sorted(folder.glob("librdkafka[-.]*")):
            return str(path)
    name = ctypes.util.find_library("rdkafka")
    if name is None:
        raise ImportError("librdkafka is neither in the package confluent_kafka nor on the system")
    return name


def _batch(
    start: int,
    topic: str,
    partition: int,
    count: int,
    values: _fetch.Strings,
    offsets: _fetch.Memory,
    timestamps: _fetch.Memory,
    keys: _fetch.Strings | None,
    headers: _fetch.Headers | None,
) -> RawBatch:
    return RawBatch(
        topic,
        partition,
        _strings(count, values),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(timestamps)]),
        None if keys is None else _strings(count, keys),
        None if headers is None else _headers(count, headers),
        slice_start=start,
    )


def _headers(records: int, column: _fetch.Headers) -> pa.ListArray:
    count, ends, names, values = column
    arrays = [_text(_strings(count, names)), _strings(count, values)] if count else _NONE
    pairs = pa.StructArray.from_arrays(arrays, fields=list(HEADERS.value_type))
    return pa.Array.from_buffers(HEADERS, records, [None, pa.py_buffer(ends)], children=[pairs])


def _text(names: pa.BinaryArray) -> pa.StringArray:
    """Kafka takes any bytes for the name of a header; what is no UTF-8 is replaced, as the record is good."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())


def _strings(count: int, column: _fetch.Strings) -> pa.BinaryArray:
    data, ends, valid, nulls = column
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)
