"""The pipeline, other writers and other rebuilds go on while one rebuilds."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.stream.rebuild.again import counted, metadata, rebuilds, rebuilt, stray, tried
from tests.stream.world import World, record, records

from frazil.core.errors import Conflict, InvalidInput, NotFound, SourceChanged, Superseded, Unsupported
from frazil.core.stamp import stamp_key
from frazil.lake.authority import MetadataHistory, ancestry
from frazil.lake.catalog import Lake
from frazil.maintenance.actions import expire
from frazil.stream.config.model import Limits
from frazil.stream.dlq import Choice, waiting
from frazil.stream.jobs import JobResult, Jobs
from frazil.stream.rebuild import loop
from frazil.stream.rebuild.loop import RebuildLoop
from frazil.stream.rebuild.sink import RebuildSink

WRONG = "SELECT id, upper(word) AS word, at, ref FROM source WHERE id <> 3"
SHOUTED = "SELECT id, upper(word) AS word, at, ref FROM source"
RIGHT = "SELECT id, concat(word, '!') AS word, at, ref FROM source"


def test_the_stream_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It commits after everything was rebuilt, and again between the last look and the swap."""
    topic = world.topic(records(60))
    pipeline = world.pipeline(topic, "living")
    world.run(pipeline)
    heads: list[int] = []
    swap = RebuildSink.swap

    def late(sink: RebuildSink, *given: Any) -> int:
        if len(heads) < 2:
            heads.append(len(heads))
            world.produce(topic, [record(60 + heads[-1])])
            ahead = 61 + heads[-1]
            running.until(lambda: len(world.rows("living")) == ahead)
        return swap(sink, *given)

    monkeypatch.setattr(RebuildSink, "swap", late)
    with world.running(pipeline) as running:
        done = rebuilt(world, pipeline)
        world.produce(topic, [record(62)])
        running.until(lambda: len(world.rows("living")) == 63)
    assert not running.errors
    assert heads == [0, 1]
    assert (done.read, done.before, done.after) == (62, 62, 62)
    assert [row["id"] for row in world.rows("living")] == list(range(63))


@contextmanager
def watched(world: World, table: str) -> Iterator[list[list[dict[str, Any]]]]:
    """What somebody sees who reads again and again, from before the block until behind it."""
    seen: list[list[dict[str, Any]]] = []
    begun, ended = threading.Event(), threading.Event()

    def look() -> None:
        last = False
        while not last:
            last = ended.is_set()
            seen.append(world.rows(table))
            begun.set()

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    assert begun.wait(300)
    try:
        yield seen
    finally:
        ended.set()
        thread.join(300)
    assert not thread.is_alive()


def test_a_reader_sees_the_old_or_the_new(world: World) -> None:
    """As many rows before as after, and each of them another one: their number would tell nothing."""
    topic = world.topic(records(50))
    limits = Limits(records_per_round=20)
    old, new = (
        replace(world.pipeline(topic, "whole", transform=sql), limits=limits) for sql in (SHOUTED, RIGHT)
    )
    world.run(old)
    before = world.rows("whole")
    after = [row | {"word": f"{row['word'].lower()}!"} for row in before]
    begun = len(metadata(world, "whole")["snapshot-log"])
    with watched(world, "whole") as seen:
        rebuilt(world, new)
    assert distinct(seen) == [before, after]
    # What no look met: all that the table ever was meanwhile.
    since = [one["snapshot-id"] for one in metadata(world, "whole")["snapshot-log"][begun:]]
    sql = "SELECT * FROM {{}}.whole VERSION AS OF {} ORDER BY id"
    states = distinct([world.spark_rows(sql.format(snapshot)) for snapshot in since])
    words = [[(row["id"], row["word"]) for row in rows] for rows in states]
    assert words == [[(row["id"], row["word"]) for row in rows] for rows in (before, after)]


def distinct(states: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """In their order, each once for as long as it lasted."""
    return [rows for rows, _ in itertools.groupby(states)]


def test_rows_of_others(world: World) -> None:
    topic = world.topic(records(20))
    pipeline = world.pipeline(topic, "shared")
    world.run(pipeline)
    world.spark_sql("INSERT INTO {}.shared VALUES (100, 'mine', null, null)")
    before = counted(world, "shared")
    _, errors = tried(world, pipeline)
    (error,) = errors.values()
    assert isinstance(error, Conflict)
    assert "1 rows came by spark" in error.message
    assert "--discard-others" in error.message
    assert counted(world, "shared") == before
    done = rebuilt(world, pipeline, discard_others=True)
    assert "1 rows came" in done.notes[0]
    assert [row["id"] for row in world.rows("shared")] == list(range(20))
    # From then on the table is the pipeline's alone; what somebody deletes would come back.
    assert not rebuilt(world, pipeline).notes
    world.spark_sql("DELETE FROM {}.shared WHERE id = 5")
    with pytest.raises(Conflict, match="rows went"):
        rebuilt(world, pipeline)


def test_another_pipeline_of_the_table(world: World) -> None:
    one, two = world.topic(records(5)), world.topic([record(number) for number in range(5, 9)])
    first, second = world.pipeline(one, "both", name="both-one"), world.pipeline(two, "both", name="both-two")
    world.run(first)
    world.run(second)
    with pytest.raises(Conflict, match="4 rows came by pipeline both-two"):
        rebuilt(world, first)


def test_others_in_a_history_that_expired(world: World, lake: Lake) -> None:
    """The number of rows tells, also after a rebuild whose snapshot expired."""
    topic = world.topic(records(10))
    pipeline = world.pipeline(topic, "expired")
    world.run(pipeline)

    def forget() -> None:
        """What our own expiry leaves at most: main down to the pipeline's newest stamp."""
        line = ancestry(MetadataHistory(metadata(world, "expired")))
        kept = set()
        for view in line:
            kept.add(view.id)
            if stamp_key(pipeline.name) in view.summary:
                break
        table = lake.load(("paths",), "expired")
        expire(
            table,
            [row["snapshot-id"] for row in world.snapshots("expired") if row["snapshot-id"] not in kept],
        )

    for count in (10, 12):
        forget()
        assert rebuilt(world, pipeline).after == count
        forget()
        world.produce(topic, records(12)[count:])
        world.run(pipeline)
        forget()
    world.spark_sql("INSERT INTO {}.expired VALUES (100, 'mine', null, null)")
    world.run(pipeline)
    forget()
    with pytest.raises(Conflict, match="the table has 13 and the pipeline wrote 12"):
        rebuilt(world, pipeline)


def trim(world: World, topic: str, before: int) -> None:
    (done,) = world.kafka.admin.delete_records([TopicPartition(topic, 0, before)]).values()
    done.result(120)


def test_a_trimmed_log(world: World) -> None:
    topic = world.topic(records(10), partitions=1)
    pipeline = world.pipeline(topic, "trimmed")
    world.run(pipeline)
    before = counted(world, "trimmed")
    trim(world, topic, 3)
    with pytest.raises(SourceChanged, match=f"{topic}-0 begins at 3, not at 0"):
        rebuilt(world, pipeline)
    assert counted(world, "trimmed") == before


def test_a_trimmed_log_with_its_history(world: World, lake: Lake) -> None:
    """A raw copy has what the log forgot; the copy is ahead of the pipeline that is rebuilt."""
    topic = world.topic([*records(10), {"id": "bad"}], partitions=1)
    raw, pipeline = (
        world.pipeline(topic, "raw_copy", name="raw"),
        world.pipeline(topic, "derived", transform=WRONG),
    )
    right = world.pipeline(topic, "derived", transform=RIGHT)
    world.run(raw)
    world.run(pipeline)
    trim(world, topic, 6)
    world.produce(topic, records(14)[10:], partitions=1)
    world.run(pipeline)
    world.produce(topic, records(20)[14:], partitions=1)
    world.run(raw)
    with pytest.raises(SourceChanged, match="--history"):
        rebuilt(world, right)
    done = rebuilt(world, right, history="paths.raw_copy")
    # 10 rows of the copy, and what lies behind them in the log.
    assert (done.read, done.bad, done.after, done.put_back) == (14, 0, 14, 0)
    assert [row["word"] for row in world.rows("derived")] == [f"w{number % 7}!" for number in range(14)]
    assert [row["offset"] for row in waiting(world.spark, lake, right, Choice()).collect()] == [10]
    world.run(right)
    assert [row["word"] for row in world.rows("derived")] == [f"w{number % 7}!" for number in range(20)]
    assert "_rebuild" not in str(metadata(world, "raw_copy")["refs"])
    # What others put into the copy is of no record.
    world.spark_sql("INSERT INTO {}.raw_copy VALUES (100, 'mine', null, null)")
    world.produce(topic, records(24)[20:], partitions=1)
    world.run(raw)
    world.run(right)
    with pytest.raises(InvalidInput, match="1 rows came by spark"):
        rebuilt(world, right, history="paths.raw_copy")
    # Between the copy and the log there is a part that is nowhere.
    world.produce(topic, records(30)[24:], partitions=1)
    world.run(right)
    trim(world, topic, 27)
    with pytest.raises(InvalidInput, match="none of its snapshots"):
        rebuilt(world, right, history="paths.raw_copy")
    assert len(world.rows("derived")) == 30


def test_a_pipeline_that_did_not_begin_with_the_log(world: World) -> None:
    topic = world.topic(records(10), partitions=1)
    pipeline = world.pipeline(topic, "begun", start={topic: [4]})
    world.run(pipeline)
    assert [row["id"] for row in world.rows("begun")] == [4, 5, 6, 7, 8, 9]
    assert rebuilt(world, pipeline).after == 6
    assert [row["id"] for row in world.rows("begun")] == [4, 5, 6, 7, 8, 9]


def test_two_rebuilds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The later one is done, the earlier one ends and leaves nothing."""
    topic = world.topic(records(30))
    pipeline = world.pipeline(topic, "rivals")
    world.run(pipeline)
    before = counted(world, "rivals")
    run, waiting, reached = Jobs.run, threading.Event(), threading.Event()

    def slow(jobs: Jobs, *given: Any) -> JobResult:
        if not reached.is_set():
            reached.set()
            assert waiting.wait(300)
        return run(jobs, *given)

    monkeypatch.setattr(Jobs, "run", slow)
    earlier = rebuilds(world, pipeline)
    errors: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: errors.update(earlier.run()))
    thread.start()
    assert reached.wait(300)
    assert rebuilt(world, pipeline).after == 30
    waiting.set()
    thread.join(300)
    assert isinstance(errors[pipeline.name], Superseded)
    assert "another rebuild" in errors[pipeline.name].message
    assert counted(world, "rivals") == before
    assert stray(world, "rivals") == set()


def test_a_running_pipeline_with_another_transform(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = world.topic(records(10))
    old = world.pipeline(topic, "older", transform="SELECT * FROM source")
    world.run(old)
    looked = RebuildLoop._looked

    def late(work: RebuildLoop, *given: Any) -> Any:
        if len(world.rows("older")) == 10:
            world.produce(topic, [record(10)])
            world.run(old)
        return looked(work, *given)

    monkeypatch.setattr(loop.RebuildLoop, "_looked", late)
    with pytest.raises(Conflict, match="runs with another configuration"):
        rebuilt(world, replace(old, hash="another"))
    assert [row["id"] for row in world.rows("older")] == list(range(11))
    assert stray(world, "older") == set()


@pytest.fixture
def around(world: World) -> str:
    """A topic whose records are in a table."""
    topic = world.topic(records(3))
    if not world.exists("around"):
        world.run(world.pipeline(topic, "around", name="around"))
    return topic


@pytest.mark.parametrize(
    "transform",
    [
        "SELECT word, max(id) AS id, max(at) AS at, max(ref) AS ref FROM source GROUP BY word",
        "SELECT DISTINCT * FROM source",
        "SELECT * FROM source LIMIT 5",
        "SELECT id, first(word) OVER (ORDER BY id) AS word, at, ref FROM source",
        "SELECT * FROM source WHERE id = (SELECT max(id) FROM source)",
        "SELECT * FROM source WHERE id IN (SELECT id + 1 FROM source)",
        "SELECT a.* FROM source a JOIN source b ON a.id = b.id",
    ],
)
def test_transforms_that_look_around(world: World, around: str, transform: str) -> None:
    pipeline = world.pipeline(around, "around", name="around", transform=transform)
    with pytest.raises(Unsupported, match="how the stream was cut into rounds"):
        rebuilt(world, pipeline)


def test_a_table_that_is_joined_is_fine(world: World) -> None:
    words = world.topic([{"id": number, "word": f"w{number}"} for number in range(7)])
    world.run(world.pipeline(words, "words", schema={"id": "long", "word": "string"}))
    topic = world.topic(records(20))
    joined = (
        "SELECT s.id, w.word, s.at, s.ref FROM source s JOIN "
        "(SELECT word, count(*) AS n FROM lake.paths.words GROUP BY word) w ON w.word = s.word"
    )
    pipeline = world.pipeline(topic, "joined", transform=joined)
    world.run(pipeline)
    before = counted(world, "joined")
    assert rebuilt(world, pipeline).after == 20
    assert counted(world, "joined") == before


def test_what_was_never_written(world: World) -> None:
    topic = world.topic(records(3))
    pipeline = world.pipeline(topic, "nothing")
    with pytest.raises(NotFound):
        rebuilt(world, pipeline)
    world.run(world.pipeline(topic, "nothing", name="somebody-else"))
    with pytest.raises(NotFound, match="nothing to rebuild"):
        rebuilt(world, pipeline)


def test_nothing_is_left_of_a_dry_run(world: World) -> None:
    topic = world.topic(records(20))
    pipeline = world.pipeline(topic, "dry")
    world.run(pipeline)
    before = metadata(world, "dry")["current-snapshot-id"]
    shown = rebuilt(world, pipeline, dry_run=True)
    assert shown.difference is not None
    assert (shown.difference.added, shown.difference.removed) == (0, 0)
    assert stray(world, "dry") == set()
    # The claim of the rebuild is an empty snapshot above it.
    assert metadata(world, "dry")["snapshots"][-1]["parent-snapshot-id"] == before
