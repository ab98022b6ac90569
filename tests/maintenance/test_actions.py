"""Merging and expiring on real tables: no row, no stamp and no file that somebody needs is lost."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog import load_catalog
from tests.lake.conftest import SCHEMA
from tests.lake.support import Reader, commit, first, foreign_append, local
from tests.maintenance.conftest import Claim
from tests.maintenance.support import SIZE, land, plan_of

from frazil.client import Client
from frazil.core.errors import Conflict, InvalidInput
from frazil.core.partitioning import parse_partitioning
from frazil.core.stamp import stamp_tag
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.catalog import Lake
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter
from frazil.maintenance import table_health
from frazil.maintenance.actions import expire, merge_files, merge_manifests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Commits during each merge: one fewer than Iceberg tries again. With any number of them, it would be left to
#: the machine whether a merge ever gets its turn.
_RIVALS = 3


def for_jobs(table: LakeTable) -> LakeTable:
    return table.lake.load_for_jobs(table.namespace, table.name)


def on_disk(table: LakeTable) -> set[str]:
    found: set[Path] = set(local(table.data_location).rglob("*.parquet"))
    return {str(path) for path in found}


def test_merged_and_expired(spark: SparkSession, table: LakeTable, reader: Reader, claim: Claim) -> None:
    writer = claim("orders")
    for number in range(12):
        commit(writer, [number])
    foreign = foreign_append(table, [100])
    own = for_jobs(table)
    found = merge_files(spark, own, SIZE, 8)
    assert (found.files, found.into, found.failed) == (8, 1, 0)
    own.refresh()
    # No stamp of anybody: it is found below.
    merging = own.snapshot(own.head or 0)
    assert merging is not None
    assert (merging.parent_id, dict(merging.summary)) == (foreign, {})
    expected = [*range(12), 100]
    assert reader.check("orders", expected) == writer.stamp
    health = table_health(reader.metadata())
    assert (health.files, health.records, health.small_files) == (6, 13, 0)
    commit(writer, [12])
    expired = plan_of(own).expire
    assert len(expired) == 6
    expire(own, expired)
    commit(writer, [13])
    assert reader.check("orders", [*expected, 12, 13]) == writer.stamp
    assert table_health(reader.metadata()).snapshots == 11
    # Files go when the last snapshot that has them goes, and only then.
    for _ in range(10):
        commit(writer, [])
    expire(own, plan_of(own).expire)
    assert {str(local(path)) for path in reader.all_files()} == on_disk(table)
    assert len(on_disk(table)) == 8
    again = claim("orders")
    assert again.stamp.positions == writer.stamp.positions
    assert remove_leftovers(again).removed == ()
    reader.check("orders", [*expected, 12, 13])


def test_merged_by_a_thread_that_made_no_frame(spark: SparkSession, table: LakeTable, claim: Claim) -> None:
    """As those of pipelines: theirs are jobs without frames, and so Spark knows of no session there."""
    writer = claim("orders")
    for number in range(6):
        commit(writer, [number])
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(merge_files, spark, for_jobs(table), SIZE, 100).result()
    assert (found.files, found.into, found.failed) == (6, 1, 0)


def test_large_files_stay_as_they_are(spark: SparkSession, table: LakeTable, claim: Claim) -> None:
    writer = claim("orders")
    for number in range(6):
        commit(writer, [number])
    own = for_jobs(table)
    # Neither small nor, as Iceberg would have it, too large.
    assert merge_files(spark, own, 300, 100).files == 0
    assert merge_files(spark, own, SIZE, 100).files == 6


def test_an_idle_pipeline_on_a_busy_table(table: LakeTable, reader: Reader, claim: Claim) -> None:
    # By the age of its own, Iceberg would expire all but the head.
    table.java.updateProperties().set("history.expire.max-snapshot-age-ms", "1").commit()
    for _ in range(5):
        foreign_append(table, [0])
    idle = claim("idle")
    commit(idle, [1])
    busy = claim("busy")
    for number in range(20):
        commit(busy, [number])
    own = for_jobs(table)
    found = plan_of(own)
    assert found.pins == {"pipeline idle": 22 - 10}
    assert len(found.expire) == 6
    expire(own, found.expire)
    assert reader.stamp("idle") == idle.stamp
    assert reader.stamp("busy") == busy.stamp
    assert claim("idle").stamp.positions == idle.stamp.positions
    # It wrote: now the others can go, and a writer that is at work does not notice.
    expire(own, plan_of(own).expire)
    commit(busy, [20])
    assert table_health(reader.metadata()).snapshots == 11
    assert reader.ids() == sorted([*[0] * 5, 1, *range(21)])


def test_a_branch_with_a_retention_of_its_own(table: LakeTable, reader: Reader, claim: Claim) -> None:
    """Iceberg would expire main's line by it, stamps included."""
    idle = claim("idle")
    for number in range(15):
        foreign_append(table, [number])
    table.refresh()
    table.java.manageSnapshots().setMaxSnapshotAgeMs("main", 1).setMinSnapshotsToKeep("main", 2).commit()
    with pytest.raises(Conflict, match="max-snapshot-age-ms"):
        expire(for_jobs(table), [])
    assert reader.stamp("idle") == idle.stamp
    assert len(reader.metadata()["snapshots"]) == 16


def test_what_refs_name_is_refused_by_iceberg_as_well(table: LakeTable, claim: Claim) -> None:
    writer = claim("orders")
    for number in range(3):
        foreign_append(table, [number])
    with pytest.raises(InvalidInput, match=stamp_tag("orders")):
        expire(for_jobs(table), [writer.snapshot_id])


def test_commits_during_a_merge(spark: SparkSession, table: LakeTable, reader: Reader, claim: Claim) -> None:
    writer, rounds, failed = claim("orders"), 30, []
    for number in range(rounds):
        commit(writer, [number])

    def go_on() -> None:
        nonlocal rounds
        try:
            for _ in range(_RIVALS):
                commit(writer, [rounds])
                rounds += 1
                time.sleep(0.2)
        except BaseException as error:  # noqa: BLE001 - told in the test's own thread
            failed.append(error)

    own, merged = for_jobs(table), []
    for _ in range(3):
        rival = threading.Thread(target=go_on)
        rival.start()
        try:
            merged.append(merge_files(spark, own, SIZE, 1000))
        finally:
            rival.join()
    assert failed == []
    assert sum(found.files for found in merged) >= 30
    assert [found.failed for found in merged] == [0, 0, 0]
    assert reader.check("orders", list(range(rounds))) == writer.stamp
    assert {row["summary"]["operation"] for row in reader.metadata()["snapshots"]} == {"append", "replace"}


def test_manifests(spark: SparkSession, table: LakeTable, reader: Reader, claim: Claim) -> None:
    writer = claim("orders")
    for number in range(6):
        commit(writer, [number])
    before = table_health(reader.metadata()).manifests or 0
    assert before > 1
    assert merge_manifests(spark, for_jobs(table)) == before
    health = table_health(reader.metadata())
    # It merged no data files, and does not count as if it had.
    assert (health.manifests, health.commits_since_merge) == (1, 6)
    reader.check("orders", list(range(6)))


def test_on_s3_with_vended_keys(
    spark: SparkSession, frazil_sqlite: FrazilServer, object_store: ObjectStore
) -> None:
    place, credential = object_store.warehouse_storage("maintained", "wh")
    with Client(frazil_sqlite.uri) as admin:
        admin.warehouses.create("maintained", place, credential)
    with Client(frazil_sqlite.uri, warehouse="maintained") as client:
        lake = Lake(spark, client)
        table = lake.create(("kept",), "t", SCHEMA, parse_partitioning(["bucket(2, id)"]))
        writer = PipelineWriter.claim(lake, table, "orders", first, "config")
        for number in range(8):
            land(writer, list(range(10 * number, 10 * number + 10)))
        own = for_jobs(table)
        found = merge_files(spark, own, SIZE, 1000)
        assert (found.files, found.into, found.failed) == (16, 2, 0)
        for _ in range(10):
            commit(writer, [])
        expire(own, plan_of(own).expire)
        assert len(list(table.storage().list(f"{table.data_location}/"))) == 2
        lake.close()
    catalog = load_catalog("s3", type="rest", uri=frazil_sqlite.catalog_uri, warehouse="maintained")
    rows = catalog.load_table(("kept", "t")).scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(80))
