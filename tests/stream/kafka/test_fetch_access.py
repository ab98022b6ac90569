"""Readers that must say who they are, and a broker that goes away; both ways to librdkafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import _acl, _resource

from frazil.core.errors import FrazilError, NotAllowed, Unauthenticated
from frazil.devstack.kafka import Kafka
from frazil.devstack.ports import free_port
from frazil.stream.kafka import fetch
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.kafka.native import native_usable
from frazil.stream.source import Slice

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


class _Guarded(Kafka):
    """A second door where users have a password; eve may read one topic, and has no right on any group."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded_port = free_port()

    def _properties(self) -> dict[str, str]:
        found = super()._properties()
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return {
            **found,
            "listeners": f"{found['listeners']},SASL_PLAINTEXT://127.0.0.1:{self.guarded_port}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_eve="ice-cold";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            # A broker that was killed may come back when its last session is over.
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "2000",
        }


@pytest.fixture(scope="module")
def guarded() -> Iterator[_Guarded]:
    with _Guarded() as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True}
        )
        for name in ("open", "secret"):
            broker.create_topic(name)
            producer.produce(name, name.encode())
        assert producer.flush(30) == 0
        may_read = _acl.AclBinding(
            _resource.ResourceType.TOPIC,
            "open",
            _resource.ResourcePatternType.LITERAL,
            "User:eve",
            "*",
            _acl.AclOperation.READ,
            _acl.AclPermissionType.ALLOW,
        )
        (made,) = broker.admin.create_acls([may_read]).values()
        made.result(30)
        yield broker


@pytest.fixture(params=["native", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "native" and not native_usable():
        pytest.skip("frazil.stream._fetch was not built here")
    monkeypatch.setattr(fetch, "native_usable", lambda: request.param == "native")
    return str(request.param)


@pytest.mark.parametrize(
    ("password", "topic", "refusal"),
    [
        ("ice-cold", "open", None),
        ("ice-cold", "secret", NotAllowed),
        ("luke-warm", "open", Unauthenticated),
    ],
)
def test_who_may_read(
    guarded: _Guarded,
    way: str,
    password: str,
    topic: str,
    refusal: type[FrazilError] | None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    settings = {
        "bootstrap.servers": f"127.0.0.1:{guarded.guarded_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "eve",
        "sasl.password": password,
    }
    reader = SliceReader(settings, idle_seconds=20)
    if refusal is None:
        assert [batch.values.to_pylist() for batch in reader.read([Slice(topic, 0, 0, 1)])] == [[b"open"]]
    else:
        with pytest.raises(refusal) as caught:
            list(reader.read([Slice(topic, 0, 0, 1)]))
        assert password not in str(caught.value)
    reader.close()
    assert capfd.readouterr().err == ""


def test_the_broker_goes_away_and_comes_back(
    guarded: _Guarded, way: str, capfd: pytest.CaptureFixture[str]
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
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": guarded.bootstrap_servers,
        # Little is read ahead, so that most of it is read after the restart.
        "queued.max.messages.kbytes": "1024",
        "queued.min.messages": "1000",
    }
    reader = SliceReader(settings, batch_records=10_000)
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
