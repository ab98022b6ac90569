"""Bad records: where they go, and what becomes of the others."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from tests.stream.world import World, record, records

from frazil.core.errors import BadRecord, InvalidConfig, RoundFailed
from frazil.core.stamp import Stamp, stamp_key
from frazil.stream.events import RoundCommitted
from frazil.stream.frames import TaskFailed
from frazil.stream.needs import Lacking, Needs

BY = ("partition", "offset")


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_bad_records_lie_beside_the_good_ones(world: World, transform: str | None) -> None:
    table = f"dead_{'spark' if transform else 'fused'}"
    bad: list[Any] = [b'{"id": 1', {"id": "two"}, {"word": "no id"}, b"[3]"]
    mixed = [each for pair in zip(records(4), bad, strict=True) for each in pair]
    topic = world.topic([*mixed, *records(3)], partitions=1)
    world.produce_nothing(topic)
    world.run(world.pipeline(topic, table, transform=transform))
    assert sorted(row["id"] for row in world.rows(table)) == sorted([0, 1, 2, 3, 0, 1, 2])
    letters = world.rows(f"{table}_dead_letters", BY)
    assert [(row["offset"], row["fault"]) for row in letters] == [
        (1, "broken"),
        (3, "type"),
        (5, "missing"),
        (7, "broken"),
        (11, "empty"),
    ]
    assert letters[0]["value"] == b'{"id": 1'
    assert letters[1]["field"] == "id"
    assert {(row["topic"], row["partition"], row["stage"]) for row in letters} == {(topic, 0, "decode")}
    (committed,) = [event for event in world.seen.events if isinstance(event, RoundCommitted)]
    assert (committed.read, committed.written, committed.bad) == (12, 7, 5)


def test_the_table_of_dead_letters_is_made_when_it_is_needed(world: World) -> None:
    topic = world.topic(records(3))
    pipeline = world.pipeline(topic, "clean")
    world.run(pipeline)
    assert not world.exists("clean_dead_letters")
    world.produce(topic, [b"{"])
    world.run(pipeline)
    world.produce(topic, [b"}", record(3)])
    world.run(pipeline)
    assert [row["value"] for row in world.rows("clean_dead_letters", BY)] == [b"{", b"}"]
    assert [row["id"] for row in world.rows("clean")] == [0, 1, 2, 3]


def test_too_many_bad_records_stop_the_pipeline(world: World) -> None:
    topic = world.topic([*records(8), b"{", b"{"], partitions=1)
    pipeline = world.pipeline(topic, "rate", dead_letters={"stop_above": "10%"})
    with pytest.raises(BadRecord, match=r"2 of 10 records of a round are bad, more than the 10\.00%"):
        world.run(pipeline)
    assert world.rows("rate") == []
    world.run(world.pipeline(topic, "rate", dead_letters={"stop_above": "20%"}))
    assert len(world.rows("rate")) == 8
    assert len(world.rows("rate_dead_letters", BY)) == 2


def test_a_record_that_is_too_large(world: World) -> None:
    large = {"id": 7, "word": "x" * 5000}
    topic = world.topic([record(0), large, record(2)], partitions=1)
    world.run(world.pipeline(topic, "large", limits={"bytes_per_record": "4kb"}))
    assert [row["id"] for row in world.rows("large")] == [0, 2]
    (letter,) = world.rows("large_dead_letters", BY)
    assert (letter["fault"], letter["offset"], len(letter["value"])) == ("too-large", 1, 5021)


def test_what_a_record_has_besides_its_value(world: World) -> None:
    topic = world.topic(records(2), partitions=1)
    world.produce(topic, [b"{"], partitions=1)
    world.produce(topic, [record(3)], partitions=1, key=b"k", headers=[("h", b"1"), ("h", None)])
    metadata = {
        name: f"kafka_{name}" for name in ("topic", "partition", "offset", "timestamp", "key", "headers")
    }
    world.run(world.pipeline(topic, "metadata", metadata=metadata))
    rows = world.rows("metadata")
    assert [row["kafka_offset"] for row in rows] == [0, 1, 3]
    assert {(row["kafka_topic"], row["kafka_partition"]) for row in rows} == {(topic, 0)}
    assert rows[2]["kafka_key"] == b"k"
    assert rows[2]["kafka_headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert rows[0]["kafka_timestamp"].year >= 2026
    assert rows[0]["kafka_key"] is None


def test_producers_that_count_something_else_than_milliseconds(world: World) -> None:
    """Of good and of bad records: neither stops the pipeline, and every engine can show what there is."""
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    topic = world.kafka.create_topic(f"times-{os.getpid()}", config=any_time)
    for times in (10**3, 10**6):
        world.produce(topic, [record(times), b"{"], 1, timestamp=1_700_000_000_000 * times)
    world.run(world.pipeline(topic, "times", metadata={"timestamp": "sent"}))
    assert [(row["id"], row["sent"]) for row in world.rows("times")] == [(10**3, None), (10**6, None)]
    letters = world.rows("times_dead_letters", BY)
    assert [(row["offset"], row["timestamp"]) for row in letters] == [(1, None), (3, None)]


def test_a_table_that_is_not_for_letters_gets_none(world: World) -> None:
    """They would be rows of nulls there, and so be lost."""
    world.spark_sql("CREATE NAMESPACE IF NOT EXISTS {}")
    world.spark_sql("CREATE TABLE {}.odd_dead_letters (id bigint)")
    topic = world.topic([{"id": "x"}], partitions=1)
    with pytest.raises(InvalidConfig, match="odd_dead_letters is named for bad records, and is one of"):
        world.run(world.pipeline(topic, "odd", schema={"id": "long"}))


@pytest.mark.parametrize(
    "claim",
    [
        lambda _: Lacking(Needs(columns=((("forged",), "string", False),))),
        lambda _: Lacking(Needs(tables=("paths.forged",))),
        lambda topic: BadRecord.at((topic, 0, 10**6), "forged"),
    ],
    ids=["columns", "tables", "position"],
)
def test_what_a_record_says_in_an_error_is_not_done(
    world: World, monkeypatch: pytest.MonkeyPatch, claim: Callable[[str], BadRecord | Lacking]
) -> None:
    """An expression that fails quotes its value, which looks like what a task of ours would say."""
    monkeypatch.setattr("frazil.stream.loops.FAILED_ROUNDS", 1)
    topic = world.topic(partitions=1)
    world.produce(topic, [{"id": 1, "word": str(TaskFailed(claim(topic)))}], partitions=1)
    table = f"said_{topic.replace('-', '_')}"
    sql = "SELECT id, if(word LIKE 'frazil-%', raise_error(word), word) AS word FROM source"
    pipeline = world.pipeline(topic, table, schema={"id": "long", "word": "string"}, transform=sql)
    with pytest.raises((RoundFailed, BadRecord)):
        world.run(pipeline)
    assert world.rows(table) == []
    assert not world.exists("forged")
    stamp = Stamp.decode(world.snapshots(table)[-1]["summary"][stamp_key(pipeline.name)])
    assert stamp.positions[topic].next == (0,)
    world.spark_sql(f"SELECT id, word FROM {{}}.{table}")
    with pytest.raises(AnalysisException):
        world.spark_sql(f"SELECT forged FROM {{}}.{table}")


@pytest.mark.parametrize("end", ["WHERE 1 = 0", "LIMIT 1"])
def test_what_spark_need_not_read_is_read_for_its_bad_records(world: World, end: str) -> None:
    topic = world.topic([{"id": 1}, {"id": 2}, {"id": "x"}, {"id": "y"}], partitions=2)
    table = f"pruned_{end.split(maxsplit=1)[0].lower()}"
    pipeline = world.pipeline(
        topic,
        table,
        schema={"id": "long"},
        transform=f"SELECT * FROM source {end}",
        limits={"records_per_task": 1},
    )
    world.run(pipeline)
    letters = world.rows(f"{table}_dead_letters", BY)
    assert [(row["partition"], row["offset"]) for row in letters] == [(0, 1), (1, 1)]
    stamp = Stamp.decode(world.snapshots(table)[-1]["summary"][stamp_key(pipeline.name)])
    assert (stamp.read, stamp.written) == (4, 1 if "LIMIT" in end else 0)
