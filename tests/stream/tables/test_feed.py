"""Appends by another engine, followed snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from time import sleep

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.types import IntegerType
from tests.stream.tables.conftest import SCHEMA, Source, rows
from tests.stream.tables.follower import Follower

from frazil.client import Client
from frazil.core.errors import InvalidConfig, NoSuchTable, SourceChanged, StorageError
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.changelog import read_changes
from frazil.stream.config.model import Limits

Follow = Callable[..., Follower]


def append_files(source: Source, *files: list[int]) -> None:
    """Several files in one snapshot."""
    table = source.table
    with table.transaction() as several, several.update_snapshot().fast_append() as one:
        for ids in files:
            for file in _dataframe_to_data_files(table.metadata, rows(*ids), table.io):
                one.append_data_file(file)


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


def test_the_parent_expires_while_files_of_a_commit_are_taken(source: Source, follow: Follow) -> None:
    parent = source.append(0)
    limits = Limits(records_per_round=1, records_per_task=1)
    follower = follow(changes=True, at="latest", limits=limits).claim()
    append_files(source, *([number] for number in range(1, 9)))
    taken = [*follower.ids(), *follower.ids()]
    source.table.maintenance.expire_snapshots().by_id(parent).commit()
    while found := follower.ids():
        taken += found
    assert sorted(taken) == list(range(1, 9))


def test_from_a_time_before_main_was_moved_to_a_branch(source: Source, follow: Follow) -> None:
    source.append(1)
    source.table.manage_snapshots().create_branch(source.head, "audit").commit()
    source.table.append(rows(2), branch="audit")
    made = source.table.snapshot_by_name("audit")
    assert made is not None
    moment = datetime.fromtimestamp(made.timestamp_ms / 1000, UTC) + timedelta(milliseconds=20)
    sleep(0.05)
    source.table.manage_snapshots().set_current_snapshot(ref_name="audit").commit()
    assert follow(at=moment).ids() == [2]


def test_renamed_columns_of_files_that_were_not_written_for_it(
    source: Source, follow: Follow, tmp_path: Path
) -> None:
    pq.write_table(rows(1), tmp_path / "rows.parquet")
    source.table.add_files([(tmp_path / "rows.parquet").as_uri()])
    with source.table.update_schema() as change:
        change.rename_column("word", "text")
    assert follow().round() == [{"id": 1, "text": "w1"}]


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
    append_files(source, *([*range(10 * number + 10, 10 * number + 13)] for number in range(4)))
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


def test_a_bounded_run_reads_the_beginning_to_its_end(source: Source, follow: Follow) -> None:
    """Also where the table grew between the question and the claim."""
    source.append(1)
    follower = follow(limits=Limits(records_per_round=1))
    goal = follower.feed.goal()
    source.append(2)
    for more in (True, False):
        plan = follower.plan()
        follower.round()
        assert follower.stamp is not None
        assert goal(follower.stamp, plan) != more


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


def test_a_rollback_in_the_middle_of_a_snapshot(source: Source, follow: Follow) -> None:
    """Other files would be counted as those that were taken."""
    one = source.append(1)
    follower = follow(limits=Limits(records_per_round=3))
    follower.ids()
    append_files(source, [10, 11], [12, 13])
    assert len(follower.ids()) == 2
    assert len(follower.next) == 3
    source.table.manage_snapshots().rollback_to_snapshot(one).commit()
    append_files(source, [20, 21], [22, 23])
    with pytest.raises(
        SourceChanged, match=r"a part of snapshot .* was read, and it is not in main's history"
    ):
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


def test_expired_in_the_middle_of_the_beginning(source: Source, follow: Follow) -> None:
    source.append(1)
    began = source.append(2)
    follower = follow(limits=Limits(records_per_round=1))
    follower.ids()
    source.append(3)
    source.table.maintenance.expire_snapshots().by_id(began).commit()
    with pytest.raises(SourceChanged, match=f"snapshot {began} expired before all of it was read"):
        follower.plan()


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


def test_another_table(source: Source, follow: Follow, shelf: Catalog) -> None:
    source.append(1)
    follower = follow().claim()
    other = Source(shelf, f"{source.name}_other", SCHEMA)
    other.append(2)
    follower.name = other.name
    follower.feed = follower.restarted()
    with pytest.raises(SourceChanged, match=f"what was read is tables.{source.name} with the id"):
        follower.plan()


def test_a_manifest_that_is_none(source: Source, follow: Follow) -> None:
    source.append(1)
    follower = follow().claim()
    snapshot = source.table.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).write_bytes(b"Obj\x01damaged")
    with pytest.raises(StorageError, match=f"{snapshot.manifest_list}: no manifest of Iceberg"):
        follower.plan()


def test_tables_in_a_bucket_are_read_with_vended_keys(
    frazil_sqlite: FrazilServer, object_store: ObjectStore
) -> None:
    place, credential = object_store.warehouse_storage("table-source", "table-source")
    with Client(frazil_sqlite.uri) as client:
        client.warehouses.create("table-source", place, credential)
    with Client(frazil_sqlite.uri, warehouse="table-source") as client:
        client.namespaces.create("tables")
        shelf = load_catalog("s3", type="rest", uri=frazil_sqlite.catalog_uri, warehouse="table-source")
        source = Source(shelf, "far", SCHEMA)
        source.append(1, 2)
        follower = Follower(client, "far")
        assert follower.ids() == [1, 2]
        source.append(3)
        assert follower.ids() == [3]
        source.table.delete("id = 2")
        changes = [row for batch in read_changes(client, "tables.far") for row in batch.to_pylist()]
        assert [(row["_change_type"], row["id"]) for row in changes] == [
            ("INSERT", 1),
            ("INSERT", 2),
            ("INSERT", 3),
            ("DELETE", 2),
        ]
        assert follower.stamp is not None
        reader = follower.feed.reader(follower.stamp)
        keys = reader.places[0].keys
        assert keys is not None
        assert keys.config["s3.secret-access-key"] not in repr(reader)
        # The keys are for reading.
        with pytest.raises(StorageError, match="refused"):
            reader.places[0].storage().open_output(f"{reader.places[0].location}/data/x").close()


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


def test_changes_of_all_types(shelf: Catalog, client: Client) -> None:
    """What Spark has no word for, too."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("key", pa.uuid()),
            pa.field("code", pa.binary(4)),
            pa.field("at", pa.time64("us")),
            pa.field("places", pa.list_(pa.struct([("code", pa.binary(2))]))),
        ]
    )
    source = Source(shelf, "types", schema)
    found = [
        {"id": 1, "key": b"k" * 16, "code": b"code", "at": time(1), "places": [{"code": b"pp"}]},
        {"id": 2},
    ]
    source.table.append(pa.Table.from_pylist(found, schema))
    follower = Follower(client, source.name, changes=True)
    source.table.delete("id = 1")
    assert [row["id"] for row in follower.round()] == [2]
    source.table.append(pa.Table.from_pylist(found[:1], schema))
    source.table.delete("id = 1")
    came, went = follower.round()
    assert (came["_change_type"], went["_change_type"]) == ("INSERT", "DELETE")
    assert came["key"] == went["key"] == b"k" * 16
    assert came["places"] == went["places"] == [{"code": b"pp"}]
    assert (came["code"], came["at"]) == (b"code", time(1))
