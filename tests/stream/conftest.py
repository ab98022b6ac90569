"""What the tests of pipelines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.stream.world import World, empty

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def namespace(frazil_sqlite: FrazilServer) -> None:
    """Without tables of other modules: names need to be different in one only."""
    empty(frazil_sqlite)


@pytest.fixture
def world(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer, namespace: None) -> World:
    return World(kafka, spark, frazil_sqlite)
