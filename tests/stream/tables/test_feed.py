"""Appends by another engine, followed snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.types import IntegerType
from tests.stream.tables.conftest import SCHEMA, Source, rows
from tests.stream.tables.follower import Follower

from frazil.core.errors import InvalidConfig, NoSuchTable, SourceChanged
from frazil.core.schema import Field, Schema
from frazil.stream.config.model import Limits

Follow = Callable[..., Follower]


def test_what_is_there_and_then_what_comes(source: Source, follow: Follow) -> None:
    source.append(1, 2)
    source.append(3)
    follower = follow()
    assert sorted(follower.ids()) == [1, 2, 3]
    assert follower.ids() == []
    source.append(4, 5)
    source.append(6)
    assert follower.ids() == [4, 5, 6]
    follower.feed = follower.restarted()
    assert follower.ids() == []
    source.append(7)
    assert follower.ids() == [7]
    assert follower.next == (source.head,)


def test_a_table_that_was_empty(source: Source, follow: Follow) -> None:
    follower = follow().claim()
    assert follower.next == (0,)
    assert follower.ids() == []
    source.append(1)
    source.append(2)
    assert follower.ids() == [1, 2]


def test_from_now_on(source: Source, follow: Follow) -> None:
    source.append(1)
    follower = follow(at="latest").claim()
    source.append(2)
    assert follower.ids() == [2]


def test_from_a_time_on(source: Source, follow: Follow) -> None:
    source.append(1)
    source.append(2)
    snapshots = source.table.snapshots()
    moment = datetime.fromtimestamp(snapshots[1].timestamp_ms / 1000, UTC)
    assert follow(at=moment).ids() == [2]
    assert follow(at=moment - timedelta(days=1)).ids() == [1, 2]
    assert follow(at=moment + timedelta(days=1)).ids() == []
    source.table.maintenance.expire_snapshots().by_id(snapshots[0].snapshot_id).commit()
    with pytest.raises(InvalidConfig, match="its snapshots go back to"):
        follow(at=moment - timedelta(days=1)).claim()
    with pytest.raises(InvalidConfig, match="use earliest, latest or a time"):
        follow(at={"t": (0,)}).claim()


def test_no_such_table(follow: Follow, source: Source) -> None:
    source.shelf.drop_table(("tables", source.name))
    with pytest.raises(NoSuchTable, match=source.name):
        follow().claim()


def test_rounds_take_whole_snapshots(source: Source, follow: Follow) -> None:
    follower = follow(limits=Limits(records_per_round=5)).claim()
    for ids in ([1, 2, 3], [4, 5], [6], [7, 8, 9, 10]):
        source.append(*ids)
    assert follower.plan().lag == 5
    assert follower.ids() == [1, 2, 3, 4, 5]
    assert follower.ids() == [6, 7, 8, 9, 10]
    assert follower.plan().lag == 0


def test_a_snapshot_that_is_larger_than_a_round(source: Source, follow: Follow) -> None:
    follower = follow(limits=Limits(records_per_round=5)).claim()
    first = source.append(0)
    written = source.table
    with written.transaction() as several, several.update_snapshot().fast_append() as one:
        for number in range(4):
            ids = range(10 * number + 10, 10 * number + 13)
            for file in _dataframe_to_data_files(written.metadata, rows(*ids), written.io):
                one.append_data_file(file)
    last = source.append(99)
    assert follower.ids() == [0]
    found: list[int] = []
    places, lags = [], []
    while not found or found[-1] != 99:
        follower.feed = follower.restarted()
        lags.append(follower.plan().lag)
        found += follower.ids()
        places.append(follower.next)
    assert sorted(found[:-1]) == [n for number in range(4) for n in range(10 * number + 10, 10 * number + 13)]
    (large,) = {place[2] for place in places[:-1]}
    assert places == [(first, 1, large), (first, 2, large), (first, 3, large), (last,)]
    assert lags == [10, 7, 4, 0]


def test_the_beginning_is_divided_as_well(source: Source, follow: Follow) -> None:
    for number in range(4):
        source.append(*range(3 * number, 3 * number + 3))
    began = source.head
    follower = follow(limits=Limits(records_per_round=5))
    goal = follower.feed.goal()
    found = []
    for number in range(4):
        plan = follower.plan()
        assert plan.lag == [9, 7, 4, 0][number]
        found += follower.ids()
        assert goal(follower.stamp, plan) == (number == 3)  # type: ignore[arg-type]
        source.append(100) if not number else None
    assert sorted(found) == [*range(12), 100]
    assert follower.next != (began,)


def test_tasks_share_the_rows_of_a_file(source: Source, follow: Follow) -> None:
    source.table.append(rows(*range(1000)))
    follower = follow(limits=Limits(records_per_task=100), parallelism=7)
    plan = follower.plan()
    assert [sum(map(len, task)) for task in plan.tasks] == [142, 143, 143, 143, 143, 143, 143]
    assert follower.ids() == list(range(1000))
    for batch in follower.batches:
        assert batch.rows is not None
        assert batch.offsets.to_pylist() == batch.rows["id"].to_pylist()
        assert batch.slice_start == batch.offsets[0].as_py()
        assert set(batch.timestamps.to_pylist()) == {source.table.current_snapshot().timestamp_ms}  # type: ignore[union-attr]
        assert batch.values.null_count == len(batch)


def test_columns_by_id(source: Source, follow: Follow) -> None:
    source.append(1)
    with source.table.update_schema() as change:
        change.rename_column("word", "text")
    with source.table.update_schema() as change:
        change.add_column("word", IntegerType())
    follower = follow()
    assert follower.feed.schema() == Schema(
        (Field("id", "long"), Field("text", "string"), Field("word", "int"))
    )
    table = pa.table({"id": pa.array([2], pa.int64()), "text": ["b"], "word": pa.array([7], pa.int32())})
    source.table.append(table)
    found = sorted(follower.round(), key=lambda row: row["id"])
    assert found == [{"id": 1, "text": "w1", "word": None}, {"id": 2, "text": "b", "word": 7}]


def test_a_bounded_run_ends(source: Source, follow: Follow) -> None:
    follower = follow().claim()
    source.append(1)
    goal = follower.feed.goal()
    source.append(2)
    follower.limits = Limits(records_per_round=1)
    plan = follower.plan()
    follower.round()
    assert follower.stamp is not None
    assert goal(follower.stamp, plan)


@pytest.mark.parametrize("way", ["overwrite", "delete"])
def test_what_takes_rows_away_stops_it(source: Source, follow: Follow, way: str) -> None:
    follower = follow().claim()
    source.append(1)
    source.append(2)
    if way == "overwrite":
        source.table.overwrite(rows(5), overwrite_filter="id = 1")
    else:
        source.table.delete("id = 1")
    removing = next(
        snapshot.snapshot_id
        for snapshot in source.table.snapshots()
        if snapshot.summary and snapshot.summary["deleted-data-files"]
    )
    source.append(3)
    assert follower.ids() == [1, 2]
    message = rf"snapshot {removing} of .* takes rows away \(deleted-data-files: 1, .*another name"
    for _ in range(2):
        with pytest.raises(SourceChanged, match=message):
            follower.plan()


def test_an_overwrite_that_takes_nothing_away(source: Source, follow: Follow) -> None:
    follower = follow().claim()
    source.append(1)
    with pytest.warns(UserWarning, match="did not match any"):
        source.table.overwrite(rows(5), overwrite_filter="id = 77")
    assert follower.ids() == [1, 5]


def test_a_rollback(source: Source, follow: Follow) -> None:
    one = source.append(1)
    source.append(2)
    follower = follow()
    follower.ids()
    source.table.manage_snapshots().rollback_to_snapshot(one).commit()
    with pytest.raises(SourceChanged, match="is not in main's history: the table was rolled back"):
        follower.plan()
    source.append(3)
    with pytest.raises(SourceChanged, match="is not in main's history: the table was rolled back"):
        follower.plan()


def test_a_rollback_of_what_was_not_read(source: Source, follow: Follow) -> None:
    one = source.append(1)
    follower = follow()
    follower.ids()
    source.append(2)
    source.table.manage_snapshots().rollback_to_snapshot(one).commit()
    assert follower.ids() == []
    source.append(3)
    assert follower.ids() == [3]


def test_expired_after_it_was_read(source: Source, follow: Follow) -> None:
    source.append(1)
    follower = follow()
    follower.ids()
    read = source.head
    source.append(2)
    source.table.maintenance.expire_snapshots().by_id(read).commit()
    assert follower.ids() == [2]


def test_expired_before_it_was_read(source: Source, follow: Follow) -> None:
    source.append(1)
    follower = follow()
    follower.ids()
    for number in (2, 3):
        expired = source.append(number)
    source.append(4)
    source.table.maintenance.expire_snapshots().by_id(expired).commit()
    with pytest.raises(SourceChanged, match=f"up to {expired} expired before they were read"):
        follower.plan()


def test_made_again(source: Source, follow: Follow) -> None:
    source.append(1)
    follower = follow()
    follower.ids()
    source.shelf.drop_table(("tables", source.name))
    with pytest.raises(SourceChanged, match="is gone"):
        follower.plan()
    source.shelf.create_table(("tables", source.name), SCHEMA)
    source.append(2)
    with pytest.raises(SourceChanged, match="dropped and made again"):
        follower.plan()
