"""Until when a history and the log behind it are kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from tests.hot.read.world import HotRows, HotWorld
from tests.stream.bootstrap.test_begin import Stopping
from tests.stream.bootstrap.test_keyed import follower, frazil_name, rows
from tests.stream.world import World

from frazil.core.errors import Unavailable
from frazil.core.stamp import Position
from frazil.hot.table import hot_table
from frazil.hot.tiering.trim import trim_to
from frazil.stream.bootstrap.changes import HistoryChanges
from frazil.stream.bootstrap.feed import HistoryFeed
from frazil.stream.bootstrap.hold import Hold
from frazil.stream.bootstrap.place import Place
from frazil.stream.config.model import KafkaSource, MetadataColumns
from frazil.stream.kafka.feed import KafkaFeed
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.rounds import RoundPlan

_HOUR = 3600.0
_COLUMNS = {"id": "long required", "word": "string"}


@dataclass
class Log:
    """Its end is known as long as somebody answers; a table beside it that is held or not."""

    end: int = 0
    away: bool = False
    keeps: bool = False
    looks: int = 0
    released: list[int] = field(default_factory=list)

    def look(self) -> LogView:
        self.looks += 1
        if self.away:
            raise Unavailable("no broker")
        return LogView("kafka:K", {"t": Topic("t", "T", 1)}, (), {"t": (0,)}, {"t": (self.end,)})

    def release(self) -> bool:
        self.released.append(self.end)
        return not self.keeps


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def hold(log: Log) -> Hold:
    return Hold(cast("Any", log), log.look)


def _at(taken: int, *following: int) -> dict[str, Position]:
    place = Place("a.b", "u", 7, 10, taken=taken)
    return {place.topic: place.position(), "t": Position(id="T", next=following)}


def test_while_rows_are_to_be_taken(hold: Hold, log: Log) -> None:
    for taken in (0, 9):
        hold.settle(_at(taken, 0))
    assert (log.looks, log.released) == (0, [])
    # Nothing is in the log.
    hold.settle(_at(10, 0))
    assert log.released == [0]


def test_until_the_log_was_caught_up_with(hold: Hold, log: Log) -> None:
    log.end = 30
    for following in (5, 15, 25):
        hold.settle(_at(10, following))
        log.end += 3
    assert log.released == []
    hold.settle(_at(10, log.end))
    assert log.released == [39]
    looks = log.looks
    hold.settle(_at(10, log.end))
    assert (log.released, log.looks) == ([39], looks)


@pytest.mark.parametrize("asked", ["behind it", "on both sides of it", "in the next one"])
def test_a_log_that_always_has_more_is_caught_up_with(hold: Hold, log: Log, asked: str) -> None:
    """Each round takes all that there was when it was planned, wherever in it or behind it that is told."""
    log.end, before = 30, 5
    hold.settle(_at(10, before))
    for _ in range(3):
        log.end += 3
        planned = log.end
        log.end += 3
        if asked != "behind it":
            hold.settle(_at(10, before))
        log.end += 3
        if asked != "in the next one":
            hold.settle(_at(10, planned))
        before = planned
    assert log.released


def test_new_topics_and_partitions_are_to_be_read_too(hold: Hold, log: Log) -> None:
    log.end = 1
    hold.settle(_at(10))
    assert log.released == []
    hold.settle(_at(10, 1, 0))
    assert log.released == [1]


def test_nobody_answers(hold: Hold, log: Log) -> None:
    log.away = True
    hold.settle(_at(10, 0))
    assert log.released == []
    log.away, log.keeps = False, True
    hold.settle(_at(10, 0))
    hold.settle(_at(10, 0))
    assert log.released == [0, 0]
    log.keeps = False
    for _ in range(2):
        hold.settle(_at(10, 0))
    assert log.released == [0, 0, 0]


@pytest.mark.parametrize("kind", ["rows", "changes"])
def test_feeds_do_not_let_go_with_the_last_row(log: Log, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(KafkaLog, "look", lambda _: log.look())
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}, ("t",))
    changes = HistoryChanges(source, cast("Any", log))
    feed = HistoryFeed(KafkaFeed(source, MetadataColumns()), cast("Any", log))
    log.end = 5
    for position in (_at(9, 0), _at(10, 0), _at(10, 4), _at(10, 5)):
        assert log.released == []
        plan = RoundPlan((), position, 1, {})
        if kind == "rows":
            feed.landed(plan)
        else:
            changes.landed({"t": plan})
    assert log.released == [5]


def _trimmed_to(hot: HotWorld, table: HotRows, later: float) -> int:
    """How many offsets may leave the log after that time."""
    name = frazil_name(table.name)
    metadata = hot.client.tables.load(*name).metadata
    found = hot_table(*name, metadata)
    assert found is not None
    return sum(trim_to(metadata, found, time.time() + later))


def _put(table: HotRows, ids: Sequence[int]) -> HotRows:
    return table.put(*({"id": n, "word": f"w{n}"} for n in ids))


@pytest.mark.slow
@pytest.mark.parametrize("key", [("id",), ()], ids=["changes", "rows"])
def test_the_log_behind_a_history_is_not_trimmed_before_it_is_read(
    world: World, hot: HotWorld, key: tuple[str, ...]
) -> None:
    """All rows of the history are taken, and the pipeline stands still for longer than records are kept."""
    table = hot.table(_COLUMNS, key)
    _put(table, range(20)).tier()
    _put(table, range(20, 30)).flush()
    name = f"held-{table.name.rpartition('_')[2]}"
    if key:
        copy = follower(table, name, history=table.name)
    else:
        copy = world.pipeline(table.topic, name, name=name, history=table.name, schema=_COLUMNS)
    stopping = Stopping()
    with replace(world, seen=stopping).running(copy) as running:
        stopping.stops.put(running.runner.stop)
        running.until(lambda: bool(running.stopped()))
    assert len(rows(world, name)) == 20
    table.tier()
    _put(table, range(30, 35)).tier()
    assert _trimmed_to(hot, table, 2 * _HOUR) == 20
    world.run(copy)
    assert rows(world, name) == table.expected()
    assert _trimmed_to(hot, table, 2 * _HOUR) == 35
