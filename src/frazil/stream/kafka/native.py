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

from frazil.stream.kafka.consumer import Event, Fault, refused
from frazil.stream.source import RawBatch, Slice

if TYPE_CHECKING:
    from frazil.stream import _fetch

_log = logging.getLogger(__name__)


class NativeFetcher:
    """Over the librdkafka that Kafka's Python client carries; a consumer without a group."""

    def __init__(
        self, settings: Mapping[str, str], *, keys: bool, batch_records: int, batch_bytes: int
    ) -> None:
        """ImportError where it cannot be used."""
        from frazil.stream._fetch import Client

        try:
            self._client = Client(
                librdkafka(), settings, keys=keys, batch_records=batch_records, batch_bytes=batch_bytes
            )
        except ValueError as error:
            raise refused(str(error), settings) from None

    def assign(self, slices: Sequence[Slice]) -> None:
        self._client.assign([(s.topic, s.partition, s.start, s.end) for s in slices])

    def poll(self, seconds: float) -> Sequence[Event]:
        batches, ends, faults = self._client.poll(seconds)
        found: list[Event] = [_batch(*batch) for batch in batches]
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
        NativeFetcher({"log_level": "0"}, keys=False, batch_records=1, batch_bytes=1).close()
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
    topic: str,
    partition: int,
    count: int,
    values: _fetch.Strings,
    offsets: _fetch.Memory,
    timestamps: _fetch.Memory,
    keys: _fetch.Strings | None,
) -> RawBatch:
    return RawBatch(
        topic,
        partition,
        _strings(count, values),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(offsets)]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(timestamps)]),
        None if keys is None else _strings(count, keys),
    )


def _strings(count: int, column: _fetch.Strings) -> pa.BinaryArray:
    data, ends, valid, nulls = column
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)
