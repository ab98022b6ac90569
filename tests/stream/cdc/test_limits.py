"""What one round, one change and one table may take."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import Producer
from tests.stream.cdc.changing import ChangingTable
from tests.stream.cdc.test_lanes import pipeline, rows, topic_of
from tests.stream.world import World

from frazil.core.errors import BadRecord, RoundFailed
from frazil.stream.cdc import loop
from frazil.stream.events import RoundCommitted
from frazil.stream.loops import Loop
from frazil.stream.sinks.keys import TableKeys


def test_a_change_that_is_too_large_is_a_bad_one(world: World, producer: Producer) -> None:
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="short")
    source.put(id=2, word="x" * 5000)
    source.put(id=3, word="short")
    source.send(producer, topic)
    limits = {"bytes_per_record": "4kb"}
    with pytest.raises(BadRecord, match=r"offset 1: it has \d+ bytes, more than 4096") as caught:
        world.run(pipeline(world, topic, "cdc_large", limits=limits))
    assert caught.value.position == (topic, 0, 1)
    assert rows(world, "cdc_large").keys() == {(1,)}
    letters = {"limits": limits, "dead_letters": "paths.cdc_large_letters"}
    world.run(pipeline(world, topic, "cdc_large", **letters))
    assert rows(world, "cdc_large").keys() == {(1,), (3,)}
    # A round of nothing else, and one where another fault stands before it.
    source.put(id=3, word="y" * 5000)
    source.send(producer, topic)
    world.run(pipeline(world, topic, "cdc_large", **letters))
    source.send(producer, topic, [(b'{"id": 4}', b"broken", {})])
    source.put(id=4, word="z" * 5000)
    source.put(id=5, word="short")
    source.send(producer, topic)
    world.run(pipeline(world, topic, "cdc_large", **letters))
    assert rows(world, "cdc_large").keys() == {(1,), (3,), (5,)}
    set_aside = world.rows("cdc_large_letters", by=("offset",))
    found = [(row["offset"], row["fault"]) for row in set_aside]
    assert found == [(1, "too-large"), (3, "too-large"), (4, "broken"), (5, "too-large")]


def test_rounds_are_short_when_keys_end_soon(
    world: World, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that gives keys for so short a time is not to be had."""
    topics = [topic_of(world, table) for table in ("shorta", "shortb")]
    sources = [ChangingTable(), ChangingTable()]
    for topic, source in zip(topics, sources, strict=True):
        for number in range(10):
            source.put(id=number, word="w")
        source.send(producer, topic)
    line = pipeline(world, "", "cdc_{table}", topics=topics, limits={"records_per_round": 8})
    monkeypatch.setattr(Loop, "_measure", lambda self, records, started: setattr(self, "_rate", 10.0))
    monkeypatch.setattr(TableKeys, "end", lambda self, tables: datetime(2000, 1, 1, tzinfo=UTC))
    world.run(line)
    read = [
        event.read
        for event in world.seen.events
        if isinstance(event, RoundCommitted) and event.pipeline == line.name
    ]
    assert (max(read), sum(read)) == (4, 20), "both together no more than can be done"
    assert [rows(world, f"cdc_{table}") for table in ("shorta", "shortb")] == [each.rows for each in sources]


def test_a_table_whose_columns_never_settle_stops(
    world: World, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "ADAPTATIONS", 3)
    monkeypatch.setattr(loop, "FAILED_ROUNDS", 1)
    topic, source = topic_of(world), ChangingTable()
    source.put(id=1, word="before")
    source.send(producer, topic)
    line = pipeline(world, topic, "cdc_unsettled", changes={"soft_delete": "gone"})
    world.run(line)
    source.put(id=2, word="behind", gone=True)
    source.send(producer, topic)
    with pytest.raises(
        RoundFailed, match=r"new columns 3 times in a row, and still has no place for gone\..*another name"
    ):
        world.run(line)
    assert rows(world, "cdc_unsettled").keys() == {(1,)}
