from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from frazil.core.errors import ServiceError
from frazil.devstack.kafka import Kafka

pytestmark = pytest.mark.services


def produce(kafka: Kafka, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    refused: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            refused.append(error.str())

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    assert refused == []


def consume(kafka: Kafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test", "auto.offset.reset": "earliest"}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(count, timeout=60)
        assert all(message.error() is None for message in found)
        return [message.value() or b"" for message in found]
    finally:
        consumer.close()


def test_messages_are_written_and_read(kafka: Kafka) -> None:
    topic = kafka.create_topic("devstack", partitions=2)
    produce(kafka, topic, [b"a", b"b", b"c"])
    assert consume(kafka, topic, 3) == [b"a", b"b", b"c"]
    assert len(kafka.admin.list_topics(timeout=60).topics[topic].partitions) == 2


def test_a_topic_is_made_once_and_never_by_itself(kafka: Kafka) -> None:
    kafka.create_topic("once")
    with pytest.raises(ServiceError, match="once"):
        kafka.create_topic("once")
    asked = kafka.admin.list_topics("misspelt", timeout=60).topics["misspelt"]
    assert asked.error is not None
    assert asked.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.exhaustive
def test_messages_outlast_a_kill() -> None:
    with Kafka() as kafka:
        cluster = kafka.admin.list_topics(timeout=60).cluster_id
        topic = kafka.create_topic("kept")
        produce(kafka, topic, [b"ice"])
        kafka.kill()
        kafka.start()
        assert consume(kafka, topic, 1) == [b"ice"]
        assert kafka.admin.list_topics(timeout=60).cluster_id == cluster
