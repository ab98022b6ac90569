"""Small things for many tests of hot tables."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka.cimpl import NewPartitions

from frazil.devstack.kafka import Kafka
from frazil.hot.topics import Topics

#: For what takes a moment where nothing else runs, and much longer where all cores are busy.
PATIENCE = 120.0


def wait_until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def grow(kafka: Kafka, topic: str, partitions: int) -> None:
    """More partitions, until the broker tells of them: the controller answers before that."""
    kafka.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(PATIENCE)
    topics = _topics(kafka)
    wait_until(lambda: topics.look(topic).topics[topic].partitions == partitions, f"{partitions} of {topic}")


def remove(kafka: Kafka, topic: str) -> None:
    """Delete it, until the broker tells that it is gone: the controller answers before that."""
    kafka.admin.delete_topics([topic], operation_timeout=PATIENCE)[topic].result(PATIENCE)
    topics = _topics(kafka)
    wait_until(lambda: topic not in topics.look(topic).topics, f"{topic} goes")


def _topics(kafka: Kafka) -> Topics:
    return Topics({"bootstrap.servers": kafka.bootstrap_servers}, timeout_seconds=PATIENCE)
