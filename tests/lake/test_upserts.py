"""Rows replaced by key, at random but seeded, against a dict; read back by three engines."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.lake.upserts import Key, KeyedWorld, Row

from frazil.client import Client
from frazil.core.schema import Field, Schema
from frazil.lake.catalog import Lake
from frazil.lake.keyed import Round

PLACES = ["here", "there", None]


@dataclass(frozen=True)
class Shape:
    """A table, and how its keys are made."""

    key: tuple[str, ...] = ("id",)
    partitioning: tuple[str, ...] = ()
    version: int = 3

    @property
    def schema(self) -> Schema:
        return Schema(
            (
                Field("id", "long", required=True),
                Field("code", "string"),
                Field("place", "string"),
                Field("word", "string"),
            )
        )

    def row(self, number: int, rng: random.Random) -> Row:
        return {
            "id": number // 3 if len(self.key) > 1 else number,
            "code": f"code-{number % 3 if len(self.key) > 1 else number}",
            "place": rng.choice(PLACES),
            "word": f"word-{rng.randrange(1000)}",
        }


SHAPES = {
    "plain": Shape(),
    "plain, format 2": Shape(version=2),
    "by bucket of the key": Shape(partitioning=("bucket(4, id)",)),
    "by bucket of the key, format 2": Shape(partitioning=("bucket(4, id)",), version=2),
    "rows move between partitions": Shape(partitioning=("place",)),
    "rows move between partitions, format 2": Shape(partitioning=("place",), version=2),
    "two columns": Shape(key=("id", "code"), partitioning=("truncate(6, code)",)),
    "text, format 2": Shape(key=("code",), version=2),
}


def rounds(world: KeyedWorld, shape: Shape, rng: random.Random, count: int, keys: int = 60) -> None:
    for _ in range(count):
        numbers = rng.sample(range(keys), rng.randrange(1, keys // 2))
        rows = [shape.row(number, rng) for number in numbers]
        cut = rng.randrange(len(rows) + 1)
        gone: Sequence[Key] = [world.key_of(row) for row in rows[cut:]]
        holes = [(row, ["word"]) for row in rows[:cut] if rng.random() < 0.2]
        plain = [row for row in rows[:cut] if not any(row is each for each, _ in holes)]
        world.upsert(plain, gone, holes=holes)


def fill(world: KeyedWorld, shape: Shape, rng: random.Random) -> None:
    """Two files with all keys."""
    world.upsert([shape.row(number, rng) for number in range(30)])
    world.upsert([shape.row(number, rng) for number in range(30, 60)])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_random_rounds(shape: Shape, lake: Lake, client: Client, duck: Any) -> None:
    rng = random.Random(repr(shape))
    world = KeyedWorld(
        lake,
        client,
        schema=shape.schema,
        key=shape.key,
        partitioning=shape.partitioning,
        version=shape.version,
    )
    for _ in range(2):
        rounds(world, shape, rng, 4)
        world.check(duck)


MERGE = """
    MERGE INTO {t} t USING (SELECT id AS at FROM range(0, 60, 4)) s ON t.id = s.at
    WHEN MATCHED AND t.id % 3 = 0 THEN DELETE
    WHEN MATCHED THEN UPDATE SET word = 'merged'
"""


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_spark_changes_rows_in_between(version: int, granularity: str, lake: Lake, client: Client) -> None:
    """Its own deletion vectors and position deletes are there before ours and after."""
    shape, rng = Shape(version=version), random.Random(version)
    world = KeyedWorld(lake, client, schema=shape.schema, version=version)
    modes = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("delete", "update", "merge"))
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({modes}, 'write.delete.granularity' = '{granularity}')")
    fill(world, shape, rng)
    for turn in range(2):
        world.sql(f"DELETE FROM {{t}} WHERE id % 7 = {turn}")
        if (turn, version) == (0, 2):
            _, live = world.live()
            assert len([file for file in live.data if live.target(file).shared]) == 2 * (
                granularity != "file"
            )
        for key in [key for key in world.model if key[0] % 7 == turn]:
            del world.model[key]
        world.sql(MERGE)
        for key in [key for key in world.model if key[0] % 4 == 0]:
            if key[0] % 3 == 0:
                del world.model[key]
            else:
                world.model[key] = world.model[key] | {"word": "merged"}
        rounds(world, shape, rng, 2)
        world.check()


def test_a_table_that_becomes_format_3(lake: Lake, client: Client, duck: Any) -> None:
    """Deletion vectors take over what lies in position deletes, of one data file and of many."""
    shape, rng = Shape(version=2), random.Random(4)
    world = KeyedWorld(lake, client, schema=shape.schema, version=2)
    world.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
        "'write.delete.granularity' = 'partition')"
    )
    fill(world, shape, rng)
    world.sql("DELETE FROM {t} WHERE id % 5 = 0")
    world.model = {key: row for key, row in world.model.items() if key[0] % 5}
    _, live = world.live()
    assert [file for file in live.data if live.target(file).shared] != []
    rounds(world, shape, rng, 1)
    world.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    for _ in range(3):
        rounds(world, shape, rng, 1)
        world.check(duck)


@pytest.mark.parametrize("version", [2, 3])
def test_truncate(version: int, lake: Lake, client: Client) -> None:
    shape, rng = Shape(version=version), random.Random(9)
    world = KeyedWorld(lake, client, schema=shape.schema, version=version)
    rounds(world, shape, rng, 3)
    world.upsert([shape.row(1, rng)], truncates=True)
    world.check()
    _, live = world.live()
    assert [file.records for file in live.data] == [1]
    assert live.target(live.data[0]).own == ()
    world.upsert(truncates=True)
    world.check()


def test_a_file_without_rows_goes_as_a_whole(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": number, "word": "a"} for number in range(10)])
    world.upsert([{"id": number, "word": "b"} for number in range(6)])
    world.upsert([{"id": number, "word": "c"} for number in range(6, 10)])
    world.check()
    _, live = world.live()
    assert sorted(file.records for file in live.data) == [4, 6]
    assert world.lake.spark.sql(f"SELECT * FROM {world.name}.delete_files").collect() == []


def test_an_empty_round_carries_the_stamp(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": 1, "word": "a"}])
    stamp = world.upsert(gone=[(7,)])
    assert stamp.round == 2
    assert world.claim().stamp.positions == stamp.positions
    world.check()


def test_holes(lake: Lake, client: Client) -> None:
    """What was left out is kept, also of rows that were completed before and of those in old files."""
    world = KeyedWorld(lake, client, partitioning=("place",))
    world.upsert([{"id": number, "place": "here", "word": f"w{number}"} for number in range(5)])
    world.upsert(holes=[({"id": 1, "place": "there", "word": "?"}, ["word"])])
    world.upsert(
        [{"id": 2, "place": "x", "word": "new"}],
        holes=[
            ({"id": 1, "place": "?", "word": "longer"}, ["place"]),
            ({"id": 3, "place": "?", "word": "?"}, ["place", "word"]),
            ({"id": 99, "place": "known", "word": "?"}, ["word"]),
        ],
    )
    world.check()
    assert world.model[(1,)] == {"id": 1, "place": "there", "word": "longer"}
    assert world.rounds[-1].unfound == (2,)
    assert world.model[(99,)]["word"] is None


def test_holes_of_rows_that_a_complete_table_does_not_have(lake: Lake, client: Client) -> None:
    """They are gone by now, and must not stand in the way of the row that they became."""
    world = KeyedWorld(lake, client)
    world.upsert([{"id": 3, "place": "now", "word": "long"}])
    world.upsert(
        [{"id": 9, "place": "x", "word": "y"}],
        gone=[(1,)],
        holes=[({"id": 2, "place": "then", "word": "?"}, ["word"])],
        complete=True,
    )
    assert (world.rounds[-1].unfound, world.rounds[-1].late) == ((0,), 1)
    world.check()
    ticket = world.writer.begin()
    patches = world.patches([({"id": 3, "place": "now", "word": "?"}, ["word"])], ticket.schema)
    assert patches is not None
    moved = replace(patches, origins=world.keys_table([(2,)], ticket.schema))
    keys = world.keys_table([(2,), (3,)], ticket.schema)
    world.commit(ticket, Round(keys, (), moved, complete=True), 1)
    world.check()
    assert world.model[(3,)]["word"] == "long"


def test_a_hole_whose_key_another_writer_put_twice(lake: Lake, client: Client) -> None:
    world = KeyedWorld(lake, client)
    world.upsert([{"id": 1, "place": "old", "word": "a"}])
    world.sql("INSERT INTO {t} VALUES (1, 'young', 'b')")
    world.upsert(holes=[({"id": 1, "place": "?", "word": "c"}, ["place"])])
    world.model = {(1,): {"id": 1, "place": "young", "word": "c"}}
    world.check()
