"""A rebuild gives the table that the stream would have made, in one step, and the stream goes on."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from tests.stream.rebuild.again import counted, metadata, rebuilt, stamp
from tests.stream.world import World, records

from frazil.core.rebuild import REBUILD, name_of_rebuild
from frazil.hot.correct.listing import listed
from frazil.stream.config.model import Limits, PipelineConfig

WRONG = "SELECT id, upper(word) AS word, at, ref FROM source WHERE id <> 3"
RIGHT = "SELECT id, concat(word, '!') AS word, at, ref FROM source"


def limited(pipeline: PipelineConfig, count: int = 40) -> PipelineConfig:
    """In several rounds."""
    return replace(pipeline, limits=Limits(records_per_round=count, records_per_task=10))


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_it_is_the_table_that_the_stream_made(world: World, transform: str | None) -> None:
    table = f"again_{'spark' if transform else 'fused'}"
    topic = world.topic(records(150))
    pipeline = limited(world.pipeline(topic, table, transform=transform, partitioning=["bucket(2, id)"]))
    world.run(pipeline)
    before, at = counted(world, table), stamp(world, table, pipeline)
    done = rebuilt(world, pipeline)
    assert (done.read, done.bad, done.before, done.after) == (150, 0, 150, 150)
    assert counted(world, table) == before
    assert stamp(world, table, pipeline) == at
    newest = metadata(world, table)["snapshots"][-1]
    assert newest["snapshot-id"] == done.snapshot_id
    assert json.loads(newest["summary"][REBUILD])["rows"] == 150
    (shown,) = listed(metadata(world, table), table)
    assert (shown.snapshot, shown.scope) == (
        done.snapshot_id,
        f"all rows: a rebuild of pipeline {pipeline.name}",
    )
    assert shown.document()["rebuild"] == pipeline.name
    assert newest["summary"]["total-data-files"] == newest["summary"]["added-data-files"]
    # Nothing of it is kept, but a word of what it was.
    assert not any(name_of_rebuild(pipeline.name) in name for name in metadata(world, table)["refs"])
    world.produce(topic, records(160)[150:])
    world.run(pipeline)
    assert [row["id"] for row in world.rows(table)] == list(range(160))


def test_a_corrected_transform(world: World) -> None:
    topic = world.topic(records(100))
    world.run(limited(world.pipeline(topic, "corrected", transform=WRONG)))
    assert len(world.rows("corrected")) == 99
    right = limited(world.pipeline(topic, "corrected", transform=RIGHT))
    shown = rebuilt(world, right, dry_run=True)
    assert shown.difference is not None
    assert (shown.difference.added, shown.difference.removed) == (100, 99)
    assert shown.snapshot_id is None
    assert {row["word"] for row in world.rows("corrected")} == {f"W{number}" for number in range(7)}
    done = rebuilt(world, right)
    assert (done.before, done.after) == (99, 100)
    assert "another configuration" in done.notes[0]
    assert Counter(row["word"] for row in world.rows("corrected")) == Counter(
        f"w{number % 7}!" for number in range(100)
    )
    world.produce(topic, records(110)[100:])
    world.run(right)
    assert [row["id"] for row in world.rows("corrected")] == list(range(110))
    again = rebuilt(world, right, dry_run=True)
    assert again.difference is not None
    assert (again.difference.added, again.difference.removed, again.after) == (0, 0, 110)
