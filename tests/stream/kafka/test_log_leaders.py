"""A topic that lost its leader, beside others that have theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from confluent_kafka.cimpl import NewTopic
from tests.stream.kafka.guarded import GuardedKafka
from tests.stream.kafka.second import SETTINGS, SecondBroker
from tests.stream.support import PATIENCE, await_partitions, wait_until

from frazil.core.errors import NotAllowed, Outcome, Unavailable
from frazil.devstack.kafka import Kafka
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog, LogView


@pytest.fixture
def first() -> Iterator[Kafka]:
    with Kafka(settings=SETTINGS) as broker:
        yield broker


def _led_by(kafka: Kafka, name: str, *brokers: int) -> None:
    """A topic with a partition for each of the brokers."""
    topic = NewTopic(name, len(brokers), replica_assignment=[[broker] for broker in brokers])
    wait_until(lambda: len(kafka.admin.list_topics(timeout=PATIENCE).brokers) >= max(brokers), "the brokers")
    kafka.admin.create_topics([topic], operation_timeout=PATIENCE)[name].result(PATIENCE)
    await_partitions(kafka.admin, name, len(brokers))


def _log(kafka: Kafka, *topics: str) -> KafkaLog:
    return KafkaLog(KafkaSource({"bootstrap.servers": kafka.bootstrap_servers}, topics), timeout_seconds=5)


def _until(log: KafkaLog, true: Callable[[LogView], bool]) -> LogView:
    views: list[LogView] = []

    def seen() -> bool:
        # The broker that died may be the one that the client took for the controller.
        with suppress(Unavailable):
            views.append(log.look_at_each())
        return bool(views) and true(views[-1])

    wait_until(seen, "a view of the log")
    return views[-1]


def _lost(view: LogView) -> bool:
    """Of the one topic, and of no other."""
    return view.failed.keys() == {"bad"} and "Leader not available" in str(view.failed["bad"])


@pytest.mark.services
@pytest.mark.jvm
def test_a_topic_without_a_leader_hides_no_other(first: Kafka) -> None:
    with SecondBroker(first) as second:
        _led_by(first, "bad", 1, 2)
        _led_by(first, "good", 1, 1)
        log = _log(first, "bad", "good", "never")
        # Leaders that were just chosen do not know it at once.
        _until(log, lambda view: not view.failed)
        whole = log.look_at_each(wait=True)
        assert (whole.failed, whole.missing) == ({}, ("never",))
        assert whole.ends == {"bad": (0, 0), "good": (0, 0)}
        second.kill()
        # At first the client asks the dead broker on: it answers itself, with the offset -1001 and no error.
        view = _until(log, _lost)
    assert (view.ends, view.beginnings) == ({"good": (0, 0)}, {"good": (0, 0)})
    assert view.topics == whole.topics
    assert view.missing == ("never",)
    assert view.failed["bad"].outcome is Outcome.RETRY
    assert log.look_at_each().failed.keys() == {"bad"}
    assert log.look_at_each(wait=True).failed.keys() == {"bad"}
    # Who reads them all needs them all.
    with pytest.raises(Unavailable, match="bad-1"):
        log.look()
    with pytest.raises(Unavailable, match="bad-1"):
        _log(first, "bad").look_at_each()


@pytest.mark.services
@pytest.mark.jvm
def test_a_topic_that_is_refused_hides_no_other(guarded: GuardedKafka) -> None:
    source = KafkaSource(guarded.as_eve("ice-cold"), ("open", "secret"))
    view = KafkaLog(source, timeout_seconds=PATIENCE).look_at_each()
    assert view.ends == {"open": (1,)}
    assert isinstance(view.failed["secret"], NotAllowed)
    assert view.missing == ()
