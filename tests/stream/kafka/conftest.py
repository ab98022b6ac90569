from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, _acl, _resource
from tests.stream.kafka.guarded import GuardedKafka
from tests.stream.kafka.reads import Reader, Topic, numbers
from tests.stream.support import PATIENCE, wait_until

from frazil.devstack.kafka import Kafka
from frazil.stream.kafka import fetch
from frazil.stream.kafka.fetch import SliceReader
from frazil.stream.kafka.native import native_usable


@pytest.fixture(params=["native", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How librdkafka is reached. Where the native way can be built it has to be there."""
    if request.param == "native":
        if shutil.which("cc") is None or not sys.platform.startswith("linux"):
            pytest.skip("no C compiler, or not Linux, so no native reader")
        assert native_usable()
    monkeypatch.setattr(fetch, "native_usable", lambda: request.param == "native")
    return str(request.param)


@pytest.fixture
def topic(kafka: Kafka) -> Topic:
    def make(partitions: int = 1, **config: str) -> str:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        return kafka.create_topic(f"fetch-{next(numbers)}", partitions=partitions, config=settings)

    return make


@pytest.fixture
def reader(kafka: Kafka, way: str) -> Iterator[Reader]:
    made: list[SliceReader] = []

    def make(settings: dict[str, str] | None = None, **options: Any) -> SliceReader:
        all_settings = {"bootstrap.servers": kafka.bootstrap_servers, **(settings or {})}
        made.append(SliceReader(all_settings, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where batches are counted: after a second of silence, what is there would be handed out unfilled."""
    monkeypatch.setattr(fetch, "_POLL_SECONDS", PATIENCE)


@pytest.fixture(scope="session")
def guarded() -> Iterator[GuardedKafka]:
    """Eve may read the topic `open`, not `secret`, and has no right on any group."""
    with GuardedKafka() as broker:
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "enable.idempotence": True}
        )
        for name in ("open", "secret"):
            broker.create_topic(name)
            producer.produce(name, name.encode())
        assert producer.flush(PATIENCE) == 0
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
        made.result(PATIENCE)
        _await_right(broker)
        yield broker


def _await_right(broker: GuardedKafka) -> None:
    """The controller knows of it; the broker hears of it a moment later."""
    eve = AdminClient({**broker.as_eve("ice-cold"), "log_level": "0"})
    wait_until(lambda: eve.list_topics("open", timeout=PATIENCE).topics["open"].error is None, "the right")
