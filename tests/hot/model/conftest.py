"""What the tests against the model share."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from tests.hot.model.services import Gate
from tests.hot.model.world import World

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeWorld: TypeAlias = Callable[[ObjectStore | None], World]
_numbers = itertools.count(1)


@pytest.fixture
def make_world(
    kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer, tmp_path: Path
) -> Iterator[MakeWorld]:
    """Tables in a warehouse of their own, on local disk or in a store."""
    made: list[World] = []

    def make(store: ObjectStore | None) -> World:
        name = f"model{os.getpid()}x{next(_numbers)}"
        with Client(frazil_sqlite.uri) as client:
            if store is None:
                client.warehouses.create(name, {"type": "local", "path": str(tmp_path / name)})
            else:
                client.warehouses.create(name, *store.warehouse_storage("model", name))
        made.append(World(kafka, spark, frazil_sqlite, name))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    # Of a line of ten, or of what is younger than ten minutes, nothing would ever expire here.
    monkeypatch.setattr("frazil.maintenance.expiry.AT_LEAST", 2)
    monkeypatch.setattr("frazil.hot.table._KEEP_MARGIN", 1.0)
    return Gate(monkeypatch)
