"""Readers that must say who they are, and a broker that goes away; both ways to librdkafka."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from tests.stream.kafka.guarded import GuardedKafka
from tests.stream.support import PATIENCE

from frazil.core.errors import FrazilError, NotAllowed, Unauthenticated
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.source import Slice

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


@pytest.mark.parametrize(
    ("password", "topic", "refusal"),
    [
        ("ice-cold", "open", None),
        ("ice-cold", "secret", NotAllowed),
        ("luke-warm", "open", Unauthenticated),
    ],
)
def test_who_may_read(
    guarded: GuardedKafka,
    way: str,
    password: str,
    topic: str,
    refusal: type[FrazilError] | None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    reader = SliceReader(guarded.as_eve(password), idle_seconds=PATIENCE)
    if refusal is None:
        assert [batch.values.to_pylist() for batch in reader.read([Slice(topic, 0, 0, 1)])] == [[b"open"]]
    else:
        with pytest.raises(refusal) as caught:
            list(reader.read([Slice(topic, 0, 0, 1)]))
        assert password not in str(caught.value)
    reader.close()
    assert capfd.readouterr().err == ""


def test_the_broker_goes_away_and_comes_back(
    guarded: GuardedKafka, way: str, capfd: pytest.CaptureFixture[str]
) -> None:
    name = guarded.create_topic(f"restarted-{way}")
    values = [f"{number:0200d}".encode() for number in range(200_000)]
    producer = Producer(
        {
            "bootstrap.servers": guarded.bootstrap_servers,
            "log_level": 0,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 300_000,
        }
    )
    for value in values:
        producer.produce(name, value)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
    settings = {
        "bootstrap.servers": guarded.bootstrap_servers,
        # Little is read ahead, so that most of it is read after the restart.
        "queued.max.messages.kbytes": "1024",
        "queued.min.messages": "1000",
    }
    # A broker that starts beside all others takes long, and says nothing meanwhile.
    reader = SliceReader(settings, batch_records=10_000, idle_seconds=guarded.start_seconds + PATIENCE)
    batches = reader.read([Slice(name, 0, 0, 200_000)])
    found = [next(batches), next(batches)]
    capfd.readouterr()
    guarded.kill()
    back = threading.Timer(1, guarded.start)
    back.start()
    found += batches
    back.join()
    reader.close()
    assert [offset for batch in found for offset in batch.offsets.to_pylist()] == list(range(200_000))
    assert [value for batch in found for value in batch.values.to_pylist()] == values
    assert capfd.readouterr().err == ""
