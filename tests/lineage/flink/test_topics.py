"""Topics of real brokers, and brokers that are not there."""

from __future__ import annotations

from frazil.devstack.kafka import Kafka
from frazil.devstack.ports import free_port
from frazil.lineage.flink.resolve.topics import KafkaTopics


def test_topics_are_listed_and_found_by_their_metric(kafka: Kafka) -> None:
    for name in ("lineage.dot", "lineage_line"):
        kafka.create_topic(name)
    failed: list[str] = []
    topics = KafkaTopics({"bootstrap.servers": kafka.bootstrap_servers}, 60, failed.append)
    assert topics.meant("lineage_dot") == ["lineage.dot"]
    assert topics.meant("lineage_line") == ["lineage_line"]
    assert topics.meant("lineage_none") == []
    assert "lineage.dot" in topics
    assert "lineage_dot" not in topics
    assert failed == []


def test_brokers_that_do_not_answer_are_reported_once() -> None:
    failed: list[str] = []
    topics = KafkaTopics({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, 0.2, failed.append)
    assert topics.meant("a_b") == []
    assert "a" not in topics
    (message,) = failed
    assert "could not be listed" in message


def test_without_brokers_nothing_is_asked() -> None:
    topics = KafkaTopics({}, 60, lambda message: None)
    assert not topics
    assert topics.names() == frozenset()
