"""When the caretaker works, and that nothing which can wait stops a pipeline."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.client.faulty import Fault, FaultyNetwork, Reply, Seen
from tests.lake.support import Reader, commit
from tests.maintenance.conftest import Claim

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter
from frazil.maintenance import Caretaker, Done, Maintenance, table_health
from frazil.maintenance import caretaker as module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEVER = Maintenance(merge_every=None, keep_snapshots=None)


class Refusing(FaultyNetwork):
    """Refuses the commits whose requests have `word` in them, as often as told."""

    word = b"remove-snapshots"
    left = 0

    def next_fault(self, seen: Seen) -> Fault | Reply:
        if seen.method == "POST" and self.word in seen.body and self.left:
            self.left -= 1
            body = b'{"error": {"message": "busy", "type": "ServiceUnavailableException", "code": 503}}'
            return Reply(503, body, {"Content-Type": "application/json"})
        return Fault.PASS


@pytest.fixture
def network(frazil_sqlite: FrazilServer) -> Iterator[Refusing]:
    with Refusing(frazil_sqlite.port) as between:
        yield between


def work(writer: PipelineWriter, caretaker: Caretaker, commits: int) -> list[Done]:
    """Commits of one row each; what the caretaker did meanwhile."""
    done = []
    for _ in range(commits):
        commit(writer, [writer.stamp.written])
        found = caretaker.committed(writer.table)
        if found is not None:
            done.append(found)
    return done


def test_merges_are_counted_in_the_history(
    spark: SparkSession, lake: Lake, reader: Reader, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = claim("orders")
    assert work(writer, Caretaker(spark, lake, NEVER), 8) == []
    config = Maintenance(merge_every=10, keep_snapshots=None)
    assert work(writer, Caretaker(spark, lake, config), 1) == []
    # Another process, another caretaker: what it did not see it counts in the table.
    third = Caretaker(spark, lake, config)
    [done] = work(writer, third, 1)
    assert done.merged is not None
    assert (done.merged.files, done.merged.into, done.failures) == (10, 1, ())
    assert "10 small files became 1" in str(done)
    assert work(writer, third, 9) == []
    # What another one merged needs no second merge.
    assert work(writer, Caretaker(spark, lake, config), 1)
    assert work(writer, third, 9) == []
    # A run takes no more than it may; it comes again for the rest before others are due.
    monkeypatch.setattr(module, "_FILES_PER_RUN", 6)
    first, second, *_ = work(writer, third, 4)
    assert first.merged is not None
    assert second.merged is not None
    assert first.merged.files == 6
    assert second.merged.files > 1
    reader.check("orders", list(range(writer.stamp.written)))


def test_only_what_is_small_is_merged(spark: SparkSession, lake: Lake, claim: Claim) -> None:
    writer = claim("orders")
    large = Caretaker(spark, lake, Maintenance(merge_every=5, keep_snapshots=None), file_size=500)
    assert work(writer, large, 7) == []


def test_metadata_documents_are_trimmed(
    spark: SparkSession, lake: Lake, client: Client, table: LakeTable, claim: Claim
) -> None:
    writer = claim("orders")
    keeper = Caretaker(spark, lake, Maintenance(merge_every=None))
    [done] = work(writer, keeper, 25)
    assert (done.trimmed, done.merged, done.kept, done.failures) == (True, None, None, ())
    found = client.tables.load(table.namespace, table.name).metadata
    assert found["properties"]["write.metadata.delete-after-commit.enabled"] == "true"
    assert table_health(found).metadata_versions == 20
    # Whoever says otherwise is heard.
    writer.table.java.updateProperties().set("write.metadata.delete-after-commit.enabled", "false").commit()
    assert work(writer, Caretaker(spark, lake, Maintenance(merge_every=None)), 1) == []
    found = client.tables.load(table.namespace, table.name).metadata
    assert found["properties"]["write.metadata.delete-after-commit.enabled"] == "false"


def test_what_fails_is_tried_again(
    spark: SparkSession,
    claim: Claim,
    reader: Reader,
    network: Refusing,
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = claim("orders")
    for _ in range(60):
        commit(writer, [writer.stamp.written])
    with Client(network.uri) as client:
        between = Lake(spark, client)
        config = Maintenance(merge_every=30, keep_snapshots=3600)
        keeper = Caretaker(spark, between, config, clock=lambda: time.time() + 7200)
        network.left = 10
        [done] = work(writer, keeper, 1)
        # The merge is done in spite of it.
        assert done.merged is not None
        assert done.merged.files == 61
        assert (done.expired, done.kept) == (0, None)
        assert "expiring snapshots" in done.failures[0]
        assert "to be tried again" in caplog.text
        assert table_health(reader.metadata()).snapshots == 63
        network.left = 0
        assert work(writer, keeper, 9) == []
        [done] = work(writer, keeper, 1)
        assert (done.expired, done.failures) == (63, ())
        between.close()
    assert table_health(reader.metadata()).snapshots == 10
    assert reader.check("orders", list(range(71))) == writer.stamp


def test_what_fails_waits_alone_and_longer_each_time() -> None:
    state = module._State(commits=100, look_at=120)
    waits = []
    for _ in range(9):
        state.settle("expire", ok=False)
        waits.append(state.failed["expire"][1] - state.commits)
    assert waits == [10, 20, 40, 80, 160, 320, 640, 640, 640]
    assert (state.ready("merge"), state.ready("expire"), state.look_at) == (True, False, 110)
    state.commits += 640
    assert state.ready("expire")
    state.settle("expire", ok=True)
    assert state.failed == {}


def test_a_catalog_that_is_down(
    spark: SparkSession, claim: Claim, network: Refusing, caplog: pytest.LogCaptureFixture
) -> None:
    writer = claim("orders")
    for number in range(5):
        commit(writer, [number])
    client = Client(network.uri)
    between = Lake(spark, client)
    keeper = Caretaker(spark, between, Maintenance(merge_every=5))
    network.__exit__()
    [done] = work(writer, keeper, 1)
    assert "loading the table" in done.failures[0]
    assert done.merged is None
    assert "loading the table" in caplog.text
    client.close()


def test_who_keeps_history_is_told(
    spark: SparkSession,
    lake: Lake,
    claim: Claim,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MANY_PINNED", 5)
    claim("idle")
    writer = claim("orders")
    for _ in range(16):
        commit(writer, [writer.stamp.written])
    config = Maintenance(merge_every=None, keep_snapshots=3600)
    keeper = Caretaker(spark, lake, config, clock=lambda: time.time() + 7200)
    with caplog.at_level(logging.WARNING):
        assert work(writer, keeper, 1) == []
    assert "pipeline idle, which has not written for long, keeps 9 snapshots" in caplog.text


def test_one_at_a_time(spark: SparkSession, lake: Lake, claim: Claim) -> None:
    """Pipelines of a process share its Spark; whose turn it is not tries again at the next commit."""
    writer = claim("orders")
    for number in range(6):
        commit(writer, [number])
    keeper = Caretaker(spark, lake, Maintenance(merge_every=5))
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with module._turn:
            held.set()
            release.wait(60)

    rival = threading.Thread(target=hold)
    rival.start()
    held.wait(60)
    assert work(writer, keeper, 1) == []
    release.set()
    rival.join()
    [done] = work(writer, keeper, 1)
    assert done.merged is not None
