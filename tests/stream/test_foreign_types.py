"""Pipelines to and from a table that has a column of a type that frazil has not."""

from __future__ import annotations

import pytest
from tests.stream.world import World, records

from frazil.client import Client
from frazil.core.errors import Unsupported
from frazil.core.schema import Field, Schema

SAID = r"the column 'measured' of the table paths\.{} is of the type timestamp_ns, which frazil does not read"


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_a_pipeline_to_it_stops_and_says_why(world: World, transform: str | None) -> None:
    name = f"nanos_{'spark' if transform else 'fused'}"
    make(world, name)
    topic = world.topic(records(2))
    pipeline = world.pipeline(topic, name, schema={"id": "long"}, transform=transform)
    with pytest.raises(Unsupported, match=SAID.format(name)):
        world.run(pipeline)
    assert world.rows(name) == []


@pytest.mark.parametrize("changes", [False, True], ids=["appends", "changes"])
def test_a_pipeline_from_it_stops_and_says_why(world: World, changes: bool) -> None:
    name = f"from_nanos_{'changes' if changes else 'appends'}"
    make(world, name)
    source = {"table": f"paths.{name}"} | ({"changes": True} if changes else {})
    pipeline = world.pipeline("", f"{name}_copy", topics=None, source=source, schema=None, name=name)
    with pytest.raises(Unsupported, match=SAID.format(name)):
        world.run(pipeline)


def make(world: World, name: str) -> None:
    columns = Schema((Field("id", "long"), Field("measured", "timestamp_ns")))
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        client.namespaces.create(("paths",), exist_ok=True)
        client.tables.create(("paths",), name, columns, format_version=3)
