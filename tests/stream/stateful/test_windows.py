"""Windows, deduplication and joins end to end, against models that share nothing with Spark."""

from __future__ import annotations

import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.stream.stateful.model import Windows, event
from tests.stream.world import World

import frazil
from frazil.client import Client
from frazil.core.errors import BadRecord, HistoryChanged, InvalidConfig, Unsupported
from frazil.core.stamp import Stamp
from frazil.devstack.seaweed import ObjectStore
from frazil.stream import dlq
from frazil.stream.dlq import Choice
from frazil.stream.events import CaughtUp, RoundCommitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = {"id": "long required", "word": "string", "at": "timestamptz"}
PER_WORD = """
SELECT window.start AS hour, word, count(*) AS events
FROM source GROUP BY window(at, '1 hour'), word
"""
PAIRS = """
SELECT c.id, c.at, o.at AS later
FROM source c JOIN source o ON c.id = o.id AND o.at BETWEEN c.at AND c.at + INTERVAL 30 MINUTES
WHERE c.topic = '{0}' AND o.topic = '{1}'
"""


def once(df: DataFrame) -> DataFrame:
    return df.withWatermark("at", "10 minutes").dropDuplicatesWithinWatermark(["id"])


def stateful(path: Path) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "event_time": "at",
        "stateful": {"checkpoint": str(path), "lateness": "10m"},
    }


def counted(world: World, table: str) -> dict[tuple[datetime, str], int]:
    rows = world.rows(table, ("hour", "word"))
    found = {(row["hour"], row["word"]): row["events"] for row in rows}
    assert len(found) == len(rows), "a window is there twice"
    return found


def shuffled(seed: int, first: int, minutes: tuple[int, int], count: int) -> list[dict[str, Any]]:
    """Events of some time, in an order that is wrong by less than the lateness."""
    chance = random.Random(seed)
    times = sorted(chance.uniform(*minutes) for _ in range(count))
    moved = sorted(times, key=lambda at: at + chance.uniform(0, 9))
    return [event(first + index, at, chance.choice("abc")) for index, at in enumerate(moved)]


def stamps(world: World, table: str, pipeline: str) -> list[Stamp]:
    """Those of batches, in the order of their commits."""
    found = sorted(world.snapshots(table), key=lambda one: int(one["sequence-number"]))
    stamped = [Stamp.decode(one["summary"][f"frazil.stamp.{pipeline}"]) for one in found]
    return [stamp for stamp in stamped if stamp.batch is not None and stamp.round]


def test_windows_are_counted_once_and_late_records_left_out(world: World, tmp_path: Path) -> None:
    model = Windows(timedelta(hours=1), timedelta(minutes=10))
    topic = world.topic()
    limits = {"records_per_round": 250, "records_per_task": 100}
    state = tmp_path / "state"
    pipeline = world.pipeline(topic, "hours", transform=PER_WORD, limits=limits, **stateful(state))
    runs = [
        shuffled(1, 0, (0, 200), 400),
        [*(event(1000 + n, 5 + n, "late") for n in range(20)), *shuffled(2, 2000, (200, 330), 100)],
    ]
    for number, events in enumerate(runs):
        world.produce(topic, [*events, b"{broken"] if number == 1 else events)
        world.run(pipeline)
        model.run(events)
        assert counted(world, "hours") == model.closed
    assert model.late == 20
    letters = world.rows("hours_dead_letters", ("offset",))
    assert [row["value"] for row in letters] == [b"{broken"]

    stamped = stamps(world, "hours", pipeline.name)
    assert [stamp.batch for stamp in stamped] == list(range(len(stamped)))
    assert len({stamp.query for stamp in stamped}) == 1
    assert stamped[-1].read == sum(map(len, runs)) + 1
    assert stamped[-1].written == len(model.closed)
    assert model.watermark is not None
    with Client(world.server.uri) as client:
        until = frazil.complete_until("paths.hours", pipeline.name, client=client)
    assert until is not None
    # Spark counts in milliseconds.
    assert model.watermark - timedelta(milliseconds=1) <= until <= model.watermark

    shutil.rmtree(state)
    snapshots = len(world.snapshots("hours"))
    with pytest.raises(HistoryChanged, match="the checkpoint is not there"):
        world.run(pipeline)
    assert len(world.snapshots("hours")) == snapshots, "not even a claim"


def test_records_that_come_again_land_once_and_streams_are_joined(world: World, tmp_path: Path) -> None:
    """Two pipelines at once."""
    events = shuffled(7, 0, (0, 60), 200)
    again = events + [one | {"at": moved(one, 2)} for one in events[::3]]
    random.Random(8).shuffle(again)
    clicks = world.topic(again)
    chance = random.Random(9)
    bought = [one | {"at": moved(one, chance.uniform(-20, 50))} for one in events]
    first, second = world.topic(events), world.topic(bought)
    single = world.pipeline(clicks, "single", transform=once, schema=SCHEMA, stateful=str(tmp_path / "a"))
    pairs = world.pipeline(
        first,
        "pairs",
        topics=[first, second],
        metadata={"topic": "topic"},
        transform=PAIRS.format(first, second),
        **stateful(tmp_path / "b"),
    )
    world.run(single, pairs)
    assert [row["id"] for row in world.rows("single")] == sorted(one["id"] for one in events)
    expected = [
        (one["id"], time(one), time(other))
        for one, other in zip(events, bought, strict=True)
        if time(one) <= time(other) <= time(one) + timedelta(minutes=30)
    ]
    found = [(row["id"], row["at"], row["later"]) for row in world.rows("pairs")]
    assert found == sorted(expected)
    assert 20 < len(found) < 180
    # Behind a join nothing is said about what is complete.
    assert stamps(world, "pairs", pairs.name)[-1].watermark is None
    assert stamps(world, "single", single.name)[-1].watermark is not None


def test_a_stateful_pipeline_that_goes_on(world: World, tmp_path: Path) -> None:
    topic = world.topic(shuffled(1, 0, (0, 130), 100))
    pipeline = world.pipeline(
        topic, "live", transform=PER_WORD, dead_letters="stop", **stateful(tmp_path / "s")
    )

    def landed() -> int:
        return sum(event.read for event in world.seen.events if isinstance(event, RoundCommitted))

    with world.running(pipeline) as running:
        running.until(lambda: landed() == 100)
        world.produce(topic, [event(900, 240, "a")])
        running.until(lambda: landed() == 101)
        running.until(lambda: len(counted(world, "live")) == 9)
        running.until(lambda: any(isinstance(event, CaughtUp) for event in world.seen.events))
    assert running.errors == {}
    world.produce(topic, [b"{broken", event(901, 241, "a")])
    with pytest.raises(BadRecord, match="Nothing of its batch was written"):
        world.run(pipeline)
    # Once there is a place for it, the batch that is planned already can land.
    world.run(world.pipeline(topic, "live", transform=PER_WORD, **stateful(tmp_path / "s")))
    assert [row["value"] for row in world.rows("live_dead_letters", ("offset",))] == [b"{broken"]
    assert stamps(world, "live", pipeline.name)[-1].read == 103
    nowhere: Any = None
    with pytest.raises(Unsupported, match="keeps state"):
        dlq.replay(
            world.pipeline(topic, "live", transform=PER_WORD, **stateful(tmp_path)),
            world.spark,
            nowhere,
            Choice(),
        )


@pytest.mark.exhaustive
def test_a_checkpoint_in_a_bucket(world: World, object_store: ObjectStore) -> None:
    bucket, keys = object_store.create_bucket("state"), object_store.admin
    settings = world.spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in {
        "endpoint": object_store.endpoint,
        "endpoint.region": object_store.region,
        "path.style.access": "true",
        "access.key": keys.access,
        "secret.key": keys.secret,
    }.items():
        settings.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    model, topic = Windows(timedelta(hours=1), timedelta(minutes=10)), world.topic()
    state = {"checkpoint": f"s3a://{bucket}/checkpoints/hours", "lateness": "10m"}
    pipeline = world.pipeline(
        topic, "bucket_hours", transform=PER_WORD, schema=SCHEMA, event_time="at", stateful=state
    )
    for number in range(2):
        events = shuffled(number, 0, (number * 100, number * 100 + 100), 50)
        world.produce(topic, events)
        world.run(pipeline)
        model.run(events)
    assert counted(world, "bucket_hours") == model.closed


def test_what_keeps_no_state_is_refused(world: World, tmp_path: Path) -> None:
    topic = world.topic()
    plain = world.pipeline(topic, "none", transform="SELECT id, at FROM source", **stateful(tmp_path))
    with pytest.raises(InvalidConfig, match="keeps no state"):
        world.run(plain)
    assert not world.exists("none")
    sensors = frazil.Pipeline(
        "s", table="paths.none", transform=once, source={"table": "paths.x"}, stateful=str(tmp_path)
    )
    with pytest.raises(InvalidConfig, match="reads Kafka"):
        world.run(sensors)


def moved(one: dict[str, Any], minutes: float) -> str:
    return (time(one) + timedelta(minutes=minutes)).isoformat()


def time(one: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(one["at"])
