from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.stream.support import kafka_of
from tests.stream.trail import Trail

from frazil.client import Client
from frazil.core.errors import Conflict, HistoryChanged, SourceChanged, Superseded
from frazil.core.stamp import Stamp
from frazil.lake.authority import MetadataHistory
from frazil.lake.catalog import Lake
from frazil.lake.writers import PipelineWriter
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.reset import Reset, Target, ToOffsets, ToStamp, parse_offsets, plan_reset, reset
from frazil.stream.verify import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def trail(kafka: Any, spark: SparkSession, frazil_sqlite: Any) -> Trail:
    return Trail.make(kafka, spark, frazil_sqlite)


def move(trail: Trail, target: Target, shown: Reset | None = None) -> Stamp:
    with Client(trail.server.uri) as client:
        return reset(trail.config, Lake(trail.spark, client), target, shown)


def plan(trail: Trail, target: Target) -> Reset:
    history = MetadataHistory(trail.metadata())
    return plan_reset(trail.config, history, KafkaLog(kafka_of(trail.config)), target)


def test_read_again_and_left_out(trail: Trail) -> None:
    trail.produce(20)
    trail.run()
    before = trail.stamp()
    stamp = move(trail, parse_offsets([f"{trail.topic}=0:8"]))
    assert stamp.epoch > before.epoch
    assert (stamp.read, stamp.written) == (0, 0)
    assert stamp == trail.stamp()
    trail.run()
    # Partition 0 has the even ids, two of which were read again.
    assert trail.ids() == sorted([*range(20), 16, 18])
    assert trail.stamp().read == 2
    # As it was asked for, so it is no fault: what was read since the reset is there once.
    assert trail.verify().verdict is Verdict.OK
    trail.produce(10)
    move(trail, ToOffsets(everywhere="latest"))
    trail.run()
    assert trail.ids() == sorted([*range(20), 16, 18])
    earlier = next(
        view["snapshot-id"]
        for view in trail.metadata()["snapshots"]
        if before.token in str(view.get("summary"))
    )
    assert move(trail, ToStamp(earlier)).positions == before.positions
    trail.run()
    assert trail.ids() == sorted([*range(30), 16, 18])


def test_after_a_rollback_the_newest_stamp_is_taken(trail: Trail) -> None:
    trail.sql("CREATE TABLE {table} (id bigint NOT NULL, word string, tags array<int>)")
    trail.sql("INSERT INTO {table} VALUES (-1, 'first', NULL)")
    foreign = trail.metadata()["current-snapshot-id"]
    trail.produce(10)
    trail.run()
    last = trail.stamp()
    name = trail.config.table.name
    trail.sql(f"CALL {{catalog}}.system.rollback_to_snapshot('trail.{name}', {foreign})")
    with pytest.raises(HistoryChanged):
        trail.run()
    assert move(trail, ToStamp()).positions == last.positions
    trail.produce(4)
    trail.run()
    assert trail.ids() == [-1, 10, 11, 12, 13]


def test_after_the_topic_was_made_again(trail: Trail) -> None:
    trail.produce(10)
    trail.run()
    trail.make_topic_again()
    trail.produce(6)
    with pytest.raises(SourceChanged, match=f"--to-offsets {trail.topic}=earliest"):
        trail.run()
    move(trail, parse_offsets([f"{trail.topic}=earliest"]))
    trail.run()
    assert trail.ids() == list(range(16))
    assert trail.verify().verdict is Verdict.OK


def test_a_running_writer_is_stopped_and_what_it_did_meanwhile_noticed(trail: Trail) -> None:
    trail.produce(10)
    trail.run()
    target = parse_offsets([f"{trail.topic}=0:2"])
    shown = plan(trail, target)
    trail.produce(10)
    trail.run()
    before = trail.stamp()
    with pytest.raises(Conflict, match="give the command again"):
        move(trail, target, shown)
    assert trail.stamp().positions == before.positions
    with Client(trail.server.uri) as client:
        lake = Lake(trail.spark, client)
        table = lake.load(trail.config.table.namespace, trail.config.table.name)
        writer = PipelineWriter.claim(lake, table, trail.config.name, pytest.fail, "")
        move(trail, target, plan(trail, target))
        with pytest.raises(Superseded):
            writer.begin()
    trail.run()
    assert len(trail.ids()) == 28
