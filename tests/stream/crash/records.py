"""Records with known ids, and a reader of the log that shares nothing with ours: confluent_kafka and json."""

from __future__ import annotations

import itertools
import json
import random
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.stream.support import await_markers

#: id, partition, sequence in it, event time in microseconds, text.
Row = tuple[int, int, int, int, str]
SCHEMA = {
    "id": "long required",
    "part": "int required",
    "seq": "long required",
    "at": "timestamptz",
    "note": "string",
}
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ids = itertools.count(1)
_SECONDS = 120.0


@dataclass
class Feed:
    """A topic and who writes to it: plainly, in transactions, and in transactions that are aborted."""

    bootstrap: str
    topic: str
    partitions: int
    _sequences: dict[int, int] = field(default_factory=dict)

    def produce(self, count: int, *, shares: Sequence[float] | None = None) -> None:
        """A third of the records plainly, a third in a transaction; as many again are aborted."""
        weights = shares or [1.0] * self.partitions
        cut = [max(1, round(count * weight / sum(weights))) for weight in weights]
        plan = [partition for partition, length in enumerate(cut) for _ in range(length)]
        third = len(plan) // 3
        random.Random(len(plan)).shuffle(plan)
        self._plainly(plan[:third])
        self._in_transaction(plan[third : 2 * third], commit=True)
        self._in_transaction(plan[:third], commit=False)
        self._plainly(plan[2 * third :])

    def put(self, value: bytes, partition: int = 0) -> None:
        """One record as it is."""
        producer = self._producer()
        producer.produce(self.topic, value, partition=partition)
        assert producer.flush(_SECONDS) == 0

    def _producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **(settings or {})})

    def _plainly(self, plan: Iterable[int]) -> None:
        producer = self._producer({"enable.idempotence": True})
        self._send(producer, plan)
        assert producer.flush(_SECONDS) == 0

    def _in_transaction(self, plan: Iterable[int], *, commit: bool) -> None:
        producer = self._producer({"transactional.id": f"feed-{uuid.uuid4().hex}"})
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        self._send(producer, plan, aborted=not commit)
        assert producer.flush(_SECONDS) == 0
        if commit:
            producer.commit_transaction(_SECONDS)
        else:
            producer.abort_transaction(_SECONDS)
        await_markers(admin(self.bootstrap), self.topic, self.partitions)

    def _send(self, producer: Producer, plan: Iterable[int], *, aborted: bool = False) -> None:
        for partition in plan:
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = sequence + 1
            at = _BEGIN + timedelta(milliseconds=sequence)
            document = {
                "id": next(_ids),
                "part": partition,
                "seq": sequence,
                "at": at.isoformat(),
                "note": "aborted" if aborted else f'say "{sequence}" → ünïcode',
            }
            value = json.dumps(document, ensure_ascii=bool(sequence % 2)).encode()
            while True:
                try:
                    producer.produce(self.topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)

    def log(self) -> dict[tuple[int, int], Row]:
        """What a `read_committed` consumer sees now, by partition and offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"check-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            return self._read(consumer)
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> dict[tuple[int, int], Row]:
        known = consumer.list_topics(self.topic, timeout=_SECONDS).topics[self.topic].partitions
        waiting = set(known)
        consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in waiting])
        found: dict[tuple[int, int], Row] = {}
        while waiting:
            messages = consumer.consume(10_000, timeout=1.0)
            for message in messages:
                error = message.error()
                if error is None:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    found[partition, offset] = _row(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard(message.partition())
                else:
                    raise AssertionError(error.str())
        return found


def below(log: dict[tuple[int, int], Row], next_offsets: Sequence[int]) -> Counter[Row]:
    """The rows of the log up to some positions."""
    reached = dict(enumerate(next_offsets))
    return Counter(row for (partition, offset), row in log.items() if offset < reached.get(partition, 0))


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _row(value: bytes) -> Row:
    document: dict[str, Any] = json.loads(value)
    if "at" not in document:
        return (-1, -1, -1, -1, value.decode())
    at = datetime.fromisoformat(document["at"])
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return (document["id"], document["part"], document["seq"], micros, document["note"])
