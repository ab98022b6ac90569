"""Pipelines without a schema of their own, whose source has a newer one when they are started again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.stream.rebuild.again import rebuilt
from tests.stream.test_formats import MORE, ORDER, avro
from tests.stream.world import World

from frazil.client import Client
from frazil.devstack.registry import SchemaRegistry
from frazil.lake.catalog import Lake
from frazil.stream.config import PipelineConfig
from frazil.stream.dlq import Choice, replay

AT = 1_767_225_600_000
LESS = ORDER | {"fields": [ORDER["fields"][0], *MORE["fields"][2:]]}
GROWN = {"columns": "evolve", "types": "discard_value"}


def orders(world: World, registry: SchemaRegistry, table: str, contract: Any) -> tuple[str, PipelineConfig]:
    """A topic with one order of the first schema, and a pipeline that has its columns of the registry."""
    topic = world.topic(partitions=1)
    number = registry.register(f"{topic}-value", json.dumps(ORDER))
    world.produce(topic, [avro(number, ORDER, id=1, at=AT, tags=["a"])], partitions=1)
    settings = {"format": "avro", "registry": registry.url, "schema": None, "contract": contract}
    return topic, world.pipeline(topic, table, metadata={"offset": "place"}, **settings)


def more(world: World, registry: SchemaRegistry, topic: str) -> None:
    number = registry.register(f"{topic}-value", json.dumps(MORE))
    world.produce(topic, [avro(number, MORE, id=2, at=AT, tags=[], note="n")], partitions=1)


@pytest.mark.parametrize("word", ["discard_value", "evolve"])
def test_a_newer_schema_on_the_registry_when_it_starts_again(
    world: World, registry: SchemaRegistry, word: str
) -> None:
    table = f"newer_{word}"
    topic, pipeline = orders(world, registry, table, word)
    world.run(pipeline)
    more(world, registry, topic)
    world.run(pipeline)
    found = world.rows(table)
    assert [(row["id"], row["place"]) for row in found] == [(1, 0), (2, 1)]
    assert [row.get("note") for row in found] == [None, "n" if word == "evolve" else None]
    assert ("note" in found[0]) is (word == "evolve")


def test_a_newer_schema_on_the_registry_while_it_runs(world: World, registry: SchemaRegistry) -> None:
    topic, pipeline = orders(world, registry, "running", GROWN)
    with world.running(pipeline) as run:
        run.until(lambda: world.exists("running") and len(world.rows("running")) == 1)
        more(world, registry, topic)
        run.until(lambda: len(world.rows("running")) == 2)
    assert run.errors == {}
    assert [row["note"] for row in world.rows("running")] == [None, "n"]
    world.run(pipeline)


def test_a_rebuild_and_a_replay_with_a_newer_schema_on_the_registry(
    world: World, registry: SchemaRegistry
) -> None:
    topic, pipeline = orders(world, registry, "again", "discard_value")
    world.produce(topic, [b"?"], partitions=1)
    world.run(pipeline)
    more(world, registry, topic)
    assert rebuilt(world, pipeline).after == 1
    found = registry.register(f"{topic}-value", json.dumps(MORE))
    mended = avro(found, MORE, id=3, at=AT, tags=[], note="n")
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        lake = Lake(world.spark, client)
        assert replay(pipeline, world.spark, lake, Choice(), lambda _: mended).rows == 1
        lake.close()
    assert [row["id"] for row in world.rows("again")] == [1, 3]


def test_a_required_field_that_is_gone_is_a_matter_of_records(world: World, registry: SchemaRegistry) -> None:
    """`at` can be no null in the table, so that these records become dead letters, and no others."""
    topic, pipeline = orders(world, registry, "gone", "discard_value")
    world.run(pipeline)
    number = registry.register(f"{topic}-value", json.dumps(LESS))
    world.produce(topic, [avro(number, LESS, id=2, tags=[], note="n")], partitions=1)
    world.run(pipeline)
    assert [row["id"] for row in world.rows("gone")] == [1]
    (letter,) = world.rows("gone_dead_letters", ("offset",))
    assert (letter["offset"], letter["field"]) == (1, "at")


@pytest.mark.parametrize("word", ["discard_value", "evolve"])
def test_a_column_that_the_source_table_got(world: World, word: str) -> None:
    world.spark_sql(f"CREATE TABLE {{}}.from_{word} (id BIGINT NOT NULL, gone INT) USING iceberg")
    world.spark_sql(f"INSERT INTO {{}}.from_{word} VALUES (1, 7)")
    pipeline = world.pipeline(
        "",
        f"to_{word}",
        name=f"table-{word.replace('_', '-')}",
        topics=None,
        source={"table": f"paths.from_{word}"},
        schema=None,
        contract=word,
    )
    world.run(pipeline)
    world.spark_sql(f"ALTER TABLE {{}}.from_{word} ADD COLUMN note STRING")
    world.spark_sql(f"ALTER TABLE {{}}.from_{word} DROP COLUMN gone")
    world.spark_sql(f"INSERT INTO {{}}.from_{word} VALUES (2, 'n')")
    world.run(pipeline)
    note = {"note": None} if word == "evolve" else {}
    assert world.rows(f"to_{word}") == [
        {"id": 1, "gone": 7, **note},
        {"id": 2, "gone": None, **({"note": "n"} if word == "evolve" else {})},
    ]
