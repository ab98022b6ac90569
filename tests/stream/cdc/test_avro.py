"""Debezium's own Avro: a connector and its registry, not our imitation of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.stream.cdc.compare import Readers
from tests.stream.cdc.sources import PostgresSource
from tests.stream.cdc.test_lanes import pipeline
from tests.stream.cdc.workload import WEIGHTS, Workload
from tests.stream.world import World

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres
from frazil.devstack.registry import SchemaRegistry


@pytest.fixture
def source(
    postgres_source: Postgres, kafka: Kafka, connect: KafkaConnect, registry: SchemaRegistry
) -> Iterator[PostgresSource]:
    address = f"http://127.0.0.1:{registry.port}"
    with PostgresSource(postgres_source, kafka, connect, format="avro", registry=address) as made:
        yield made


def test_a_copy_by_way_of_avro(source: PostgresSource, registry: SchemaRegistry, world: World) -> None:
    """Columns of every kind, and tables that change on the way."""
    workload = Workload(source, seed=9, weights={"new_table": 0, "widen_column": 3, "add_column": 4})
    workload.create()
    source.start()
    line = pipeline(
        world,
        "",
        "{table}",
        name="avro",
        topics=[source.topic(table) for table in workload.tables],
        format={"debezium": {"encoding": "avro"}},
        registry=registry.url,
        format_version=2,
    )
    world.run(line)
    workload.run(80)
    source.settle()
    world.run(line)
    assert workload.kinds >= WEIGHTS.keys() - {"new_table"}
    with Readers(world.server, world.spark) as readers:
        readers.compare(source, workload.tables, namespace="paths", engines=("pyiceberg",))
