"""Events at a steady rate: each follows from its number, and so do the rows that they leave."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from bench.numbers import Ids, mix, part
from frazil.core.schema import Field, Schema

#: The version is the event's number; when it was handed to the producer is in microseconds since 1970.
COLUMNS = Schema(
    (Field("id", "long"), Field("version", "long"), Field("sent", "long"), Field("note", "string"))
)
#: One of so many events of a keyed table is a delete, but for the last ones: that all was seen is seen by
#: rows.
_DELETES, _LAST = 50, 100
_NOTE = "x" * 60
_TICK_SECONDS = 0.01

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Stream:
    """What goes to one table."""

    topic: str
    #: How many there are; 0: a log, in which every event is a row.
    keys: int

    def ids(self, count: int) -> Ids:
        numbers = np.arange(count, dtype=np.int64)
        return part(mix(numbers), 0, self.keys) if self.keys else numbers

    def deletes(self, count: int) -> npt.NDArray[np.bool_]:
        """Which of the events are."""
        found: npt.NDArray[np.bool_] = part(mix(np.arange(count, dtype=np.int64)), 32, _DELETES) == 0
        found[max(0, count - _LAST) :] = False
        return found if self.keys else np.zeros(count, bool)

    def left(self, count: int) -> Ids:
        """By id, the version that is there after so many events; -1 where none is."""
        ids, numbers = self.ids(count), np.arange(count, dtype=np.int64)
        last: Ids = np.full(self.keys or count, -1, np.int64)
        # The last one of equal indices is the one that stays.
        last[ids] = np.where(self.deletes(count), -1, numbers)
        return last

    def rows(self, count: int) -> list[tuple[int, int]]:
        """Id and version."""
        last = self.left(count)
        there = np.flatnonzero(last >= 0)
        return list(zip(there.tolist(), last[there].tolist(), strict=True))


def produce(bootstrap_servers: str, streams: Sequence[Stream], rate: float, seconds: float) -> list[Times]:
    """Events of all streams in turns; when each was handed to the producer, by its number.

    For a process of its own: it must not wait for anybody.
    """
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        | {"compression.type": "lz4", "partitioner": "murmur2_random"}
    )
    count = events(streams, rate, seconds)
    ids = [stream.ids(count).tolist() for stream in streams]
    deletes = [stream.deletes(count).tolist() for stream in streams]
    times = [np.zeros(count) for _ in streams]
    began, sent = time.time(), 0
    while sent < count:
        due = min(count, int((time.time() - began) * rate / len(streams)))
        for number in range(sent, due):
            for place, stream in enumerate(streams):
                times[place][number] = now = time.time()
                key, value = _record(ids[place][number], number, now, delete=deletes[place][number])
                producer.produce(stream.topic, value, key if stream.keys else None)
        sent = due
        producer.poll(0)
        time.sleep(_TICK_SECONDS)
    if left := producer.flush(60):
        raise RuntimeError(f"{left} events were not delivered")
    return times


def events(streams: Sequence[Stream], rate: float, seconds: float) -> int:
    """Of each stream."""
    return int(rate * seconds) // len(streams)


def _record(i: int, number: int, now: float, *, delete: bool) -> tuple[bytes, bytes | None]:
    value = b'{"id":%d,"version":%d,"sent":%d,"note":"%b"}' % (i, number, int(now * 1e6), _NOTE.encode())
    return b'{"id":%d}' % i, None if delete else value
