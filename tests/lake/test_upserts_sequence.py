"""A column orders changes: what is older than the current row changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from tests.lake.support import local
from tests.lake.test_upserts_rivals import RIVALS
from tests.lake.upserts import Key, KeyedWorld, Row

from frazil.client import Client
from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Stamp
from frazil.lake.catalog import Lake
from frazil.lake.keyed import Round
from frazil.lake.sequence import SequenceBy

SCHEMA = Schema(
    (
        Field("id", "long", required=True),
        Field("n", "long"),
        Field("place", "string"),
        Field("word", "string"),
    )
)


@dataclass
class Changes:
    """A round. No key twice, but among the rows with holes."""

    rows: list[Row] = field(default_factory=list)
    #: Keys, and what their deletes have in the column.
    gone: list[tuple[int, int | None]] = field(default_factory=list)
    holes: list[tuple[Row, list[str]]] = field(default_factory=list)


class OrderedWorld(KeyedWorld):
    """Whose changes are ordered by n."""

    def change(self, changes: Changes, *, truncates: bool = False, before: Any = None) -> Stamp:
        ticket = self.writer.begin()
        rows, gone, holes = changes.rows, changes.gone, changes.holes
        keys: list[Key] = [self.key_of(row) for row in rows] + [(key,) for key, _ in gone]
        values = [row["n"] for row in rows] + [n for _, n in gone]
        lacking = [None if "n" in names else row["n"] for row, names in holes]
        by = SequenceBy("n", pa.array(values, pa.int64()), pa.array(lacking, pa.int64()))
        table = self.keys_table(keys, ticket.schema)
        files, patches = self.write(ticket, rows), self.patches(holes, ticket.schema)
        stamp = self.commit(ticket, Round(table, files, patches, truncates, by), len(rows), before)
        if truncates:
            self.model.clear()
        for row in rows:
            self._put(row, ())
        for row, names in holes:
            self._put(row, names)
        for key, n in gone:
            if not self._late(key, n):
                self.model.pop((key,), None)
        return stamp

    def check_files(self) -> None:
        """What was written and is not in the table is gone."""
        table = self.writer.table
        written = {local(path) for path in table.storage().list(f"{self.writer.folder(table)}/")}
        known = self.lake.spark.sql(f"SELECT file_path FROM {self.name}.all_files").collect()
        assert written <= {local(each.file_path) for each in known}

    def _late(self, key: int, n: int | None) -> bool:
        current = self.model.get((key,), {}).get("n")
        return n is not None and current is not None and n < current

    def _put(self, row: Row, lacking: Sequence[str]) -> None:
        if not self._late(row["id"], None if "n" in lacking else row["n"]):
            current = self.model.get(self.key_of(row), {})
            self.model[self.key_of(row)] = row | {name: current.get(name) for name in lacking}


def made(lake: Lake, client: Client, version: int, **settings: Any) -> OrderedWorld:
    return OrderedWorld(lake, client, schema=SCHEMA, version=version, **settings)


def row(number: int, n: int | None, word: str = "w", place: str | None = None) -> Row:
    return {"id": number, "n": n, "place": place, "word": word}


def filled(world: OrderedWorld) -> None:
    """Numbers 0 to 19 with n = 10, and a few without."""
    world.change(Changes([row(number, 10, "first") for number in range(20)]))
    world.change(Changes([row(number, None, "without") for number in range(20, 24)]))


MIXED = Changes(
    [
        row(0, 9, "late"),
        row(1, 10, "tie"),
        row(2, 11, "new"),
        row(3, None, "any"),
        row(20, 1, "over null"),
        row(99, 1, "unknown"),
    ],
    [(4, 9), (5, 10), (6, 11), (7, None), (21, 1), (98, 3)],
    [
        (row(8, 9, "late"), ["place", "word"]),
        (row(9, 10, "tie", "here"), ["word"]),
        (row(10, None, "keeps n", "there"), ["n", "word"]),
        (row(97, 1, "unknown"), ["word"]),
        # One key: what counts is done to what is there.
        (row(11, 8, "late"), ["place"]),
        (row(11, 12, "new"), ["word"]),
        (row(11, 14, "newer", "newest"), ["word"]),
        (row(12, 8, "late", "late"), []),
        (row(12, 9, "late"), ["word"]),
    ],
)


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_late_changes_nothing(version: int, lake: Lake, client: Client, duck: Any) -> None:
    world = made(lake, client, version)
    filled(world)
    before = world.writer.stamp.written
    stamp = world.change(MIXED)
    assert [world.model[number,]["word"] for number in (0, 1, 2, 3)] == ["first", "tie", "new", "any"]
    assert [number for number in (4, 5, 6, 7, 21) if (number,) in world.model] == [4]
    assert world.model[8,] == row(8, 10, "first")
    assert world.model[10,] == row(10, 10, "first", "there")
    assert world.model[11,] == row(11, 14, "first", "newest")
    assert world.model[12,] == row(12, 10, "first")
    world.check(duck)
    (done,) = world.rounds[-1:]
    # One among complete rows, and two keys among those with holes.
    assert (done.late, stamp.written - before) == (3, len(MIXED.rows) - 3)
    assert done.unfound == (3,)
    # The same again: ties, and what is late still is.
    world.change(MIXED)
    world.check(duck)
    world.change(Changes([row(0, 12), row(3, 0)], [(11, 13)]))
    world.check(duck)


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_of_late_rows_alone_is_left_out(version: int, lake: Lake, client: Client, duck: Any) -> None:
    world = made(lake, client, version, partitioning=("place",))
    world.change(Changes([row(number, 10, "first", "p") for number in range(6)]))
    head = world.writer.table.head
    late = [row(0, 1, "late", "q"), row(1, 1, "late", "q")]
    world.change(Changes([*late, row(2, 11, "new", "p"), row(3, 9, "late", "p")]))
    world.check(duck)
    _, live = world.live()
    assert {each.partition[1000] for each in live.data} == {"p"}
    world.check_files()
    # Nothing but late ones: a commit that changes no row.
    world.change(Changes(late, [(4, 3)], [(row(5, 2), ["word"])]))
    world.check(duck)
    assert world.rounds[-1].matched == 0
    assert world.writer.table.head != head


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("rival", ["compaction", "update"])
def test_main_moves_during_the_commit(version: int, rival: str, lake: Lake, client: Client) -> None:
    """The second look finds other rows to be newer than the first one."""
    world = made(lake, client, version)
    filled(world)

    def update() -> None:
        world.sql("UPDATE {t} SET n = 10 + id % 2 * 5 WHERE id < 20")
        for number in range(1, 20, 2):
            world.model[number,] |= {"n": 15}

    rivals: dict[str, Callable[[], None]] = {
        "compaction": lambda: RIVALS["compaction"](world),
        "update": update,
    }
    changes = [row(number, 8 + number % 5, "changed") for number in range(12)]
    holed = [(row(number, 12, "changed"), ["place"]) for number in range(12, 16)]
    world.change(Changes(changes, [(16, 12), (17, 12)], holed), before=rivals[rival])
    world.check()
    world.check_files()


@pytest.mark.parametrize("version", [2, 3])
def test_a_key_that_is_there_twice(version: int, lake: Lake, client: Client) -> None:
    """Another writer did that: the highest counts."""
    world = made(lake, client, version)
    filled(world)
    world.sql("INSERT INTO {t} VALUES (1, 20, null, 'twin'), (2, 20, null, 'twin'), (3, 20, null, 'twin')")
    for number in (1, 2, 3):
        world.model[number,] = row(number, 20, "twin")
    world.change(Changes([row(1, 15, "late")], [(3, 15)], [(row(2, 15, "late"), ["place"])]))
    world.check()
    world.sql("INSERT INTO {t} VALUES (2, 5, 'old', 'old')")
    world.change(Changes(holes=[(row(2, 25, "new"), ["place"])]))
    world.check()
    assert world.model[2,]["place"] is None


def test_all_rows_go_first(lake: Lake, client: Client) -> None:
    world = made(lake, client, 3)
    filled(world)
    world.change(Changes([row(1, 1, "counts")], holes=[(row(2, 1, "counts"), ["place"])]), truncates=True)
    assert len(world.model) == 2
    world.check()


@pytest.mark.parametrize("kind", ["string", "double", "boolean", "decimal(9, 2)"])
def test_a_type_that_orders_nothing(kind: str, lake: Lake, client: Client) -> None:
    schema = Schema((Field("id", "long", required=True), Field("n", kind), Field("word", "string")))
    world = OrderedWorld(lake, client, schema=schema)
    with pytest.raises(InvalidConfig, match="legal: int, long, date"):
        world.change(Changes(gone=[(1, 1)]))
    missing = OrderedWorld(lake, client)
    with pytest.raises(InvalidConfig, match="no such column to order changes by; it has id, place, word"):
        missing.change(Changes(gone=[(1, 1)]))


SHAPES: dict[str, dict[str, Any]] = {
    "format 2": {"version": 2},
    "format 3": {"version": 3},
    "by bucket, format 2": {"version": 2, "partitioning": ("bucket(3, id)",)},
    "rows move between partitions, format 3": {"version": 3, "partitioning": ("place",)},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_random_rounds(shape: dict[str, Any], lake: Lake, client: Client, duck: Any) -> None:
    rng = random.Random(repr(shape))
    world = made(lake, client, **shape)
    for turn in range(8):
        changes = Changes()
        for number in rng.sample(range(40), rng.randrange(5, 30)):
            n = rng.choice([None, *range(turn - 3, turn + 4)])
            made_row = row(number, n, f"w{turn}", rng.choice(["here", "there", None]))
            kind = rng.choice(["row", "row", "gone", "holes", "chain"])
            if kind == "row":
                changes.rows.append(made_row)
            elif kind == "gone":
                changes.gone.append((number, n))
            else:
                changes.holes.append((made_row, rng.choice([["word"], ["n", "word"], ["place"], []])))
                if kind == "chain":
                    later = row(number, turn + rng.randrange(4), f"v{turn}")
                    changes.holes.append((later, ["place"]))
        world.change(changes)
        if turn % 4 == 3:
            world.check(duck)
        if turn == 5:
            RIVALS["compaction"](world)
