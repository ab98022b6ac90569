"""What a reset would do, by real topics and a history made up."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from frazil.core.errors import InvalidInput, NotFound
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Mirror, Position, Stamp, stamp_key
from frazil.devstack.kafka import Kafka
from frazil.lake.authority import MetadataHistory
from frazil.stream.config.model import JsonFormat, KafkaSource, PipelineConfig, TableConfig
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.reset import Move, Reset, Target, ToOffsets, ToStamp, ToTime, parse_offsets, plan_reset

DAY = datetime(2026, 1, 1, tzinfo=UTC)
NAME = "orders"
_numbers = itertools.count(1)


class Scene:
    """A topic of two partitions with ten records each, one a day, and a pipeline that reads it."""

    def __init__(self, kafka: Kafka) -> None:
        self.topic = kafka.create_topic(f"reset-{next(_numbers)}", partitions=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        for number in range(20):
            at = int((DAY + timedelta(days=number // 2)).timestamp() * 1000)
            producer.produce(self.topic, b"{}", partition=number % 2, timestamp=at)
        assert producer.flush(120) == 0
        source = KafkaSource({"bootstrap.servers": kafka.bootstrap_servers}, (self.topic,))
        table = TableConfig(("a",), "b")
        self.config = PipelineConfig(NAME, source, JsonFormat(), Schema((Field("id", "long"),)), table)
        self.log = KafkaLog(source)

    def stamp(self, *following: int, epoch: int = 1, topic_id: str | None = None) -> Stamp:
        found = self.log.topics()[self.topic]
        position = Position(id=topic_id or found.id, next=following)
        return Stamp(
            pipeline=NAME,
            epoch=epoch,
            round=1,
            token="t",
            source=self.log.identity(),
            positions={self.topic: position},
        )

    def plan(self, history: dict[str, Any], target: Target) -> Reset:
        return plan_reset(self.config, MetadataHistory(history), self.log, target)

    def next(self, history: dict[str, Any], *texts: str) -> tuple[int, ...]:
        return self.plan(history, parse_offsets(texts)).positions[self.topic].next


def history(*stamps: Stamp, lost: Stamp | None = None) -> dict[str, Any]:
    """Snapshots 1, 2, … on main; `lost` is only in the property, as after a rollback."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "summary": {stamp_key(NAME): one.encode()},
        }
        for number, one in enumerate(stamps, 1)
    ]
    properties = {}
    if lost is not None:
        snapshots.append({"snapshot-id": 99, "parent-snapshot-id": None, "summary": {}})
        properties[stamp_key(NAME)] = Mirror(99, lost).encode()
    return {
        "snapshots": snapshots,
        "properties": properties,
        "refs": {"main": {"snapshot-id": len(stamps)}} if stamps else {},
    }


@pytest.fixture(scope="module")
def scene(kafka: Kafka) -> Scene:
    return Scene(kafka)


@pytest.mark.parametrize(
    "text", ["", "orders", "orders=", "orders=x", "orders=0", "orders=0:", "=0:1", "a b=0:1"]
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="TOPIC=PARTITION:OFFSET"):
        parse_offsets([text])


def test_nothing_is_given_twice() -> None:
    with pytest.raises(InvalidInput):
        parse_offsets(["a=0:1", "a=1:2"])
    with pytest.raises(InvalidInput):
        parse_offsets(["a=0:1,0:2"])
    with pytest.raises(InvalidInput):
        parse_offsets(["earliest", "a=0:1"])


def test_offsets(scene: Scene) -> None:
    before = history(scene.stamp(4, 6))
    assert scene.next(before, "earliest") == (0, 0)
    assert scene.next(before, "latest") == (10, 10)
    assert scene.next(before, f"{scene.topic}=latest") == (10, 10)
    assert scene.next(before, f"{scene.topic}=1:2") == (4, 2)
    assert scene.next(before, f"{scene.topic}=0:10,1:0") == (10, 0)


def test_times(scene: Scene) -> None:
    planned = scene.plan(history(scene.stamp(4, 6)), ToTime(DAY + timedelta(days=5)))
    assert planned.positions[scene.topic].next == (5, 5)
    assert planned.moves == (Move(scene.topic, 0, 4, 5), Move(scene.topic, 1, 6, 5))
    assert (planned.again, planned.skipped) == (1, 1)
    assert scene.plan(history(), ToTime(DAY + timedelta(days=99))).positions[scene.topic].next == (10, 10)


def test_what_the_log_does_not_have_is_refused(scene: Scene) -> None:
    before = history(scene.stamp(4, 6))
    for wrong in (f"{scene.topic}=0:11", f"{scene.topic}=2:0", "other=0:1"):
        with pytest.raises(InvalidInput):
            scene.next(before, wrong)
    with pytest.raises(InvalidInput, match=f"{scene.topic}-1 cannot go on at 60"):
        scene.next(history(scene.stamp(4, 60)), f"{scene.topic}=0:1")


def test_a_topic_made_again_must_be_named(scene: Scene) -> None:
    before = history(scene.stamp(4, 6, topic_id="older"))
    with pytest.raises(InvalidInput, match="say where"):
        scene.next(before, f"{scene.topic}=0:1")
    planned = scene.plan(before, parse_offsets([f"{scene.topic}=earliest"]))
    assert planned.positions == {scene.topic: Position(scene.log.topics()[scene.topic].id, (0, 0))}
    assert planned.moves == (Move(scene.topic, 0, None, 0), Move(scene.topic, 1, None, 0))
    with pytest.raises(InvalidInput, match="another topic"):
        scene.plan(before, ToStamp())


def test_topics_that_are_not_read_any_more_stay(scene: Scene) -> None:
    stamp = scene.stamp(4, 6)
    old = Position(id="x", next=(7,))
    both = Stamp(
        **{name: getattr(stamp, name) for name in stamp.__struct_fields__}
        | {"positions": {**stamp.positions, "old": old}}
    )
    assert scene.plan(history(both), ToOffsets(everywhere="earliest")).positions["old"] == old


def test_stamps(scene: Scene) -> None:
    before = history(scene.stamp(2, 2), scene.stamp(4, 6, epoch=2))
    assert scene.plan(before, ToStamp()).positions[scene.topic].next == (4, 6)
    assert scene.plan(before, ToStamp(1)).positions[scene.topic].next == (2, 2)
    with pytest.raises(NotFound, match="Newest: 2, 1"):
        scene.plan(before, ToStamp(5))
    with pytest.raises(NotFound, match="no commit of pipeline"):
        scene.plan(history(), ToStamp())


def test_a_stamp_that_was_rolled_back_is_the_newest_one(scene: Scene) -> None:
    planned = scene.plan(history(lost=scene.stamp(4, 6)), ToStamp())
    assert planned.positions[scene.topic].next == (4, 6)
    assert planned.base is None
    assert planned.moves[0] == Move(scene.topic, 0, None, 4)
    assert "cannot tell what is in the table" in planned.notes[0]
