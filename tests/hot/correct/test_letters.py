"""Which letters are those of a record: a topic that was made again has others at the same offsets."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.hot.correct.test_streams import by_offsets, known, letters
from tests.hot.read.world import HotWorld
from tests.stream.support import delete_topic
from tests.stream.world import World

import frazil
from frazil.client import Client
from frazil.core.errors import Conflict
from frazil.hot.correct.letters import Differing, Waiting
from frazil.lake.catalog import Lake
from frazil.stream.decode.decoded import Fault, Undecodable
from frazil.stream.decoding import Rows
from frazil.stream.reset import parse_offsets, reset
from frazil.stream.source import RawBatch


def waiting(*letters: tuple[int, int, bytes | None]) -> Waiting:
    """By offset, time and value."""
    sums = [-1 if value is None else zlib.crc32(value) for _, _, value in letters]
    columns = ([one[0] for one in letters], [one[1] for one in letters], sums)
    return Waiting(*(np.array(column, np.int64) for column in columns))


def rows(first: int, values: Sequence[bytes | None], *bad: int) -> Rows:
    """Records whose times are their offsets."""
    offsets = pa.array(range(first, first + len(values)), pa.int64())
    raw = RawBatch("t", 0, pa.array(values, pa.binary()), offsets, offsets)
    wrong = tuple(Undecodable(index, "wrong", None, Fault.TYPE) for index in bad)
    return Rows(raw, pa.RecordBatch.from_pydict({}), wrong)


def test_letters_are_known_by_time_and_value() -> None:
    mine = waiting((3, 3, b"a"), (5, 5, b"e"), (6, 0, b"f"), (7, 7, b"other"), (8, 8, None), (9, 9, b"i"))
    batch = rows(4, [b"d", b"e", b"f", b"g", None])
    assert list(mine.among(batch.raw)) == [5, 8]
    # In the middle of a larger array, as slices are.
    whole = rows(0, [b"a", None, b"c", b"d", None, b"e", b"f"])
    part = RawBatch("t", 0, whole.raw.values[5:], whole.raw.offsets[5:], whole.raw.timestamps[5:])
    assert list(waiting((4, 4, None), (5, 5, b"e")).among(part)) == [5]
    assert list(mine.among(rows(100, [b"x"]).raw)) == []
    assert list(mine.among(rows(100, []).raw)) == []
    # After a reset, a position may have failed a second time.
    assert list(waiting((5, 0, b"z"), (5, 5, b"e"), (5, 5, b"e")).among(batch.raw)) == [5]


def test_what_a_correction_would_lose_and_what_it_would_bring_twice() -> None:
    found = Differing()
    found.note(rows(0, [b"a", b"b", b"c", b"d"], 1, 2), {("t", 0): waiting((1, 1, b"b"), (2, 0, b"c"))})
    assert {place: list(lost) for place, lost in found.lost.items()} == {("t", 0): [2]}
    assert found.reasons == {"t/0:2": "wrong"}
    assert found.back == {}
    found.note(rows(4, [b"e", b"f"]), {("t", 0): waiting((4, 4, b"e"), (5, 0, b"f"), (6, 6, b"g"))})
    assert {place: list(back) for place, back in found.back.items()} == {("t", 0): [4]}


def test_letters_of_a_topic_that_was_made_again_are_of_other_records(world: World, client: Client) -> None:
    schema = {"id": "long", "n": "long"}
    topic = world.topic([{"id": 1, "n": 7}, {"id": 2, "n": "x"}], partitions=1)
    before = world.pipeline(topic, "remade", schema=schema)
    world.run(before)
    assert letters(world, "remade") == [1]
    delete_topic(world.kafka.admin, topic)
    world.kafka.create_topic(topic, partitions=1)
    world.produce(topic, [{"id": 3, "n": 8}, {"id": 4, "n": 5_000_000_000}], partitions=1)
    with closing(Lake(world.spark, client)) as lake:
        reset(known(world, before), lake, parse_offsets([f"{topic}=earliest"]), None)
    world.run(before)
    wanted = [7, 8, 5_000_000_000]
    assert [one["n"] for one in world.rows("remade")] == wanted
    after = world.pipeline(topic, "remade", schema=schema | {"n": "int"})
    with pytest.raises(Conflict, match=rf"1 record .* bad .*: {topic}/0:1 \(n: found 5000000000"):
        by_offsets(world, client, after, f"{topic}=0:0-2", at_once=True)
    # Nor does it keep the good one from being a row.
    done = by_offsets(world, client, before, f"{topic}=0:0-2", at_once=True)
    assert done.difference is not None
    assert done.difference.total.unchanged == 2
    assert [one["n"] for one in world.rows("remade")] == wanted
    assert letters(world, "remade") == [1]


def test_letters_are_those_of_the_warehouse_that_is_asked(hot: HotWorld, tmp_path: Path) -> None:
    """Spark keeps a catalog that a session has used, whatever its settings say afterwards."""
    bad = f"hotread.asked{os.getpid()}"
    with Client(hot.server.uri) as client:
        client.warehouses.create("asked", {"type": "local", "path": str(tmp_path)})
    other = HotWorld(hot.kafka, hot.spark, hot.server, "asked")
    session = hot.spark.newSession()
    with closing(other):
        for world in (other, hot):
            clicks = world.table(
                {"id": "long required", "n": "int"},
                (),
                partitions=1,
                properties={"frazil.hot.dead-letters": bad},
            )
            clicks.put({"id": 1, "n": 7}, {"id": 2, "n": "x"}).tier()
            frazil.correct(
                session, clicks.name, offsets=f"{clicks.name}=0:0-2", publish=True, catalog=world.client
            )
    assert not [key for key in session.conf.getAll if key.startswith("spark.sql.catalog.frazil_dlq")]
