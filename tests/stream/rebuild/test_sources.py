"""Every source that can be read again, and the bad records in it."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.stream.rebuild.again import counted, rebuilt, stray
from tests.stream.world import World, record, records

import frazil
from frazil.core.errors import BadRecord, SourceChanged, Unsupported
from frazil.core.rebuild import name_of_rebuild
from frazil.lake.catalog import Lake
from frazil.stream.config import PipelineConfig
from frazil.stream.config.model import Limits
from frazil.stream.dlq import Choice, replay, waiting
from frazil.stream.rebuild.possible import require_possible

SMALL = Limits(records_per_round=7, records_per_task=3)


def letters(world: World, lake: Lake, pipeline: PipelineConfig) -> list[int]:
    return [row["offset"] for row in waiting(world.spark, lake, pipeline, Choice()).collect()]


def test_a_table(world: World) -> None:
    topic = world.topic(records(20))
    first = replace(world.pipeline(topic, "upstream"), limits=SMALL)
    world.run(first)
    made = frazil.Pipeline("downstream", table="paths.downstream", source={"table": "paths.upstream"})
    second = replace(made, limits=SMALL)
    world.run(second)
    # The stream has taken the snapshots one by one; a rebuild takes the table as a whole.
    world.produce(topic, records(30)[20:])
    world.run(first)
    world.run(second)
    before = counted(world, "downstream")
    assert rebuilt(world, second).after == 30
    assert counted(world, "downstream") == before == counted(world, "upstream")
    # What is upstream and was not read yet is not in it.
    world.produce(topic, records(33)[30:])
    world.run(first)
    assert rebuilt(world, second).after == 30
    world.run(second)
    assert counted(world, "downstream") == counted(world, "upstream")


def test_files(world: World, tmp_path: Path) -> None:
    for number in range(4):
        rows = "".join(json.dumps(record(10 * number + each)) + "\n" for each in range(10))
        (tmp_path / f"{number}.json").write_text(rows)
    old = time.time() - 60
    for file in tmp_path.iterdir():
        os.utime(file, (old, old))
    pipeline = frazil.Pipeline(
        "from-files",
        table="paths.from_files",
        source={"files": str(tmp_path)},
        schema={"id": "long", "word": "string", "at": "timestamptz", "ref": "uuid"},
    )
    pipeline = replace(pipeline, limits=Limits(records_per_round=2))
    world.run(pipeline)
    before = counted(world, "from_files")
    # One that came later is not in the ledger, so it is not the rebuild's.
    (tmp_path / "later.json").write_text(json.dumps(record(40)) + "\n")
    assert rebuilt(world, pipeline).after == 40
    assert counted(world, "from_files") == before
    (tmp_path / "2.json").write_text("{}\n")
    with pytest.raises(SourceChanged, match=r"removed or overwritten since: .*2\.json"):
        rebuilt(world, pipeline)
    assert counted(world, "from_files") == before


def test_sensors(world: World) -> None:
    settings = {"sensors": {"sensors": 3, "rate": 1000, "records": 50}}
    pipeline = replace(frazil.Pipeline("measured", table="paths.measured", source=settings), limits=SMALL)
    world.run(pipeline)
    before = counted(world, "measured")
    assert before.total() == 50
    assert rebuilt(world, pipeline).after == 50
    assert counted(world, "measured") == before


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_dead_letters_are_not_written_twice(world: World, lake: Lake, transform: str | None) -> None:
    table = f"letters_{'spark' if transform else 'fused'}"
    topic = world.topic([record(0), {"id": "x"}, b"[1]", record(3)], partitions=1)
    pipeline = world.pipeline(topic, table, transform=transform)
    world.run(pipeline)
    assert letters(world, lake, pipeline) == [1, 2]
    done = rebuilt(world, pipeline)
    assert (done.read, done.bad, done.after, done.letters, done.put_back) == (4, 2, 2, 0, 0)
    assert letters(world, lake, pipeline) == [1, 2]
    assert stray(world, f"{table}_dead_letters") == set()


def test_letters_that_are_rows_now(world: World, lake: Lake) -> None:
    """A corrected schema: they are rows of the rebuilt table, and `dlq replay` does not bring them again."""
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}, {"id": 3, "n": "x"}], partitions=1)
    world.run(world.pipeline(topic, "widened_again", schema={"id": "long", "n": "int"}))
    world.spark_sql("ALTER TABLE {}.widened_again ALTER COLUMN n TYPE bigint")
    corrected = world.pipeline(topic, "widened_again", schema={"id": "long", "n": "long"})
    done = rebuilt(world, corrected)
    assert (done.after, done.bad, done.letters, done.put_back) == (2, 1, 0, 1)
    assert letters(world, lake, corrected) == [2]
    assert replay(corrected, world.spark, lake, Choice()).letters == 0
    assert [row["n"] for row in world.rows("widened_again")] == [7, 5_000_000_000]
    # The other way round, what was a row becomes a letter, once.
    strict = world.pipeline(topic, "widened_again", schema={"id": "long", "n": "int"})
    for _ in range(2):
        rebuilt(world, strict)
    assert letters(world, lake, strict) == [1, 2]
    assert [row["n"] for row in world.rows("widened_again")] == [7]


def test_a_bad_record_of_a_strict_pipeline(world: World) -> None:
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": 5_000_000_000}], partitions=1)
    world.run(world.pipeline(topic, "strict_again", schema={"id": "long", "n": "long"}))
    strict = world.pipeline(topic, "strict_again", schema={"id": "long", "n": "int"}, dead_letters="stop")
    with pytest.raises(BadRecord, match=r"offset 1: .*the table is as it was"):
        rebuilt(world, strict)
    assert [row["n"] for row in world.rows("strict_again")] == [7, 5_000_000_000]
    assert stray(world, "strict_again") == set()


def test_a_table_that_grows(world: World) -> None:
    topic = world.topic([{"id": 1}, {"id": 2, "more": "x"}], partitions=1)
    settings = {"schema": {"id": "long"}, "contract": {"columns": "discard_value"}}
    world.run(world.pipeline(topic, "grown", **settings))
    grows = world.pipeline(topic, "grown", schema={"id": "long"}, contract={"columns": "evolve"})
    assert rebuilt(world, grows).after == 2
    assert world.rows("grown") == [{"id": 1, "more": None}, {"id": 2, "more": "x"}]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"stateful": "/tmp/none", "transform": "SELECT DISTINCT id FROM source"},
            "another name with another table",
        ),
        ({"table": "paths.{word}"}, "many tables"),
        ({"source": {"table": "paths.x", "changes": True}, "topics": None}, "told once"),
        ({"changes": {"mode": "upsert"}, "format": "debezium", "schema": None}, "frazil reset"),
    ],
)
def test_what_cannot_be_rebuilt(settings: dict[str, Any], reason: str) -> None:
    given: dict[str, Any] = {"schema": {"id": "long", "word": "string"}, "topics": "t", "table": "paths.x"}
    wanted = {key: value for key, value in (given | settings).items() if value is not None}
    with pytest.raises(Unsupported, match=reason):
        require_possible(frazil.Pipeline("never", **wanted))


def test_names() -> None:
    assert name_of_rebuild("orders") == "orders_rebuild"
    long = name_of_rebuild("x" * 63)
    assert len(long) == 63
    assert long != name_of_rebuild("x" * 62 + "y")
