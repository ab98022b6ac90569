"""One pipeline that keeps state, and then does not; and the other way round."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.stream.rebuild.again import gathered
from tests.stream.stateful.model import Windows, event
from tests.stream.stateful.test_windows import PER_WORD, SCHEMA, counted, shuffled, stamps, stateful
from tests.stream.world import World

import frazil
from frazil.client import Client
from frazil.core.errors import HistoryChanged
from frazil.lake.catalog import Lake
from frazil.stream.reset import ToStamp, reset

#: With the columns of `PER_WORD`.
PLAIN = "SELECT at AS hour, word, id AS events FROM source"


def test_what_waits_in_the_state_is_not_left_behind_without_a_word(world: World, tmp_path: Path) -> None:
    topic = world.topic([event(1, 10, "closed"), event(2, 100, "open")], partitions=1)
    kept = world.pipeline(topic, "kept", transform=PER_WORD, **stateful(tmp_path / "s"))
    world.run(kept)
    plain = world.pipeline(topic, "kept", transform=PLAIN, schema=SCHEMA, event_time="at")
    snapshots = len(world.snapshots("kept"))
    with pytest.raises(HistoryChanged, match=r"would never land.*frazil reset pipelines\.yaml"):
        world.run(plain)
    assert len(world.snapshots("kept")) == snapshots, "not even a claim"
    with Client(world.server.uri) as client:
        lake = Lake(world.spark, client)
        (addressed,) = gathered(world, plain).pipelines
        reset(addressed, lake, ToStamp())
        lake.close()
        world.produce(topic, [event(3, 200, "new")], partitions=1)
        world.run(plain)
        assert frazil.complete_until("paths.kept", plain.name, client=client) is None
    assert [word for _, word in counted(world, "kept")] == ["closed", "new"]


def test_the_watermark_of_before_is_no_promise_of_a_query(world: World, tmp_path: Path) -> None:
    """Nothing kept late records out until then."""
    topic = world.topic([event(1, 900, "before")], partitions=1)
    world.run(world.pipeline(topic, "begins", transform=PLAIN, schema=SCHEMA, event_time="at"))
    events = shuffled(1, 100, (0, 100), 20)
    world.produce(topic, events, partitions=1)
    pipeline = world.pipeline(topic, "begins", transform=PER_WORD, **stateful(tmp_path / "s"))
    world.run(pipeline)
    model = Windows(timedelta(hours=1), timedelta(minutes=10))
    model.run(events)
    assert stamps(world, "begins", pipeline.name)[0].watermark is None
    with Client(world.server.uri) as client:
        until = frazil.complete_until("paths.begins", pipeline.name, client=client)
    assert until is not None
    assert model.watermark is not None
    assert until <= model.watermark
