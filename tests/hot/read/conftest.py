"""What the tests of reading share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.hot.read.world import HotWorld

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def hot(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> Iterator[HotWorld]:
    world = HotWorld(kafka, spark, frazil_sqlite)
    yield world
    world.close()
