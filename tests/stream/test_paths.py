"""Rows by the fused path and through Spark: what lands, and what a mistake leaves behind."""

from __future__ import annotations

import itertools
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.stream.world import SCHEMA, Seen, World, record, records

import frazil
from frazil.client import Client
from frazil.core.errors import BadRecord, InvalidConfig, InvalidInput, Unavailable
from frazil.devstack.seaweed import ObjectStore
from frazil.stream.events import Claimed, Event, RoundCommitted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_numbers = itertools.count(1)


def doubled(df: DataFrame) -> DataFrame:
    return df.unionAll(df.selectExpr("id + 1000 AS id", "word", "at", "ref")).where("id % 2 = 0")


def test_the_two_paths_land_the_same_rows(world: World) -> None:
    topic = world.topic(records(300))
    world.run(
        world.pipeline(topic, "fused", name="fused", partitioning=["day(at)", "word"]),
        world.pipeline(
            topic,
            "spark",
            name="spark",
            partitioning=["day(at)", "bucket(4, id)"],
            transform="SELECT * FROM source",
        ),
    )
    fused, through_spark = world.rows("fused"), world.rows("spark")
    assert [row["id"] for row in fused] == list(range(300))
    assert fused[5]["ref"] == uuid.UUID(int=5)
    # Spark has no UUIDs: the table that was made for its rows has texts.
    assert [row | {"ref": str(row["ref"])} for row in fused] == through_spark


def test_what_spark_gives_as_text_fits_a_table_of_uuids(world: World) -> None:
    topic = world.topic(records(10))
    world.run(world.pipeline(topic, "uuids", name="first"))
    more = world.topic(records(4))
    world.run(
        world.pipeline(
            more, "uuids", name="second", transform="SELECT id + 100 AS id, word, at, ref FROM source"
        )
    )
    rows = world.rows("uuids")
    assert [row["id"] for row in rows] == [*range(10), 100, 101, 102, 103]
    assert rows[-1]["ref"] == uuid.UUID(int=3)


def test_a_python_function_may_make_more_and_fewer_rows(world: World) -> None:
    topic = world.topic(records(20))
    world.run(world.pipeline(topic, "function", transform=doubled))
    assert [row["id"] for row in world.rows("function")] == [*range(0, 20, 2), *range(1000, 1020, 2)]
    (committed,) = [event for event in world.seen.events if isinstance(event, RoundCommitted)]
    # Read twice by Spark, counted once.
    assert (committed.read, committed.written) == (20, 20)


def test_sql_sees_the_tables_of_the_catalog(world: World) -> None:
    world.run(world.pipeline(world.topic(records(7)), "words"))
    topic = world.topic([record(3), record(500)])
    joined = "SELECT s.id, w.id AS first FROM source s JOIN lake.paths.words w ON s.word = w.word"
    world.run(world.pipeline(topic, "joined", transform=joined))
    assert world.rows("joined") == [{"id": 3, "first": 3}, {"id": 500, "first": 500 % 7}]


def test_tasks_write_with_vended_keys_that_nothing_shows(
    world: World, object_store: ObjectStore, capfd: pytest.CaptureFixture[str]
) -> None:
    profile, credential = object_store.warehouse_storage(f"paths-{next(_numbers)}", "warehouse")
    with Client(world.server.uri) as client:
        client.warehouses.create("paths-s3", profile, credential)
    world.warehouse = "paths-s3"
    topic = world.topic(records(50))
    world.run(
        world.pipeline(topic, "fused", name="fused"),
        world.pipeline(topic, "spark", name="spark", transform="SELECT id, word FROM source"),
    )
    assert len(world.rows("fused")) == len(world.rows("spark")) == 50
    secret = object_store.catalog.secret
    settings = world.spark.sparkContext.getConf().getAll()
    assert secret not in "".join(capfd.readouterr()) + str(settings) + str(world.seen)


@pytest.mark.parametrize("transform", [None, "SELECT * FROM source"], ids=["fused", "spark"])
def test_what_is_before_a_bad_record_lands_and_then_the_pipeline_stops(
    world: World, transform: str | None
) -> None:
    topic = world.topic(records(10), partitions=1)
    table = f"bad_{'spark' if transform else 'fused'}"
    pipeline = world.pipeline(topic, table, transform=transform, dead_letters="stop")
    world.run(pipeline)
    world.produce(topic, [record(10), {"id": "eleven"}, record(12)], partitions=1)
    with pytest.raises(BadRecord, match=f"topic {topic}, partition 0, offset 11") as found:
        world.run(pipeline)
    assert "eleven" in found.value.message
    assert [row["id"] for row in world.rows(table)] == list(range(11))
    before = world.snapshots(table)
    with pytest.raises(BadRecord, match="offset 11"):
        world.run(pipeline)
    # Only the claim: there is nothing before the record any more.
    assert len(world.snapshots(table)) == len(before) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": {"id": "string"}}, "'id' is long in the table, string in the rows"),
        ({"schema": {**SCHEMA, "more": "int"}}, "the table has no column 'more'"),
        ({"transform": "SELECT word FROM source"}, "the table requires 'id'"),
        ({"transform": "SELECT nothing FROM source"}, "the transform does not fit the source"),
        ({"transform": lambda df: 7}, "gave int; it takes a DataFrame"),
        (
            {"transform": "SELECT id FROM source", "schema": {"id": "long", "refs": "list<uuid>"}},
            "'refs' has uuid or fixed inside",
        ),
        ({"transform": "SELECT FROM FROM source"}, "the transform does not fit the source"),
        (
            {"transform": "WITH s AS (FROM source) INSERT INTO lake.paths.fused SELECT * FROM s"},
            "a command, not a query",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    world: World, change: dict[str, Any], message: str
) -> None:
    topic = world.topic(records(3))
    table = f"fits_{next(_numbers)}"
    world.run(world.pipeline(topic, table, name="good"))
    before = world.snapshots(table)
    with pytest.raises(InvalidConfig, match=message):
        world.run(world.pipeline(topic, table, name="wrong", **change))
    assert world.snapshots(table) == before


def test_a_text_that_is_no_uuid_is_refused_where_the_table_wants_one(world: World) -> None:
    world.run(world.pipeline(world.topic(records(3)), "strict"))
    wrong = world.pipeline(
        world.topic(records(1)), "strict", transform="SELECT id, word, at, 'x' AS ref FROM source"
    )
    with pytest.raises(InvalidInput, match="no UUID"):
        world.run(wrong)
    assert len(world.rows("strict")) == 3


def test_a_wrong_transform_makes_no_table(world: World) -> None:
    with pytest.raises(InvalidConfig, match="the transform does not fit"):
        world.run(world.pipeline(world.topic(), "never", transform="SELECT nope FROM source"))
    assert not world.exists("never")


def test_a_column_that_somebody_added_stays_empty_and_is_no_hindrance(world: World) -> None:
    topic = world.topic(records(3))
    pipeline = world.pipeline(topic, "wider")
    world.run(pipeline)
    world.spark.sql("ALTER TABLE frazil.paths.wider ADD COLUMN note string")
    world.produce(topic, [record(3)])
    world.run(pipeline)
    rows = world.rows("wider")
    assert [row["id"] for row in rows] == [0, 1, 2, 3]
    assert {row["note"] for row in rows} == {None}


def test_bad_records_in_several_partitions_hold_back_only_what_is_behind_them(world: World) -> None:
    good = records(12)
    topic = world.topic([*good[:6], b"{", b"[", *good[6:]], partitions=2)
    with pytest.raises(BadRecord, match="offset 3"):
        world.run(world.pipeline(topic, "halves", limits={"records_per_task": 2}, dead_letters="stop"))
    assert [row["id"] for row in world.rows("halves")] == list(range(6))


def test_one_pipeline_that_fails_does_not_stop_the_others(world: World) -> None:
    good, bad = world.topic(records(5)), world.topic([b"{"])
    with pytest.raises(BadRecord):
        world.run(
            world.pipeline(bad, "broken", name="broken", dead_letters="stop"),
            world.pipeline(good, "healthy", name="healthy"),
        )
    assert len(world.rows("healthy")) == 5


def test_two_pipelines_fill_one_table(world: World) -> None:
    first, second = world.topic(records(5)), world.topic([record(n) for n in range(5, 9)])
    world.run(world.pipeline(first, "shared", name="one"), world.pipeline(second, "shared", name="two"))
    assert [row["id"] for row in world.rows("shared")] == list(range(9))
    created = [event.created_table for event in world.seen.events if isinstance(event, Claimed)]
    assert sorted(created) == [False, True]


def test_the_watermark_is_what_all_partitions_have_reached(world: World) -> None:
    late, early = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
    topic = world.topic([{"id": 1, "at": late}, {"id": 2, "at": early}])
    world.run(world.pipeline(topic, "marked", event_time="at"))
    summary = world.snapshots("marked")[-1]["summary"]
    stamp = json.loads(summary[f"frazil.stamp.p-{topic}"])
    assert stamp["watermark"] == 1_767_225_600_000_000
    assert stamp["read"] == stamp["written"] == 2
    # Earlier rows may still come.
    with Client(world.server.uri) as client:
        assert frazil.complete_until("paths.marked", f"p-{topic}", client=client) is None


@dataclass
class Renaming(Seen):
    """Changes the table after the first commit of data."""

    world: World | None = None

    def notify(self, event: Event) -> None:
        if isinstance(event, RoundCommitted) and self.world is not None:
            self.world.spark.sql("ALTER TABLE frazil.paths.renamed RENAME COLUMN word TO said")
            self.world = None
        super().notify(event)


def test_a_column_renamed_while_the_pipeline_runs(world: World) -> None:
    """Its values have no place any more: that is refused, not written as nulls."""
    topic = world.topic(records(4), partitions=1)
    world.seen = Renaming(world=world)
    pipeline = world.pipeline(topic, "renamed", limits={"records_per_round": 2, "records_per_task": 2})
    with pytest.raises(InvalidConfig, match="the table has no column 'word'"):
        world.run(pipeline)
    assert [row["said"] for row in world.rows("renamed")] == ["w0", "w1"]


@dataclass
class Failing(Seen):
    """An observer that asks something which is down, when told of the first commit."""

    failed: bool = False

    def notify(self, event: Event) -> None:
        super().notify(event)
        if isinstance(event, RoundCommitted) and not self.failed:
            self.failed = True
            raise Unavailable("the observer's own trouble")


def test_an_observer_that_fails_does_not_undo_what_landed(world: World) -> None:
    """The files of that round are the table's: the next round must not take them for left over."""
    world.seen = Failing()
    topic = world.topic(records(4), partitions=1)
    world.run(world.pipeline(topic, "observed", limits={"records_per_round": 2, "records_per_task": 2}))
    assert [row["id"] for row in world.rows("observed")] == [0, 1, 2, 3]
