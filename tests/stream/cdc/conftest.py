"""What tests of change events send them with."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.stream.world import World


@pytest.fixture
def producer(world: World) -> Producer:
    return Producer({"bootstrap.servers": world.kafka.bootstrap_servers, "log_level": 0})
