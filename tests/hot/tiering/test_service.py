"""The service at work: tables come, go, change and break, and none of them holds up another."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.hot.support import grow
from tests.hot.tiering.world import Table, World

from frazil.core.errors import RoundFailed, Superseded
from frazil.core.schema import Field, Schema
from frazil.core.stamp import stamp_key
from frazil.hot.create import create
from frazil.hot.table import TIERING
from frazil.hot.tiering import history
from frazil.hot.tiering import service as tiering
from frazil.hot.tiering.loop import Service, TieringLoop
from frazil.hot.tiering.schedule import Bounds
from frazil.hot.tiering.status import hot_status
from frazil.stream.cdc.jobs import ChangeJobs
from frazil.stream.cdc.lane import LaneTurn
from frazil.stream.cdc.line import Line
from frazil.stream.config.model import KafkaSource
from frazil.stream.events import (
    FreshnessBroken,
    FreshnessReported,
    RoundRetried,
    TableFreshness,
    TableStopped,
)
from frazil.stream.kafka.log import KafkaLog, LogView


def _view(world: World, table: Table) -> LogView:
    return KafkaLog(KafkaSource(world.settings, topics=(table.hot.topic,))).look()


def _last(events: list[FreshnessReported], table: Table) -> TableFreshness | None:
    found = [one for one in events[-1].tables if one.table == str(table.hot)] if events else []
    return found[0] if found else None


def test_tables_come_go_and_change(world: World) -> None:
    first = world.table(table__datalake__freshness="5s")
    idle = world.table()
    with world.tiering() as service:
        first.put(*range(10))
        service.until(first.complete)
        fast = world.table(key=(), table__datalake__freshness="2s")
        fast.put(1, 2, 3)
        service.until(fast.complete)
        # Else that nothing is reported of it would prove nothing.
        service.until(lambda: _last(service.seen.of(FreshnessReported), fast) is not None)
        # Disabled: what is put stays in the log.
        fast.alter(table__datalake__enabled="false")
        service.until(lambda: _last(service.seen.of(FreshnessReported), fast) is None)
        before = fast.found()
        fast.put(4)
        first.put(5, word="again")
        service.until(first.complete)
        assert fast.found() == before
        fast.alter(table__datalake__enabled="true")
        service.until(fast.complete)
        # Dropped and made again: all of it is another table.
        world.drop(fast)
        again = Table(world, create(fast.declared, world.client, world.settings).table, fast.declared)
        world.adopt(again)
        again.put(7)
        service.until(again.complete)
        # Made again with the log that it had: all rows come once more.
        world.drop(again, topic=False)
        kept = create(again.declared, world.client, world.settings, adopt=True).table
        assert kept.binding.topic_id == again.hot.binding.topic_id
        world.adopt(again)
        service.until(again.complete)
        # A column that somebody added, and a freshness that somebody changed, count at once.
        first.sql("ALTER TABLE {} ADD COLUMN more bigint")
        first.alter(table__datalake__freshness="2s")
        first.send(b'{"id":5}', b'{"id": 5, "word": "wide", "more": 9, "other": 1}')
        service.until(lambda: {"id": 5, "word": "wide", "price": None, "more": 9} in first.found())
        service.until(
            lambda: (
                (one := _last(service.seen.of(FreshnessReported), first)) is not None and one.freshness == 2.0
            )
        )
    assert not service.errors
    assert idle.found() == []
    assert world.client.tables.load(idle.hot.namespace, idle.hot.name).metadata.get("snapshots", []) == []


class _Pair:
    """One table with a key and one without, which get the same records and the same changes from outside."""

    def __init__(self, world: World) -> None:
        columns = Schema((Field("id", "int"), Field("n", "int"), Field("word", "string")))
        self._world = world
        self.keyed, self.log = (
            world.table(key=key, columns=columns, bucket__num="1", table__datalake__freshness="1s")
            for key in (("id",), ())
        )
        #: What the third column is called.
        self.text = "word"
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._told: list[tuple[Any, ...]] = []

    def put(self, number: int, word: str, *, n: int = 0, field: str | None = None) -> None:
        """`field`: what the record calls the third column."""
        field = field or self.text
        record = json.dumps({"id": number, "n": n, field: word}).encode()
        self.keyed.send(f'{{"id":{number}}}'.encode(), record)
        self.log.send(None, record)
        self._rows[number] = row = (number, n, word if field == self.text else None)
        self._told.append(row)

    def delete(self, number: int) -> None:
        self.keyed.send(f'{{"id":{number}}}'.encode(), None)
        del self._rows[number]

    def sql(self, change: str) -> None:
        for table in (self.keyed, self.log):
            table.sql(f"ALTER TABLE {{}} {change}")

    def complete(self) -> bool:
        names = ("id", "n", self.text)
        return all(
            sorted(self._world.rows(str(table.hot)), key=repr)
            == sorted((dict(zip(names, row, strict=True)) for row in rows), key=repr)
            for table, rows in ((self.keyed, self._rows.values()), (self.log, self._told))
        )


def test_columns_and_partitions_that_others_change(world: World) -> None:
    """Each change counts for the next record; rows of before are as they were, and can still be replaced."""
    both = _Pair(world)
    with world.tiering() as service:
        for number in range(8):
            both.put(number, "old")
        service.until(both.complete)
        # Widened, the key as well.
        for column in ("n", "id"):
            both.sql(f"ALTER COLUMN {column} TYPE bigint")
        both.put(1, "wide", n=2**40)
        both.put(2**35, "new")
        both.delete(2)
        service.until(both.complete)
        # Renamed: rows of before keep their values. A record is read by names: what has the old one is null.
        both.sql("RENAME COLUMN word TO text")
        both.text = "text"
        both.put(3, "right")
        both.put(4, "lost", field="word")
        service.until(both.complete)
        # Partitioned otherwise: what a row replaces lies in a file of another spec, and in another partition.
        for spec, more in (
            ("ADD PARTITION FIELD bucket(2, id)", 8),
            ("REPLACE PARTITION FIELD bucket(2, id) WITH truncate(1, text)", 9),
        ):
            both.sql(spec)
            for number in (1, 2**35, more):
                both.put(number, f"{more}")
            both.delete(more - 3)
            service.until(both.complete)
    assert not service.errors
    assert not service.seen.of(TableStopped)
    for table in (both.keyed, both.log):
        files = world.spark.table(f"tiered.{table.hot}.files").where("content = 0")
        assert {row.spec_id for row in files.collect()} == {0, 1, 2}


def test_a_broken_table_holds_up_no_other(world: World) -> None:
    bad, grown, good = (
        world.table(bucket__num="1"),
        world.table(bucket__num="1"),
        world.table(table__datalake__freshness="60s"),
    )
    grown.put(1)
    world.once()
    grow(world.kafka, grown.hot.topic, 2)
    bad.send(None, b"[]")
    grown.put(2)

    def tried() -> bool:
        """The bad one, again and again; meanwhile rows come to the good one."""
        good.put(*range(20), word=str(time.monotonic()))
        return [event.table for event in service.seen.of(TableStopped)].count(str(bad.hot)) >= 3

    with world.tiering() as service:
        # How long a service takes to start is not what is asked here.
        good.put(*range(20))
        service.until(good.complete)
        before = len(service.seen.of(FreshnessBroken))
        service.until(tried)
        service.until(good.complete)
        stopped = {event.table: event.error for event in service.seen.of(TableStopped)}
        assert stopped.keys() == {str(bad.hot), str(grown.hot)}
        assert "made with 1 partitions and has 2" in stopped[str(grown.hot)]
        assert "offset 0" in stopped[str(bad.hot)]
        service.until(lambda: any(one.table == str(bad.hot) for one in service.seen.of(FreshnessBroken)))
        late = {one.table: one.cause for one in service.seen.of(FreshnessBroken)}
        assert str(good.hot) not in {one.table for one in service.seen.of(FreshnessBroken)[before:]}
        assert late[str(bad.hot)] in ("failing", "starting")
        service.until(
            lambda: (
                (one := _last(service.seen.of(FreshnessReported), bad)) is not None
                and one.trouble is not None
            )
        )
        # Mended: it goes on by itself.
        bad.alter(frazil__hot__dead_letters=f"{bad.hot.namespace[0]}.letters2")
        bad.put(1)
        service.until(bad.complete)
        statuses = {one.table: one for one in hot_status(world.client, world.settings)}
        assert "made with 1 partitions" in statuses[str(grown.hot)].problems[0]
        assert statuses[str(good.hot)].lag == 0.0
        assert statuses[str(good.hot)].backlog == 0
        assert statuses[str(good.hot)].stamp is not None
    assert set(service.errors) == {TIERING}
    assert len(grown.found()) == 1


def test_a_damaged_stamp_stops_its_table_alone(world: World) -> None:
    """By whatever hand; before the service starts, and while it runs."""
    before, later, good = (world.table(table__datalake__freshness="1s") for _ in range(3))
    for table in (before, later):
        table.put(1)
    world.once()
    before.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ('{stamp_key(TIERING)}'='?')")

    def stopped() -> set[str]:
        return {event.table for event in service.seen.of(TableStopped) if "damaged stamp" in event.error}

    with world.tiering() as service:
        before.put(2)
        good.put(1)
        service.until(good.complete)
        assert stopped() == {str(before.hot)}
        later.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ('{stamp_key(TIERING)}'='?')")
        service.until(lambda: str(later.hot) in stopped())
        good.put(2)
        service.until(good.complete)
        statuses = {one.table: one for one in hot_status(world.client, world.settings)}
        assert "damaged stamp" in statuses[str(before.hot)].problems[0]
        assert statuses[str(before.hot)].backlog == 1
        assert statuses[str(good.hot)].problems == ()
        # As the message says.
        for table in (before, later):
            table.sql(f"ALTER TABLE {{}} UNSET TBLPROPERTIES ('{stamp_key(TIERING)}')")
            table.put(3)
            service.until(table.complete)
    assert not service.errors


def test_a_backlog_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rounds are back to back, and it is late in each of them: the first of all by its deadline."""
    far_behind, trickle = world.table(key=()), world.table()
    # So many rounds that something of the other comes between them.
    monkeypatch.setattr(tiering, "Service", functools.partial(Service, bounds=Bounds(records=300)))
    commits: list[str] = []
    commit = TieringLoop._commit

    def noted(self: TieringLoop, line: Line, *given: Any) -> bool:
        done = commit(self, line, *given)
        commits.append(line.lane.topic)
        if line.lane.topic == far_behind.hot.topic:
            trickle.put(len(commits))
        return done

    monkeypatch.setattr(TieringLoop, "_commit", noted)
    far_behind.put(*range(3000))
    with world.tiering() as service:
        service.until(lambda: far_behind.complete() and trickle.complete())
    assert not service.errors
    rounds = [number for number, topic in enumerate(commits) if topic == far_behind.hot.topic]
    assert len(rounds) >= 10
    between = commits[: rounds[-1]].count(trickle.hot.topic)
    assert between >= len(rounds) // 3, commits


def test_the_log_is_trimmed_behind_the_stamp(world: World) -> None:
    short = world.table(bucket__num="1", frazil__hot__keep="3s", table__datalake__freshness="1s")
    long = world.table(bucket__num="1", frazil__hot__keep="1h", table__datalake__freshness="1s")
    with world.tiering() as service:
        for table in (short, long):
            table.put(*range(5))
        service.until(lambda: short.complete() and long.complete())
        service.until(lambda: _view(world, short).beginnings[short.hot.topic] == (5,))
    short.put(5, 6)
    time.sleep(3.5)
    status = {one.table: one for one in hot_status(world.client, world.settings)}[str(short.hot)]
    assert status.backlog == 2
    assert status.lag is not None
    assert status.lag > 3
    with world.tiering() as service:
        service.until(short.complete)
        service.until(lambda: _view(world, short).beginnings[short.hot.topic] == (7,))
    assert _view(world, long).beginnings[long.hot.topic] == (0,)
    assert short.complete()


def test_what_was_measured_is_in_a_table(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # It is written in the end alone, however long all of this takes.
    monkeypatch.setattr(history, "_EVERY_SECONDS", 3600.0)
    table = world.table()
    table.put(1)
    where = ((table.hot.namespace[0],), "tiering_log")
    with world.tiering(history=where) as service:
        service.until(table.complete)
        table.send(None, b"bad")
        # A broken promise is not enough: a service that starts slowly breaks one by the first record.
        service.until(
            lambda: (
                (one := _last(service.seen.of(FreshnessReported), table)) is not None
                and one.breaches > 0
                and one.trouble is not None
            )
        )
    rows = world.rows(f"{where[0][0]}.{where[1]}")
    mine = [row for row in rows if row["table"] == str(table.hot)]
    assert mine
    assert sum(row["breaches"] for row in mine) >= 1
    assert mine[-1]["freshness_seconds"] == 4.0
    assert mine[-1]["trouble"] is not None
    metadata = world.client.tables.load(*where).metadata
    assert stamp_key("tiering") in metadata["properties"]
    name = f"{where[0][0]}.{where[1]}"
    (status,) = [one for one in hot_status(world.client, world.settings, name) if one.table == str(table.hot)]
    assert status.breaches == sum(row["breaches"] for row in mine)


def test_a_second_service_takes_over(world: World) -> None:
    table = world.table(table__datalake__freshness="1h")
    table.put(1)
    with world.tiering() as first:
        table.alter(table__datalake__freshness="1s")
        first.until(table.complete)
        table.alter(table__datalake__freshness="1h")
        first.until(
            lambda: (
                (one := _last(first.seen.of(FreshnessReported), table)) is not None
                and one.freshness == 3600.0
            )
        )
        table.put(2)
        world.once()
        assert table.complete()
        table.alter(table__datalake__freshness="1s")
        table.put(3)
        first.until(lambda: bool(first.errors))
    assert isinstance(first.errors[TIERING], Superseded)
    world.once()
    assert table.complete()


def test_a_table_that_breaks_whole_jobs_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does whose records kill the worker: each table of such a job is tried alone."""
    bad, good, other = world.table(), world.table(), world.table(key=())
    for table in (bad, good, other):
        table.put(1, 2)
    apply = ChangeJobs.apply

    def broken(self: ChangeJobs, reader: Any, turns: Sequence[LaneTurn], keys: Any) -> Any:
        if any(turn.work.name == bad.hot.topic for turn in turns):
            raise RoundFailed("a worker died")
        return apply(self, reader, turns, keys)

    monkeypatch.setattr(ChangeJobs, "apply", broken)
    with world.tiering() as service:
        service.until(lambda: good.complete() and other.complete())
        service.until(lambda: bool(service.seen.of(RoundRetried)))
        assert all(str(bad.hot) in event.reason for event in service.seen.of(RoundRetried))
        monkeypatch.undo()
        service.until(bad.complete)
    assert not service.errors
