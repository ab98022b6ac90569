"""What is written to topics, and what was read of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import Producer
from tests.stream.support import PATIENCE, await_markers

from frazil.devstack.kafka import Kafka
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.source import RawBatch

numbers = itertools.count(1)
Topic = Callable[..., str]
Reader = Callable[..., SliceReader]


def quiet(kafka: Kafka) -> dict[str, object]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "enable.idempotence": True}


def produce(
    kafka: Kafka, topic: str, values: Sequence[bytes | None], partition: int = 0, **settings: Any
) -> None:
    producer = Producer({**quiet(kafka), "linger.ms": 5, **settings})
    for value in values:
        producer.produce(topic, value, partition=partition)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def transactions(kafka: Kafka, topic: str, *steps: tuple[str, int]) -> None:
    """Each step: commit, abort or leave open a transaction of so many records; a marker is one offset."""
    for how, count in steps:
        # One that is left open is not to be ended by the broker.
        settings = {"transactional.id": f"{topic}-{next(numbers)}", "transaction.timeout.ms": 600_000}
        producer = Producer({**quiet(kafka), **settings})
        producer.init_transactions(PATIENCE)
        producer.begin_transaction()
        for i in range(count):
            producer.produce(topic, f"{how}-{i}".encode(), partition=0)
        assert producer.flush(PATIENCE) == 0
        if how == "commit":
            producer.commit_transaction(PATIENCE)
        elif how == "abort":
            producer.abort_transaction(PATIENCE)
        else:
            _open.append(producer)
            continue
        # Else the marker might come behind the records of the next one.
        await_markers(kafka.admin, topic, 1)


_open: list[Producer] = []


def numbered(count: int, size: int = 0) -> list[bytes]:
    return [f"{i:08d}".encode().ljust(size, b".") for i in range(count)]


def rows(
    batches: Iterator[RawBatch] | Sequence[RawBatch],
) -> dict[tuple[str, int], list[tuple[int, bytes | None]]]:
    """Offsets and values of every partition, in the order in which they came."""
    found: dict[tuple[str, int], list[tuple[int, bytes | None]]] = {}
    for batch in batches:
        for column in (batch.values, batch.offsets, batch.timestamps, batch.keys):
            if column is not None:
                column.validate(full=True)
                assert len(column) == len(batch)
        assert len(batch) > 0
        pairs = zip(batch.offsets.to_pylist(), batch.values.to_pylist(), strict=True)
        found.setdefault((batch.topic, batch.partition), []).extend(pairs)
    return found
