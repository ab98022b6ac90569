"""The changes: batches that depend on nothing but the seed, and the rows that they leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from bench.cdc.rows import json_rows
from bench.numbers import Ids

PARTITIONS = 2
#: `random`: keys of all the table; `append`: most are new, and the others are among the youngest.
Kind = Literal["random", "append"]
#: No row has this id.
ABSENT = -1

# Shares of a batch. Those that come a second time are at its end.
_DELETES, _CREATES, _AGAIN = 0.02, 0.02, 0.01
_APPENDED = 0.95
#: How many batches back the keys are that an append-mostly batch updates.
_RECENT = 5
_FIRST_LSN, _FIRST_MS = 1_000_000, 1_790_000_000_000


@dataclass(frozen=True)
class Part:
    """The changes of one partition, in their order."""

    partition: int
    ids: Ids
    #: Before and after; ABSENT where there is no row.
    before: Ids
    after: Ids
    #: Of the first change; those of all partitions take turns.
    first: int


class Workload:
    """A table that changes. Whoever makes the same one gets the same changes."""

    def __init__(self, rows: int, size: int, kind: Kind, *, seed: int = 7) -> None:
        self.kind, self.size = kind, size
        self._random = np.random.default_rng(seed)
        #: By id, how often the row was changed; ABSENT where there is none.
        self.versions: npt.NDArray[np.int64] = np.zeros(rows, np.int64)
        self._made = 0

    @property
    def alive(self) -> Ids:
        found: Ids = np.flatnonzero(self.versions != ABSENT)
        return found

    def batch(self) -> list[Part]:
        """The next changes, equally many in each partition; the last one of a partition is no delete."""
        half = self.size // PARTITIONS
        made = int(half * (_APPENDED if self.kind == "append" else _CREATES))
        rows = len(self.versions)
        self.versions = np.concatenate([self.versions, np.full(made * PARTITIONS, ABSENT)])
        fresh = np.arange(rows, len(self.versions))
        parts = [
            self._part(partition, half, rows, fresh[fresh % PARTITIONS == partition])
            for partition in range(PARTITIONS)
        ]
        self._made += 1
        return parts

    def _part(self, partition: int, half: int, rows: int, fresh: Ids) -> Part:
        again = int(half * _AGAIN) if self.kind == "random" else 0
        deletes = int(half * _DELETES) if self.kind == "random" else 0
        old = self._chosen(partition, half - len(fresh) - again, rows)
        ids = np.concatenate([old, fresh])
        gone = np.zeros(len(ids), bool)
        gone[:deletes] = True
        order = self._random.permutation(len(ids))
        ids, gone = ids[order], gone[order]
        before = self.versions[ids]
        after = np.where(gone, ABSENT, before + 1)
        self.versions[ids] = after
        # Once more, and last.
        twice = old[deletes : deletes + again] if again else fresh[:0]
        ids, before = np.concatenate([ids, twice]), np.concatenate([before, self.versions[twice]])
        after = np.concatenate([after, self.versions[twice] + 1])
        self.versions[twice] += 1
        return Part(partition, ids, before, after, self._made * self.size + partition)

    def _chosen(self, partition: int, count: int, rows: int) -> Ids:
        """Rows that are there, of one partition."""
        first = max(0, rows - _RECENT * self.size) if self.kind == "append" else 0
        low, high = -(-(first - partition) // PARTITIONS), -(-(rows - partition) // PARTITIONS)
        drawn = self._random.choice(high - low, min(high - low, 2 * count), replace=False)
        ids = (low + drawn) * PARTITIONS + partition
        found: Ids = ids[self.versions[ids] != ABSENT][:count]
        if len(found) < count:
            raise ValueError(f"a table of {rows} rows is too small for batches of {self.size}")
        return found


def envelopes(part: Part) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values as Debezium sends them for PostgreSQL with REPLICA IDENTITY FULL, without schemas."""
    # Whatever a row that is not there would hold.
    before, after = (json_rows(part.ids, np.maximum(versions, 0)) for versions in (part.before, part.after))
    there, stays = (part.before != ABSENT).tolist(), (part.after != ABSENT).tolist()
    for number, i in enumerate(part.ids.tolist()):
        op = b"d" if not stays[number] else b"u" if there[number] else b"c"
        turn = part.first + number * PARTITIONS
        lsn, ms = _FIRST_LSN + 64 * turn, _FIRST_MS + turn // 100
        source = (
            b'{"version":"3.6.3.Final","connector":"postgresql","name":"pg","ts_ms":%d,"snapshot":"false",'
            b'"db":"shop","sequence":"[\\"%d\\",\\"%d\\"]","ts_us":%d000,"ts_ns":%d000000,"schema":"inv",'
            b'"table":"orders","txId":%d,"lsn":%d,"xmin":null,"origin":null,"origin_lsn":null}'
            % (ms, lsn - 32, lsn, ms, ms, 700 + turn, lsn)
        )
        value = b'{"before":%b,"after":%b,"source":%b,"transaction":null,"op":"%b","ts_ms":%d}' % (
            before[number] if there[number] else b"null",
            after[number] if stays[number] else b"null",
            source,
            op,
            ms,
        )
        yield b'{"id":%d}' % i, value


class Feed:
    """Sends the changes of a workload to a topic of its own."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 5,
                # A fresh broker keeps idempotent producers waiting for a moment, and they complain.
                "log_level": 3,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def send(self, parts: list[tuple[int, list[tuple[bytes, bytes]]]]) -> None:
        for partition, messages in parts:
            for key, value in messages:
                self._producer.produce(self._topic, value, key, partition=partition)
            self._producer.poll(0)
        if left := self._producer.flush(60):
            raise RuntimeError(f"{left} messages were not delivered to {self._topic}")


def rendered(parts: list[Part]) -> list[tuple[int, list[tuple[bytes, bytes]]]]:
    """By partition."""
    return [(part.partition, list(envelopes(part))) for part in parts]
