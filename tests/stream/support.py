"""Small things for many tests."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from frazil.stream.config.model import KafkaSource, PipelineConfig

#: For what takes a moment where nothing else runs, and much longer where all cores are busy.
PATIENCE = 120.0
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def kafka_of(config: PipelineConfig) -> KafkaSource:
    """The source of a pipeline that reads Kafka."""
    assert isinstance(config.source, KafkaSource)
    return config.source


def wait_until(true: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def await_markers(admin: AdminClient, topic: str, partitions: int) -> None:
    """Until all transactions of the topic are decided for readers.

    The coordinator writes the markers after it has answered. Until then what was committed is hidden, with
    all that came behind it, and a record that is sent meanwhile takes the offset that the marker would have.
    """

    def ends(level: IsolationLevel) -> list[int]:
        asked = {TopicPartition(topic, number): _LATEST for number in range(partitions)}
        found = admin.list_offsets(asked, isolation_level=level, request_timeout=PATIENCE)
        return [future.result(PATIENCE).offset for _, future in sorted(found.items())]

    def decided() -> bool:
        stable = ends(IsolationLevel.READ_COMMITTED)
        return min(stable) >= 0 and stable == ends(IsolationLevel.READ_UNCOMMITTED)

    wait_until(decided, f"the markers of {topic}")


def await_partitions(admin: AdminClient, topic: str, partitions: int) -> None:
    """Until the broker knows them: the controller made them, and has answered before it hears of that."""

    def known() -> bool:
        (asked,) = admin.describe_topics(TopicCollection([topic]), request_timeout=PATIENCE).values()
        with contextlib.suppress(KafkaException):
            found = asked.result(PATIENCE).partitions
            return len(found) == partitions and all(each.leader is not None for each in found)
        return False

    wait_until(known, f"{partitions} partitions of {topic}")


def delete_topic(admin: AdminClient, topic: str) -> None:
    """Until the broker, too, has heard that it is gone."""
    admin.delete_topics([topic], operation_timeout=PATIENCE)[topic].result(PATIENCE)
    wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE).topics, f"{topic} to go")
