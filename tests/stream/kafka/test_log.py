from __future__ import annotations

import itertools
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from tests.stream.kafka.guarded import GuardedKafka
from tests.stream.support import PATIENCE, await_partitions, delete_topic, wait_until

from frazil.core.errors import (
    InvalidConfig,
    NotAllowed,
    NotFound,
    Outcome,
    RoundFailed,
    SourceChanged,
    Unauthenticated,
    Unavailable,
)
from frazil.core.stamp import Stamp
from frazil.devstack.kafka import Kafka
from frazil.stream.config.model import KafkaSource, Limits, Start
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.rounds import RoundPlan, confirm, plan_round

_numbers = itertools.count(1)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.create_topic(f"log-{next(_numbers)}", partitions=2)


def source(kafka: Kafka, *topics: str, pattern: str | None = None) -> KafkaSource:
    return KafkaSource({"bootstrap.servers": kafka.bootstrap_servers}, topics, pattern)


def produce(kafka: Kafka, topic: str, count: int, *, partition: int = 0, timestamp: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition, timestamp=timestamp)
    assert producer.flush(PATIENCE) == 0


def transaction(kafka: Kafka, topic: str, count: int) -> Producer:
    """An open one, with records in partition 0."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": f"test-{next(_numbers)}",
            # Nobody but the test ends it.
            "transaction.timeout.ms": 600_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(PATIENCE) == 0
    return producer


def stamped(log: KafkaLog, start: Start | None = None) -> Stamp:
    positions = log.start(start or Start())
    return Stamp(pipeline="p", epoch=1, round=0, token="t", source=log.identity(), positions=positions)


def planned(at: Stamp, log: KafkaLog) -> RoundPlan:
    return plan_round(at, log, Limits(), 2, confirm_seconds=0)


def test_a_cluster_and_its_topics_have_identities(kafka: Kafka, topic: str) -> None:
    log = KafkaLog(source(kafka, topic))
    assert log.identity() == f"kafka:{kafka.admin.list_topics(timeout=30).cluster_id}"
    found = log.topics()[topic]
    assert (found.name, found.partitions) == (topic, 2)
    assert len(found.id) == 22


def test_empty_topics_have_nothing_to_read(kafka: Kafka, topic: str) -> None:
    log = KafkaLog(source(kafka, topic))
    topics = log.topics()
    assert log.beginnings(topics) == log.ends(topics) == {topic: (0, 0)}
    for at in ("earliest", "latest", datetime.now(UTC), datetime(1960, 1, 1, tzinfo=UTC)):
        assert log.start(Start(at))[topic].next == (0, 0)


def test_starts(kafka: Kafka, topic: str) -> None:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    for days in range(3):
        produce(kafka, topic, 10, timestamp=int((day + timedelta(days=days)).timestamp() * 1000))
    log = KafkaLog(source(kafka, topic))

    def start(at: Any) -> tuple[int, ...]:
        return log.start(Start(at))[topic].next

    assert start("earliest") == (0, 0)
    assert start("latest") == (30, 0)
    assert start(day + timedelta(days=1)) == (10, 0)
    assert start(day + timedelta(days=1, microseconds=1)) == (20, 0)
    assert start(day + timedelta(days=9)) == (30, 0)
    assert start({topic: (7, 0)}) == (7, 0)
    assert start({topic: (7,)}) == (7, 0)
    assert start({}) == (0, 0)
    for wrong in ({topic: (31,)}, {topic: (-1,)}, {topic: (0, 0, 0)}, {"other": (1,)}):
        with pytest.raises(InvalidConfig):
            start(wrong)


def test_only_decided_records_are_read(kafka: Kafka, topic: str) -> None:
    log = KafkaLog(source(kafka, topic))
    at = stamped(log)
    produce(kafka, topic, 2, timestamp=1)
    first = transaction(kafka, topic, 3)
    assert log.ends(log.topics())[topic] == (2, 0)
    assert log.start(Start("latest"))[topic].next == (2, 0)
    assert log.start(Start(datetime(2020, 1, 1, tzinfo=UTC)))[topic].next == (2, 0)
    produce(kafka, topic, 1)
    assert planned(at, log).offsets == 2
    first.abort_transaction(PATIENCE)
    _wait_for_end(log, topic, 7)
    second = transaction(kafka, topic, 1)
    assert log.ends(log.topics())[topic] == (7, 0)
    second.commit_transaction(PATIENCE)
    # 2 records, 3 aborted, 1 record, a marker; then 1 record and a marker.
    _wait_for_end(log, topic, 9)
    assert planned(at, log).offsets == 9


def _wait_for_end(log: KafkaLog, topic: str, end: int) -> None:
    """The coordinator writes markers after it has answered."""
    wait_until(lambda: log.ends(log.topics())[topic][0] >= end, f"the end {end}")
    assert log.ends(log.topics())[topic][0] == end


def test_a_topic_made_again_is_another_one(kafka: Kafka, topic: str) -> None:
    log = KafkaLog(source(kafka, topic))
    at = stamped(log)
    confirm(at, log, at.positions)
    delete_topic(kafka.admin, topic)
    with pytest.raises(SourceChanged, match=f"the topic {topic} is gone"):
        planned(at, log)
    with pytest.raises(RoundFailed, match=f"no topic {topic}"):
        confirm(at, log, at.positions)
    kafka.create_topic(topic, partitions=2)
    with pytest.raises(SourceChanged, match="made again"):
        planned(at, log)
    with pytest.raises(SourceChanged, match="made again"):
        confirm(at, log, at.positions)
    assert stamped(log).positions[topic].id != at.positions[topic].id


def test_added_partitions_are_read_from_0(kafka: Kafka, topic: str) -> None:
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    log = KafkaLog(source(kafka, topic))
    at = stamped(log)
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE)
    await_partitions(kafka.admin, topic, 3)
    produce(kafka, topic, 4, partition=2)
    plan = planned(at, log)
    assert plan.offsets == 4
    assert plan.positions[topic].next == (0, 0, 4)


def test_records_trimmed_unread_are_refused(kafka: Kafka, topic: str) -> None:
    log = KafkaLog(source(kafka, topic))
    produce(kafka, topic, 10)
    at = stamped(log, Start({topic: (4, 0)}))
    _trim(kafka, topic, 4)
    assert planned(at, log).offsets == 6
    _trim(kafka, topic, 6)
    with pytest.raises(SourceChanged, match=f"2 offsets of {topic}-0"):
        planned(at, log)
    read = stamped(log, Start("latest"))
    _trim(kafka, topic, 10)
    assert planned(read, log).offsets == 0


def _trim(kafka: Kafka, topic: str, before: int) -> None:
    (done,) = kafka.admin.delete_records([TopicPartition(topic, 0, before)]).values()
    done.result(PATIENCE)


def test_a_pattern_finds_new_topics_and_no_internal_ones(kafka: Kafka) -> None:
    kafka.create_topic("shop-eu")
    kafka.create_topic("workshop-eu")
    log = KafkaLog(source(kafka, pattern="shop-.*"), pattern_seconds=0)
    at = stamped(log)
    assert list(at.positions) == ["shop-eu"]
    kafka.create_topic("shop-us")
    produce(kafka, "shop-us", 3)
    assert planned(at, log).positions["shop-us"].next == (3,)
    everything = KafkaLog(source(kafka, pattern=".*")).topics()
    assert {"shop-eu", "workshop-eu"} <= everything.keys()
    assert not [name for name in everything if name.startswith("__")]
    delete_topic(kafka.admin, "shop-us")
    assert list(planned(at, log).positions) == ["shop-eu"]


def test_a_pattern_may_match_nothing_yet(kafka: Kafka) -> None:
    log = KafkaLog(source(kafka, pattern="none-of-these"))
    assert planned(stamped(log), log).tasks == ()


def test_an_unknown_topic_is_refused_with_similar_ones(kafka: Kafka) -> None:
    kafka.create_topic("invoices")
    log = KafkaLog(source(kafka, "invoises"))
    for call in (log.topics, lambda: log.start(Start())):
        with pytest.raises(NotFound, match=r"no topic invoises .*similar: invoices"):
            call()


def as_eve(kafka: GuardedKafka, password: str) -> KafkaSource:
    return KafkaSource(kafka.as_eve(password), ("secret",))


@pytest.mark.services
@pytest.mark.jvm
def test_who_is_not_known_or_not_allowed_is_told(
    guarded: GuardedKafka, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.DEBUG, "frazil.kafka"):
        log = KafkaLog(as_eve(guarded, "wrong-password"), timeout_seconds=600)
        with pytest.raises(Unauthenticated, match=f"127.0.0.1:{guarded.guarded_port}.*sasl") as unknown:
            log.identity()
        by_pattern = KafkaSource(as_eve(guarded, "wrong-password").settings, pattern=".*")
        with pytest.raises(Unauthenticated):
            KafkaLog(by_pattern, timeout_seconds=600).start(Start())
        with pytest.raises(NotAllowed, match="Describe and Read") as refused:
            KafkaLog(as_eve(guarded, "ice-cold"), timeout_seconds=600).look()
    del log
    assert "frazil.kafka" in {record.name for record in caplog.records}
    told = f"{unknown.value}{refused.value}{caplog.text}"
    assert "wrong-password" not in told
    assert "ice-cold" not in told
    assert capfd.readouterr().err == ""


def _once_it_answers(at: Stamp, log: KafkaLog) -> RoundPlan:
    plans: list[RoundPlan] = []

    def answered() -> bool:
        with suppress(Unavailable):
            plans.append(planned(at, log))
        return bool(plans)

    wait_until(answered, "a plan")
    return plans[0]


@pytest.mark.services
@pytest.mark.jvm
def test_a_broker_that_is_down_and_back(guarded: GuardedKafka) -> None:
    topic = guarded.create_topic("down")
    at = stamped(KafkaLog(source(guarded, topic)))
    # Not for long, because it is waited for in vain below; and yet a busy broker may need longer.
    log = KafkaLog(source(guarded, topic), timeout_seconds=3)
    assert _once_it_answers(at, log).offsets == 0
    produce(guarded, topic, 5)
    guarded.kill()
    for call in (log.look, lambda: planned(at, log)):
        with pytest.raises(Unavailable, match=guarded.bootstrap_servers) as down:
            call()
        assert down.value.outcome is Outcome.RETRY
    guarded.start()
    plan = _once_it_answers(at, log)
    assert plan.offsets == 5
    assert plan.positions[topic].id == at.positions[topic].id
