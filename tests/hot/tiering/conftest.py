"""What the tests of tiering share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.hot.tiering.world import World

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def warehouse(frazil_sqlite: FrazilServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """One of their own: a service tiers every hot table of its warehouse."""
    place = {"type": "local", "path": str(tmp_path_factory.mktemp("tiering"))}
    with Client(frazil_sqlite.uri) as client:
        return client.warehouses.create("tiering", place).name


@pytest.fixture
def world(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer, warehouse: str) -> Iterator[World]:
    """Its tables are gone behind it."""
    made = World(kafka, spark, frazil_sqlite, warehouse)
    yield made
    made.close()
