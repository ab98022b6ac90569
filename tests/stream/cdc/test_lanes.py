"""Change events from Kafka into tables, against the rows that they are of."""

from __future__ import annotations

import itertools
import os
import re
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.stream.cdc.changing import UNCHANGED, ChangingTable
from tests.stream.support import delete_topic
from tests.stream.world import World

from frazil.core.errors import BadRecord, FrazilError, InvalidConfig, SourceChanged
from frazil.core.stamp import Stamp, stamp_key
from frazil.stream.cdc import loop
from frazil.stream.cdc.lane import Lane
from frazil.stream.config.model import PipelineConfig
from frazil.stream.events import TableStopped

_numbers = itertools.count(1)


def topic_of(world: World, table: str = "orders") -> str:
    name = f"s{os.getpid()}x{next(_numbers)}.inv.{table}"
    return world.kafka.create_topic(name, partitions=1)


def pipeline(world: World, topic: str, table: str, **settings: Any) -> PipelineConfig:
    name = re.sub("[{}]", "", table).replace("_", "-")
    given = {"schema": None, "format": "debezium", "name": name, "format_version": 3}
    return world.pipeline(topic, table, **(given | settings))


def rows(world: World, table: str) -> dict[Any, dict[str, Any]]:
    found = world.rows(table)
    by_key = {(row["id"],): row for row in found}
    assert len(by_key) == len(found), "a key twice"
    return by_key


@pytest.mark.parametrize("version", [2, 3])
def test_rows_as_they_are_now(world: World, producer: Producer, version: int) -> None:
    topic, table = topic_of(world), f"cdc_now_{version}"
    source = ChangingTable()
    for number in range(50):
        source.read(id=number, word=f"w{number}", body="x" * 20, price=number / 2)
    source.send(producer, topic)
    line = pipeline(world, topic, table, format_version=version)
    world.run(line)
    assert rows(world, table) == source.rows
    for number in range(0, 50, 3):
        source.put(id=number, word="changed", body=UNCHANGED, price=None)
    source.put(id=100, word="new", body="b", price=1.0)
    source.put(id=100, word="newer", body=UNCHANGED, price=2.0)
    source.delete(1)
    source.delete(2, whole=True, tombstone=False)
    source.change_key((4,), id=400, word="moved", body=UNCHANGED, price=4.0)
    source.put(id=5, word="hot", body="of five", price=5.0)
    source.change_key((5,), id=500, word="moved", body=UNCHANGED, price=5.5)
    source.change_key((500,), id=501, word="moved on", body=UNCHANGED, price=5.75)
    source.put(id=2, word="again", body="c", price=0.5)
    source.put(id=200, word="short", body="d", price=0.5)
    source.delete(200)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, table) == source.rows
    source.truncate()
    source.put(id=7, word="after", body="e", price=1.5)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, table) == source.rows
    world.run(line)
    assert rows(world, table) == source.rows


def test_what_is_sent_again_changes_nothing(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="old")
    source.put(id=2, word="gone")
    first = list(source.events)
    source.put(id=1, word="new")
    source.delete(2)
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_replays")
    world.run(line)
    source.send(producer, topic, first)
    world.run(line)
    assert rows(world, "cdc_replays") == source.rows == {(1,): {"id": 1, "word": "new"}}


def test_a_changed_key_behind_the_row_it_led_to(world: World, producer: Producer) -> None:
    """A snapshot that is read while keys change has the row under its new key already."""
    topic, source, rest = topic_of(world), ChangingTable(), ChangingTable()
    source.read(id=400, word="moved", body="kept")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_overtaken")
    world.run(line)
    rest.put(id=4, word="here", body="kept")
    rest.events.clear()
    rest.change_key((4,), id=400, word="moved", body=UNCHANGED)
    rest.send(producer, topic)
    world.run(line)
    assert rows(world, "cdc_overtaken") == {(400,): {"id": 400, "word": "moved", "body": "kept"}}


def test_half_of_a_changed_key_goes_on_without_the_rest(
    world: World, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """The connector died in between; when it is back, it sends both halves again."""
    topic, source = topic_of(world), ChangingTable()
    source.read(id=1, word="moves", body="kept")
    source.read(id=2, word="stays", body="kept")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_halves", freshness="100ms")
    source.put(id=2, word="beside it", body="kept")
    source.change_key((1,), id=3, word="moved", body="kept")
    events = list(source.events)
    source.send(producer, topic, events[:-1])
    world.run(line)
    assert rows(world, "cdc_halves") == {(2,): source.rows[2,]}
    assert "until the connector sends them under their new keys" in caplog.text
    source.send(producer, topic, events)
    world.run(line)
    assert rows(world, "cdc_halves") == source.rows


def test_a_changed_key_in_another_partition_is_not_waited_for(
    world: World, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_WAITS", 1_000_000)
    topic = world.kafka.create_topic(topic_of(world).replace("orders", "wide"), partitions=2)
    source = ChangingTable()
    source.read(id=1, word="moves")
    first, source.events = source.events, []
    source.change_key((1,), id=3, word="moved")
    for number, events in enumerate(([*first, *source.events[:-1]], source.events[-1:])):
        for key, value, headers in events:
            producer.produce(topic, value, key, partition=number, headers=dict(headers))
    assert producer.flush(120) == 0
    world.run(pipeline(world, topic, "cdc_wide"))
    assert rows(world, "cdc_wide") == source.rows


def test_a_source_that_was_reset(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="before")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_resets")
    world.run(line)
    source.lsn = 10
    source.put(id=1, word="after")
    source.send(producer, topic)
    with pytest.raises(SourceChanged, match=r"changes\.incarnation"):
        world.run(line)
    assert rows(world, "cdc_resets") == {(1,): {"id": 1, "word": "before"}}
    world.run(pipeline(world, topic, "cdc_resets", changes={"incarnation": 1}))
    assert rows(world, "cdc_resets") == source.rows
    with pytest.raises(InvalidConfig, match="only goes up"):
        world.run(line)


def test_one_failing_table_does_not_stop_the_others(world: World, producer: Producer) -> None:
    good, bad = topic_of(world, "good"), topic_of(world, "bad")
    source = ChangingTable()
    source.put(id=1, word="a")
    events = list(source.events)
    source.send(producer, good, events)
    source.send(producer, bad, [*events, (b'{"id":2}', b"{broken", {}), *events])
    line = pipeline(world, good, "cdc_many_{table}", topics=[good, bad])
    with pytest.raises(BadRecord, match="offset 1"):
        world.run(line)
    assert rows(world, "cdc_many_good") == rows(world, "cdc_many_bad") == source.rows
    stopped = [event for event in world.seen.events if isinstance(event, TableStopped)]
    assert stopped[-1].table == "paths.cdc_many_bad"
    source.events.clear()
    source.put(id=3, word="c")
    source.send(producer, good)
    with pytest.raises(FrazilError, match="offset 1"):
        world.run(line)
    assert rows(world, "cdc_many_good") == source.rows
    letters = pipeline(
        world, good, "cdc_many_{table}", topics=[good, bad], dead_letters="paths.cdc_many_letters"
    )
    world.run(letters)
    assert [letter["offset"] for letter in world.rows("cdc_many_letters", ("offset",))] == [1]


def test_bad_changes_in_two_partitions(world: World, producer: Producer) -> None:
    topic = world.kafka.create_topic(topic_of(world).replace("orders", "wide"), partitions=3)
    sources = []
    for number in range(3):
        source = ChangingTable()
        source.put(id=number, word="before")
        sources.append(source)
        broken: list[Any] = [(b'{"id":9}', b"{broken", {})] if number < 2 else []
        for key, value, headers in [*source.events, *broken]:
            producer.produce(topic, value, key, partition=number, headers=dict(headers))
    assert producer.flush(120) == 0
    with pytest.raises(BadRecord, match=r"partition [01], offset 1"):
        world.run(pipeline(world, topic, "cdc_two_bad"))
    assert rows(world, "cdc_two_bad") == {key: row for each in sources for key, row in each.rows.items()}


def test_a_topic_that_is_gone_stops_its_table_alone(world: World, producer: Producer) -> None:
    kept, gone = topic_of(world, "kept"), topic_of(world, "gone")
    source = ChangingTable()
    source.put(id=1, word="a")
    for topic in (kept, gone):
        source.send(producer, topic, source.events)
    source.events.clear()
    line = pipeline(world, kept, "cdc_topics_{table}", topics=[kept, gone], freshness="100ms")
    with world.running(line) as run:
        both = ("cdc_topics_kept", "cdc_topics_gone")
        run.until(lambda: all(world.exists(table) and rows(world, table) for table in both))
        delete_topic(world.kafka.admin, gone)
        stopped = "paths.cdc_topics_gone"
        run.until(lambda: any(isinstance(e, TableStopped) and e.table == stopped for e in run.seen.events))
        source.put(id=2, word="b")
        source.send(producer, kept)
        run.until(lambda: rows(world, "cdc_topics_kept") == source.rows)
        assert not run.stopped()
    assert "is gone" in run.errors[line.name].message
    assert len(rows(world, "cdc_topics_gone")) == 1


@dataclass
class Clock:
    """Stands still, until somebody moves it."""

    now: float = field(default_factory=time.monotonic)

    def monotonic(self) -> float:
        return self.now


def test_nobody_waits_for_a_table_that_commits_slowly(
    world: World, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = topic_of(world, "x").removesuffix(".x")
    commit, order = Lane.commit, []
    # By the real one, the others would be slow as well where the machine is busy.
    clock = Clock()

    def recorded(lane: Lane, *given: Any) -> Stamp:
        order.append(lane.topic.rpartition(".")[2])
        clock.now += 1.5 if order[-1] == "a" else 0.0
        return commit(lane, *given)

    monkeypatch.setattr(Lane, "commit", recorded)
    monkeypatch.setattr(loop, "time", clock)
    for name in "abc":
        topic, source = world.kafka.create_topic(f"{prefix}.{name}", partitions=1), ChangingTable()
        for number in range(4):
            source.put(id=number, word=name)
        source.send(producer, topic)
    topics, limits = [f"{prefix}.{name}" for name in "abc"], {"records_per_round": 2}
    world.run(pipeline(world, topics[0], "slowly_{table}", topics=topics, limits=limits))
    assert order == ["a", "b", "c", "b", "c", "a"]


def test_columns_follow_the_source(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="a")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_grown")
    world.run(line)
    source.put(id=2, word="b", added=5)
    source.put(id=1, word="c", added=6)
    source.send(producer, topic)
    world.run(line)
    source.put(id=3, added=7)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, "cdc_grown") == {
        (1,): {"id": 1, "word": "c", "added": 6},
        (2,): {"id": 2, "word": "b", "added": 5},
        (3,): {"id": 3, "word": None, "added": 7},
    }


def test_every_change_as_a_row(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.read(id=1, word="a")
    source.put(id=1, word="b")
    source.delete(1)
    source.send(producer, topic)
    world.run(pipeline(world, topic, "cdc_appended", changes={"mode": "append"}))
    world.run(pipeline(world, topic, "cdc_both", changes={"mode": "changelog"}))
    expected = [(0, "read", "a"), (1, "update", "b"), (2, "delete", None)]
    for table in ("cdc_appended", "cdc_both_changes"):
        found = world.rows(table, ("_offset",))
        assert [(row["_offset"], row["_op"], row["word"]) for row in found] == expected
    assert rows(world, "cdc_both") == {}


def test_a_truncate_leaves_every_change_in_the_log(world: World, producer: Producer) -> None:
    """Another partition's changes from before it come a round later: void for the rows alone."""
    topic = world.kafka.create_topic(topic_of(world).replace("orders", "wide"), partitions=2)
    source = ChangingTable()
    source.put(id=1, word="void")
    source.put(id=2, word="void")
    first, second = source.events
    source.events = []
    source.truncate()
    (truncate,), source.events = source.events, []
    source.put(id=2, word="new")
    line = pipeline(world, topic, "cdc_emptied", changes={"mode": "changelog"})
    for partition, events in ((0, [first, truncate]), (1, [second, *source.events])):
        for key, value, headers in events:
            producer.produce(topic, value, key, partition=partition, headers=dict(headers))
        assert producer.flush(120) == 0
        world.run(line)
    assert rows(world, "cdc_emptied") == source.rows == {(2,): {"id": 2, "word": "new"}}
    found = world.rows("cdc_emptied_changes", ("_partition", "_offset"))
    told = [(row["_partition"], row["_op"], row["id"], row["word"]) for row in found]
    assert told == [
        (0, "create", 1, "void"),
        (0, "truncate", None, None),
        (1, "create", 2, "void"),
        (1, "create", 2, "new"),
    ]


def test_two_topics_of_one_table(world: World, producer: Producer) -> None:
    """They would take it from each other: the one that came first keeps it."""
    prefix, source = topic_of(world).removesuffix(".inv.orders"), ChangingTable()
    here, there = (world.kafka.create_topic(f"{prefix}.{name}.orders", partitions=1) for name in ("a", "b"))
    source.put(id=1, word="kept")
    source.send(producer, here)
    world.run(pipeline(world, here, "cdc_shared_{table}"))
    other = ChangingTable()
    other.put(id=1, word="other")
    other.send(producer, there)
    source.put(id=2, word="more")
    source.send(producer, here)
    for topics in ([here, there], [there, here]):
        with pytest.raises(
            InvalidConfig, match=f"{there} has the same table as {here}, paths.cdc_shared_orders"
        ):
            world.run(pipeline(world, here, "cdc_shared_{table}", topics=topics))
        assert rows(world, "cdc_shared_orders") == source.rows
    with pytest.raises(InvalidConfig, match=r"`\{schema\}`"):
        world.run(pipeline(world, here, "cdc_shared_anew_{table}", topics=[here, there]))
    assert rows(world, "cdc_shared_anew_orders") == source.rows


def test_soft_deletes(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="a")
    source.put(id=2, word="b")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_soft", changes={"soft_delete": "gone"})
    world.run(line)
    source.delete(1)
    source.put(id=3, word="c")
    source.delete(3)
    source.send(producer, topic)
    world.run(line)
    assert rows(world, "cdc_soft") == {
        (1,): {"id": 1, "word": "a", "gone": True},
        (2,): {"id": 2, "word": "b", "gone": False},
        (3,): {"id": 3, "word": "c", "gone": True},
    }
    source.put(id=1, word="back")
    source.send(producer, topic)
    world.run(line)
    assert rows(world, "cdc_soft")[(1,)] == {"id": 1, "word": "back", "gone": False}


def test_a_table_without_a_key(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable(key=())
    source.put(id=1, word="a")
    source.events = [(None, value, {}) for _, value, _ in source.events]
    source.send(producer, topic)
    with pytest.raises(InvalidConfig, match=r"changes\.key"):
        world.run(pipeline(world, topic, "cdc_keyless"))
    world.run(pipeline(world, topic, "cdc_keyless", changes={"key": "id"}))
    assert rows(world, "cdc_keyless") == {(1,): {"id": 1, "word": "a"}}


def test_the_mark_is_in_the_stamp(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.read(id=1, word="a")
    source.put(id=1, word="b")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_marked")
    world.run(line)
    stamp = Stamp.decode(world.snapshots("cdc_marked")[-1]["summary"][stamp_key(line.name)])
    (mark,) = stamp.marks[topic]
    assert mark is not None
    assert (mark.line, mark.at, mark.ts) == ("lsn", (source.lsn - 10, source.lsn, 0), source.ts_ms)


def test_a_row_whose_key_is_changed_is_never_gone(world: World, producer: Producer) -> None:
    """Nor there twice: the end of a round is moved where it would come between the two."""
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="a")
    source.put(id=2, word="b")
    source.change_key((1,), id=3, word="a")
    source.send(producer, topic)
    world.run(pipeline(world, topic, "cdc_moved", limits={"records_per_round": 3, "records_per_task": 1}))
    assert rows(world, "cdc_moved") == source.rows
    counts = [int(snapshot["summary"]["total-records"]) for snapshot in world.snapshots("cdc_moved")]
    deleted = [
        int(snapshot["summary"]["total-position-deletes"]) for snapshot in world.snapshots("cdc_moved")
    ]
    live = [count - gone for count, gone in zip(counts, deleted, strict=True)]
    assert sorted(set(live)) == [0, 2]
