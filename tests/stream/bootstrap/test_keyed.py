"""Changes by key that begin with the rows of a table: a hot one, or one that another pipeline keeps."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hot.read.world import HotRows, HotWorld, plain
from tests.stream.bootstrap.test_begin import tags
from tests.stream.world import World

import frazil
from frazil.stream.config import PipelineConfig

pytestmark = pytest.mark.slow
_COLUMNS = {"id": "long required", "word": "string", "amount": "double"}


def follower(hot: HotRows, name: str, **more: Any) -> PipelineConfig:
    """A copy of a hot table, made from its log."""
    return frazil.Pipeline(
        name,
        topics=hot.topic,
        format={"debezium": {"envelope": "flat"}},
        table=f"paths.{name}",
        changes={"key": ["id"]},
        freshness="1s",
        **more,
    )


def rows(world: World, table: str) -> list[dict[str, Any]]:
    return plain(world.rows(table))


def test_a_keyed_hot_table(world: World, hot: HotWorld) -> None:
    """Rows as they are in Iceberg, without those that went; then upserts and deletes of the log by key."""
    table = hot.table(_COLUMNS)
    table.put(*({"id": n, "word": f"w{n}", "amount": n / 2} for n in range(20))).tier()
    table.put({"id": 3, "word": "new", "amount": 1.0}).delete(4, 5).tier()
    table.put({"id": 6, "word": "log", "amount": 2.0}, {"id": 50, "word": "log", "amount": None}).delete(7)
    table.flush()
    name = f"keyed-{table.name.rpartition('_')[2]}"
    copy = follower(table, name, history=table.name, limits={"records_per_round": 6, "records_per_task": 3})
    world.run(copy)
    assert rows(world, name) == table.expected()
    table.put({"id": 0, "word": "later", "amount": 0.5}).delete(50).flush()
    world.run(copy)
    assert rows(world, name) == table.expected()
    metadata = hot.client.tables.load(*frazil_name(table.name)).metadata
    assert not [ref for ref in metadata["refs"] if ref.startswith("frazil-history.")]


def test_a_keyed_copy(world: World, hot: HotWorld) -> None:
    """The history of a copy is the copy: the second one asks nobody but the first one's stamp."""
    table = hot.table(_COLUMNS)
    table.put(*({"id": n, "word": f"w{n}", "amount": 1.0} for n in range(8))).flush()
    first = f"first-{table.name.rpartition('_')[2]}"
    world.run(follower(table, first))
    table.put({"id": 1, "word": "one", "amount": 1.0}).delete(2).flush()
    second = f"second-{table.name.rpartition('_')[2]}"
    world.run(follower(table, second, history=f"paths.{first}"))
    assert rows(world, second) == table.expected()
    assert not tags(world, first)


def frazil_name(text: str) -> tuple[tuple[str, ...], str]:
    *namespace, name = text.split(".")
    return tuple(namespace), name
