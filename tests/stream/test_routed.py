"""One pipeline, many tables."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.stream.world import World

from frazil.client import Client
from frazil.core.errors import InvalidInput
from frazil.core.stamp import Stamp, stamp_key
from frazil.lake.catalog import Lake
from frazil.maintenance import Caretaker

SCHEMA = {"id": "long required", "kind": "string"}
BY = ("partition", "offset")


def kinds(*names: str | None, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": first + number, "kind": name} for number, name in enumerate(names)]


def test_each_row_finds_its_table(world: World) -> None:
    topic = world.topic(kinds("red", "blue", "red", None, "Red"), partitions=1)
    pipeline = world.pipeline(topic, "by_{kind}", schema=SCHEMA)
    world.run(pipeline)
    world.produce(topic, kinds("green.x", "blue", "bad\x07", first=10), partitions=1)
    world.run(pipeline)
    assert [row["id"] for row in world.rows("by_red")] == [0, 2, 4]
    assert [row["id"] for row in world.rows("by_blue")] == [1, 11]
    assert [row["id"] for row in world.rows("by_green_x")] == [10]
    letters = world.rows("by_dead_letters", BY)
    assert [(row["offset"], row["stage"], row["fault"]) for row in letters] == [
        (3, "route", "route"),
        (7, "route", "route"),
    ]
    home = world.snapshots("by_dead_letters")
    stamp = Stamp.decode(home[-1]["summary"][stamp_key(pipeline.name)])
    assert (stamp.read, stamp.written) == (8, 6)


def test_names_of_uuids_and_bytes(world: World) -> None:
    """Bytes that are no text, such as a key may be, are for no table; they do not stop the others."""
    owner = UUID(int=7)
    topic = world.topic([{"id": 0, "owner": str(owner)}, {"id": 1, "owner": None}], partitions=1)
    world.run(world.pipeline(topic, "owned_{owner}", schema={"id": "long", "owner": "uuid"}))
    assert [row["id"] for row in world.rows(f"owned_{owner}")] == [0]
    schema = {"id": "long", "mark": "binary"}
    topic = world.topic([{"id": 0, "mark": "YQ=="}, {"id": 1, "mark": "/w=="}], partitions=1)
    world.run(world.pipeline(topic, "marked_{mark}", schema=schema))
    assert [row["id"] for row in world.rows("marked_a")] == [0]
    (letter,) = world.rows("marked_dead_letters", BY)
    assert (letter["offset"], letter["stage"]) == (1, "route")


def test_a_table_for_each_topic(world: World) -> None:
    first, second = world.topic(kinds("a", "b")), world.topic(kinds("c"))
    world.run(world.pipeline(first, "of_{topic}", schema=SCHEMA, topics=[first, second]))
    assert [row["kind"] for row in world.rows(f"of_{first}")] == ["a", "b"]
    assert [row["kind"] for row in world.rows(f"of_{second}")] == ["c"]


def test_routing_behind_a_transform(world: World) -> None:
    topic = world.topic(kinds("a", "b", "a"))
    sql = "SELECT id, upper(kind) AS kind FROM source"
    world.run(world.pipeline(topic, "sql_{kind}", schema=SCHEMA, transform=sql))
    assert [row["id"] for row in world.rows("sql_A")] == [0, 2]
    assert [row["id"] for row in world.rows("sql_B")] == [1]


def test_tables_that_may_not_be_made(world: World) -> None:
    topic = world.topic(kinds("new"), partitions=1)
    with pytest.raises(InvalidInput, match="the contract says freeze"):
        world.run(world.pipeline(topic, "frozen_{kind}", schema=SCHEMA, contract={"tables": "freeze"}))
    world.run(world.pipeline(topic, "less_{kind}", schema=SCHEMA, contract={"tables": "discard_row"}))
    assert not world.exists("less_new")
    assert [row["reason"] for row in world.rows("less_dead_letters", BY)] == [
        "there is no table paths.less_new, and the contract says discard_row"
    ]


def test_a_table_that_cannot_take_the_rows_does_not_stop_the_others(world: World) -> None:
    topic = world.topic(kinds("a", "b"), partitions=1)
    pipeline = world.pipeline(topic, "fit_{kind}", schema=SCHEMA)
    world.run(pipeline)
    world.spark_sql("ALTER TABLE {}.fit_a DROP COLUMN kind")
    world.produce(topic, kinds("a", "b", first=10), partitions=1)
    world.run(pipeline)
    assert [row["id"] for row in world.rows("fit_a")] == [0]
    assert [row["id"] for row in world.rows("fit_b")] == [1, 11]
    (letter,) = world.rows("fit_dead_letters", BY)
    assert "the table paths.fit_a cannot take it: the table has no column 'kind'" in letter["reason"]


def test_a_record_cannot_name_a_table_that_is_not_for_rows(world: World) -> None:
    """Neither the pipeline's own tables, nor what is no table, nor nothing: the rest is not kept up."""
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        client.namespaces.create("paths", exist_ok=True)
        client.generic_tables.create("paths", "kept_files", "json")
    names = ("kept_dead_letters", "kept_files", "", "kept_rows")
    topic = world.topic(kinds(*names), partitions=1)
    letters = {"table": "paths.kept_dead_letters"}
    world.run(world.pipeline(topic, "{kind}", schema=SCHEMA, dead_letters=letters))
    assert [row["id"] for row in world.rows("kept_rows")] == [3]
    found = world.rows("kept_dead_letters", BY)
    assert [(row["offset"], row["stage"]) for row in found] == [(0, "route"), (1, "route"), (2, "route")]


def test_a_table_that_frazil_cannot_write_does_not_stop_the_others(world: World) -> None:
    """Another engine gave it a column of a type that frazil has not: while the pipeline runs, and before."""
    topic = world.topic(kinds("a", "b"), partitions=1)
    pipeline = world.pipeline(topic, "odd_{kind}", schema=SCHEMA, format_version=3, freshness="200ms")
    with world.running(pipeline) as run:
        run.until(lambda: world.exists("odd_b") and len(world.rows("odd_b")) == 1)
        add_nanoseconds(world, "odd_a")
        world.produce(topic, kinds("a", "b", first=10), partitions=1)
        run.until(lambda: len(world.rows("odd_b")) == 2 or bool(run.stopped()))
        world.produce(topic, kinds("a", "b", first=20), partitions=1)
        run.until(lambda: len(world.rows("odd_b")) == 3 or bool(run.stopped()))
    assert run.errors == {}
    world.produce(topic, kinds("a", "b", first=30), partitions=1)
    world.run(pipeline)
    assert [row["id"] for row in world.rows("odd_b")] == [1, 11, 21, 31]
    letters = world.rows("odd_dead_letters", BY)
    assert [(row["offset"], row["stage"]) for row in letters] == [(2, "route"), (4, "route"), (6, "route")]
    said = "the column 'measured' of the table paths.odd_a is of the type timestamp_ns"
    assert all(said in row["reason"] for row in letters)


def test_a_record_cannot_name_the_home_of_another_pipeline_of_that_name(world: World) -> None:
    first = world.topic(kinds("a"), partitions=1)
    world.run(world.pipeline(first, "twin_a", schema=SCHEMA, name="twin"))
    second = world.topic(kinds("a", "b"), partitions=1)
    world.run(world.pipeline(second, "twin_{kind}", schema=SCHEMA, name="twin"))
    assert [row["id"] for row in world.rows("twin_b")] == [1]
    (letter,) = world.rows("twin_dead_letters", BY)
    assert "is the home table of another pipeline 'twin'" in letter["reason"]


def add_nanoseconds(world: World, name: str) -> None:
    with Client(world.server.uri, warehouse=world.warehouse) as client:
        lake = Lake(world.spark, client)
        nanoseconds = lake.iceberg.types.Types.TimestampNanoType.withoutZone()
        lake.load(("paths",), name).java.updateSchema().addColumn("measured", nanoseconds).commit()
        lake.close()


def test_the_home_table_is_looked_after(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round commits to it, also one without a bad record."""
    seen: list[str] = []
    monkeypatch.setattr(Caretaker, "committed", lambda _, table: seen.append(str(table)))
    world.run(world.pipeline(world.topic(kinds("a")), "cared_{kind}", schema=SCHEMA))
    assert seen == ["paths.cared_a", "paths.cared_dead_letters"]
