"""Hot tables, beside the pipelines that begin with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.hot.read.world import HotWorld

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def hot(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> Iterator[HotWorld]:
    found = HotWorld(kafka, spark, frazil_sqlite)
    yield found
    found.close()
