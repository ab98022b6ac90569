"""What may leave the log."""

from __future__ import annotations

import bisect
import itertools
import time
from dataclasses import replace
from typing import Any

import pytest
from tests.hot.support import remove, wait_until
from tests.hot.tiering.world import World

from frazil.core.schema import Field, Schema
from frazil.core.stamp import Mirror, Position, Stamp, stamp_key
from frazil.hot.table import TIERING, Binding, HotTable
from frazil.hot.tiering.steward import Finder
from frazil.hot.tiering.trim import trim_to
from frazil.hot.tiering.watch import Watch
from frazil.hot.topics import SETTINGS, Topics
from frazil.maintenance.expiry import expiry_by

_KEY = stamp_key(TIERING)
_BINDING = Binding(topic="a.b", topic_id="T", source="kafka:K", brokers="x")
_TABLE = HotTable(("a",), "b", _BINDING, Schema((Field("id", "long"),)), keep=100.0)


def _stamp(*following: int, topic: str = "T", source: str = "kafka:K") -> Stamp:
    positions = {"a.b": Position(id=topic, next=following)}
    return Stamp(pipeline=TIERING, epoch=1, round=1, token="t", source=source, positions=positions)


def _metadata(*snapshots: tuple[float, Stamp | None], first: int | None = None) -> dict[str, Any]:
    """Oldest first, one the parent of the next; `first` is the parent of the oldest."""
    rows = []
    for number, (at, stamp) in enumerate(snapshots, 1):
        summary = {} if stamp is None else {_KEY: stamp.encode()}
        parent = number - 1 if number > 1 else first
        row = {"snapshot-id": number, "timestamp-ms": int(at * 1000), "summary": summary}
        rows.append(row if parent is None else row | {"parent-snapshot-id": parent})
    return {"snapshots": rows, "current-snapshot-id": len(rows) or -1}


@pytest.mark.parametrize(
    ("snapshots", "expected"),
    [
        ((), ()),
        (((950.0, _stamp(5, 5)),), ()),
        (((900.0, _stamp(5, 5)),), (5, 5)),
        (((1.0, _stamp(1, 2)), (899.0, _stamp(3, 4)), (901.0, _stamp(9, 9))), (3, 4)),
        # Others commit, too.
        (((1.0, _stamp(1, 2)), (899.0, None), (950.0, None)), (1, 2)),
        # A reset moved it back.
        (((1.0, _stamp(7, 2)), (950.0, _stamp(3, 5))), (3, 2)),
        # Another log.
        (((1.0, _stamp(7, 2, topic="U")), (950.0, _stamp(3, 5))), ()),
        (((1.0, _stamp(7, 2)), (950.0, _stamp(3, 5, source="kafka:L"))), ()),
    ],
)
def test_only_what_is_behind_the_stamp_and_the_keep_window(
    snapshots: tuple[tuple[float, Stamp | None], ...], expected: tuple[int, ...]
) -> None:
    assert trim_to(_metadata(*snapshots), _TABLE, 1000.0) == expected


def test_nothing_where_nobody_knows_what_is_in_the_table() -> None:
    """It was rolled back to before tiering began."""
    found = _metadata((1.0, None))
    found["properties"] = {_KEY: Mirror(77, _stamp(9, 9)).encode()}
    assert trim_to(found, _TABLE, 1000.0) == ()


def test_what_a_history_goes_on_with_stays() -> None:
    """A pipeline reads the rows of a snapshot, then the log from its stamp on, or that of the one below."""
    found = _metadata((1.0, _stamp(1, 2)), (2.0, None), (3.0, _stamp(5, 6)), (4.0, _stamp(8, 9)))
    assert trim_to(found, _TABLE, 1000.0) == (8, 9)
    found["refs"] = {"main": {"snapshot-id": 4}, "frazil-history.copy": {"snapshot-id": 2}}
    assert trim_to(found, _TABLE, 1000.0) == (1, 2)


@pytest.mark.parametrize("below", [77, None])
def test_nothing_where_nobody_knows_what_a_history_goes_on_with(
    below: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The stamp below the pinned snapshot expired, or there never was one."""
    found = _metadata((2.0, None), (3.0, _stamp(5, 6)), (4.0, _stamp(8, 9)), first=below)
    assert trim_to(found, _TABLE, 1000.0) == (8, 9)
    found["refs"] = {"main": {"snapshot-id": 3}, "frazil-history.copy": {"snapshot-id": 1}}
    assert trim_to(found, _TABLE, 1000.0) == ()
    assert "if it was given up, drop the tag" in caplog.text


@pytest.mark.parametrize(
    ("keep", "waits"),
    [
        # Longer than snapshots live by themselves.
        (36 * 3600.0, (120.0,)),
        # More commits within it than there may be snapshots.
        (3600.0, (1.0,)),
        # Bursts, and nothing for hours.
        (30 * 3600.0, (1.0,) * 50 + (8 * 3600.0,)),
    ],
)
def test_snapshots_expire_behind_the_keep_window(keep: float, waits: tuple[float, ...]) -> None:
    """The log is trimmed as if none ever did, and what was the head within the window is there to be read."""
    table = replace(_TABLE, keep=keep, expiry=True)
    times = list(itertools.accumulate(itertools.islice(itertools.cycle(waits), 6000), initial=1e6))
    # Others commit, too, as those who merge files.
    stamps = [None if number % 3 == 0 else _stamp(number, number) for number in range(1, 6001)]
    gone: set[int] = set()
    trimmed: tuple[int, ...] = ()
    for count in range(500, 6001, 500):
        now, newest = times[count], count - (count % 3 == 0)
        found = _metadata(*zip(times[:count], stamps[:count], strict=True))
        found["properties"] = {_KEY: Mirror(newest, _stamp(newest, newest)).encode()}
        left = found | {"snapshots": [one for one in found["snapshots"] if one["snapshot-id"] not in gone]}
        gone |= set(expiry_by(table.maintenance, left, now).expire)
        left["snapshots"] = [one for one in left["snapshots"] if one["snapshot-id"] not in gone]
        trimmed = trim_to(found, table, now)
        assert trim_to(left, table, now) == trimmed
        head = max(bisect.bisect_left(times, now - keep), 1)
        assert not gone & set(range(head, count + 1))
    assert gone
    assert trimmed


def test_a_topic_that_was_made_again_is_not_trimmed(world: World, caplog: pytest.LogCaptureFixture) -> None:
    table = world.table(bucket__num="1", frazil__hot__keep="1s")
    table.put(*range(5))
    world.once()
    load = world.client.tables.load
    wait_until(
        lambda: trim_to(load(table.hot.namespace, table.hot.name).metadata, table.hot, time.time()) == (5,),
        "the keep window is over",
    )
    remove(world.kafka, table.hot.topic)
    world.kafka.create_topic(table.hot.topic, partitions=1, config=SETTINGS)
    table.put(*range(10, 20))
    finder = Finder(world.client, world.settings, Watch())
    assert table.hot.binding in [one.binding for one in finder.newest.tables]
    finder.trim(finder.newest)
    topics = Topics(world.settings)
    view = topics.look(table.hot.topic)
    assert (view.beginnings[table.hot.topic], view.ends[table.hot.topic]) == ((0,), (10,))
    assert "was deleted and made again" in caplog.text
    # Not the table's: dropping it leaves it there.
    topics.delete(table.hot.topic)
