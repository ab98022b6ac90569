"""Everything that can happen to a table, in a random order: rows are always those of the model."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.lake.test_upserts import Shape, rounds
from tests.lake.test_upserts_rivals import RIVALS
from tests.lake.upserts import KeyedWorld

from frazil.client import Client
from frazil.lake.catalog import Lake
from frazil.lake.leftovers import remove_leftovers

SHAPES = [
    Shape(version=2),
    Shape(version=3),
    Shape(partitioning=("bucket(3, id)",), version=2),
    Shape(partitioning=("place",), version=3),
    Shape(key=("id", "code"), partitioning=("bucket(2, code)",), version=3),
]


class Story:
    """Steps on one table."""

    def __init__(self, world: KeyedWorld, shape: Shape, rng: random.Random) -> None:
        self._world = world
        self._shape = shape
        self._rng = rng
        self.steps: list[Callable[[], None]] = [
            self.round,
            self.round,
            self.round,
            self.spark_deletes,
            self.spark_inserts,
            self.compaction,
            self.rival,
            self.claim,
            self.truncate,
        ]

    def round(self) -> None:
        rounds(self._world, self._shape, self._rng, 1)

    def spark_deletes(self) -> None:
        granularity, rest = self._rng.choice(["file", "partition"]), self._rng.randrange(4)
        self._world.sql(
            f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
            f"'write.delete.granularity' = '{granularity}')"
        )
        self._world.sql(f"DELETE FROM {{t}} WHERE id % 4 = {rest}")
        self._world.model = {key: row for key, row in self._world.model.items() if row["id"] % 4 != rest}

    def spark_inserts(self) -> None:
        number = self._rng.randrange(1000, 2000)
        row = {"id": number, "code": f"code-{number}", "place": "spark", "word": "w"}
        if self._world.key_of(row) not in self._world.model:
            self._world.sql(f"INSERT INTO {{t}} VALUES ({number}, 'code-{number}', 'spark', 'w')")
            self._world.model[self._world.key_of(row)] = row

    def compaction(self) -> None:
        RIVALS[self._rng.choice(["compaction", "compaction of deletes", "manifests"])](self._world)

    def rival(self) -> None:
        if self._world.model:
            row = self._rng.choice(list(self._world.model.values())) | {"word": "rival"}
            kind = self._rng.choice(["compaction", "compaction of deletes", "manifests"])
            self._world.upsert([row], before=lambda: RIVALS[kind](self._world))

    def claim(self) -> None:
        self._world.writer = self._world.claim()
        assert remove_leftovers(self._world.writer).removed == ()

    def truncate(self) -> None:
        if self._rng.random() < 0.3:
            self._world.upsert([self._shape.row(3, self._rng)], truncates=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(10))
def test_a_long_story(seed: int, lake: Lake, client: Client) -> None:
    rng = random.Random(seed)
    shape = SHAPES[seed % len(SHAPES)]
    world = KeyedWorld(
        lake,
        client,
        schema=shape.schema,
        key=shape.key,
        partitioning=shape.partitioning,
        version=shape.version,
    )
    story = Story(world, shape, rng)
    for _ in range(25):
        rng.choice(story.steps)()
        world.check()
