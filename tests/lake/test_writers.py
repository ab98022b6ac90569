"""Claims and commits on a real catalog; rivals, rollbacks, expiry, tables changed from outside."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.lake.conftest import SCHEMA
from tests.lake.support import Reader, at, commit, first, foreign_append, write_file

from frazil.client import Client
from frazil.core.errors import HistoryChanged, NoSuchTable, Superseded, Unsupported
from frazil.core.stamp import stamp_tag
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

P = "orders"


def claim(table: LakeTable, pipeline: str = P) -> PipelineWriter:
    """A writer with a table object of its own."""
    own = table.lake.load(table.namespace, table.name)
    return PipelineWriter.claim(own.lake, own, pipeline, first, "")


def never() -> Any:
    raise AssertionError("the pipeline ran before")


def roll_back(table: LakeTable, snapshot: int) -> None:
    other = table.lake.load(table.namespace, table.name)
    other.java.manageSnapshots().rollbackTo(snapshot).commit()


def expire(table: LakeTable, *, untag: str | None = None) -> None:
    """All but the newest snapshot, as any engine would."""
    other = table.lake.load(table.namespace, table.name)
    if untag is not None:
        other.java.manageSnapshots().removeTag(stamp_tag(untag)).commit()
    other.java.expireSnapshots().expireOlderThan(2**53).retainLast(1).commit()


def test_a_claim_on_an_empty_table(lake: Lake, table: LakeTable, reader: Reader) -> None:
    writer = PipelineWriter.claim(lake, table, P, first, "c0ffee")
    stamp = reader.check(P, [])
    assert stamp == writer.stamp
    assert (stamp.epoch, stamp.round, stamp.positions, stamp.config) == (1, 0, at(0), "c0ffee")
    assert len(reader.metadata()["snapshots"]) == 1


def test_rounds(lake: Lake, table: LakeTable, reader: Reader) -> None:
    writer = PipelineWriter.claim(lake, table, P, first, "")
    commit(writer, [1, 2])
    commit(writer, [])
    stamp = commit(writer, [3])
    assert reader.check(P, [1, 2, 3]) == stamp == writer.stamp
    assert (stamp.round, stamp.positions, stamp.read) == (3, at(3), 3)
    again = PipelineWriter.claim(lake, table, P, never, "other")
    assert (again.stamp.epoch, again.stamp.round, again.stamp.positions) == (2, 0, at(3))
    assert (again.stamp.read, again.stamp.written, again.stamp.config) == (3, 3, "other")


def test_a_watermark_does_not_go_back(table: LakeTable) -> None:
    writer = claim(table)
    seen = []
    for watermark in (None, 5, 3, None, 9):
        stamp = writer.commit(writer.begin(), {}, positions=at(0), read=0, written=0, watermark=watermark)
        seen.append(stamp.watermark)
    assert seen == [None, 5, 5, 5, 9]


def test_a_table_with_rows_of_others(table: LakeTable, reader: Reader) -> None:
    foreign_append(table, [100])
    writer = claim(table)
    commit(writer, [1])
    foreign_append(table, [101])
    ticket = writer.begin()
    foreign_append(table, [102])
    commit(writer, [2], ticket)
    reader.check(P, [1, 2, 100, 101, 102])


def test_two_pipelines_on_one_table(table: LakeTable, reader: Reader) -> None:
    one, two = claim(table), claim(table, "clicks")
    for number in range(3):
        commit(one, [number])
        commit(two, [10 + number])
    ids = [0, 1, 2, 10, 11, 12]
    assert (reader.check(P, ids).round, reader.check("clicks", ids).round) == (3, 3)


def test_a_writer_that_was_superseded_stops(table: LakeTable, reader: Reader) -> None:
    old = claim(table)
    ticket = old.begin()
    new = claim(table)
    assert new.stamp.epoch == 2
    with pytest.raises(Superseded, match="epoch 2, this one has 1"):
        commit(old, [1], ticket)
    with pytest.raises(Superseded):
        old.begin()
    commit(new, [1])
    reader.check(P, [1])


def test_rivals(table: LakeTable, reader: Reader) -> None:
    """Writers that take over from each other while all of them write: each row once, one writer left."""
    ended: list[type[BaseException]] = []
    done = threading.Event()

    def work() -> None:
        try:
            writer = claim(table)
            while not done.is_set():
                offset = writer.stamp.positions["orders"].next[0]
                commit(writer, [offset, offset + 1])
        except BaseException as error:  # noqa: BLE001 - told to the test
            ended.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join(1.5)
    while len(ended) < 2 and threads[-1].is_alive():
        threads[0].join(0.1)
    last = claim(table)
    done.set()
    for thread in threads:
        thread.join()
    assert ended.count(Superseded) == len(ended) >= 2
    count = last.stamp.positions["orders"].next[0]
    reader.check(P, list(range(count)))
    assert last.stamp.epoch == 4


class TestRollback:
    def test_to_an_older_commit(self, table: LakeTable, reader: Reader) -> None:
        """The running writer stops; the next goes on from what the table has, above all older epochs."""
        writer = claim(table)
        commit(writer, [0])
        older = writer.table.head
        assert older is not None
        writer = claim(table)
        commit(writer, [1])
        ticket = writer.begin()
        roll_back(table, older)
        with pytest.raises(HistoryChanged, match="ends at epoch 1, round 1"):
            commit(writer, [2], ticket)
        with pytest.raises(HistoryChanged):
            writer.begin()
        again = claim(table)
        assert (again.stamp.epoch, again.stamp.positions) == (3, at(1))
        with pytest.raises(Superseded):
            writer.begin()
        commit(again, [1])
        assert reader.check(P, [0, 1]).read == 2

    def test_an_older_writer_does_not_rise_again(self, table: LakeTable) -> None:
        """Its own commit is on top, but a newer one took over meanwhile."""
        old = claim(table)
        commit(old, [0])
        older = old.table.head
        assert older is not None
        claim(table)
        roll_back(table, older)
        with pytest.raises(Superseded, match="epoch 2"):
            old.begin()

    def test_to_before_the_first_commit(self, lake: Lake, table: LakeTable, reader: Reader) -> None:
        before = foreign_append(table, [100])
        commit(claim(table), [0])
        roll_back(table, before)
        with pytest.raises(HistoryChanged, match="--to-stamp"):
            claim(table)
        table.refresh()
        reset = PipelineWriter.reset(lake, table, P, "kafka:cluster", at(1), "")
        assert (reset.stamp.epoch, reset.stamp.positions, reset.stamp.read) == (2, at(1), 0)
        commit(reset, [1])
        reader.check(P, [1, 100])
        assert claim(table).stamp.positions == at(2)


class TestExpiry:
    def test_our_commit_on_top(self, table: LakeTable, reader: Reader) -> None:
        writer = claim(table)
        for number in range(3):
            commit(writer, [number])
        expire(table)
        assert len(reader.metadata()["snapshots"]) == 1
        commit(writer, [3])
        assert claim(table).stamp.positions == at(4)
        reader.check(P, [0, 1, 2, 3])

    def test_with_the_tag_and_foreign_commits_on_top(self, table: LakeTable) -> None:
        """The tag keeps the snapshot, not the chain: whether it was rolled back cannot be told."""
        writer = claim(table)
        commit(writer, [0])
        foreign_append(table, [100])
        foreign_append(table, [101])
        expire(table)
        with pytest.raises(HistoryChanged, match="ends at an expired snapshot"):
            writer.begin()
        with pytest.raises(HistoryChanged, match="--to-stamp"):
            claim(table)

    def test_without_the_tag_the_property_speaks(self, table: LakeTable, reader: Reader) -> None:
        writer = claim(table)
        commit(writer, [0])
        foreign_append(table, [100])
        foreign_append(table, [101])
        expire(table, untag=P)
        assert len(reader.metadata()["snapshots"]) == 1
        commit(writer, [1])
        assert claim(table).stamp.positions == at(2)
        reader.check(P, [0, 1, 100, 101])


class TestChangedFromOutside:
    def test_another_table_of_that_name(self, lake: Lake, client: Client, table: LakeTable) -> None:
        writer = claim(table)
        ticket = writer.begin()
        client.tables.drop(table.namespace, table.name)
        with pytest.raises(NoSuchTable):
            commit(writer, [1], ticket)
        lake.create(table.namespace, table.name, SCHEMA)
        with pytest.raises(HistoryChanged, match="dropped and made again"):
            commit(writer, [1], ticket)
        with pytest.raises(HistoryChanged, match="dropped and made again"):
            writer.begin()
        assert claim(table).stamp.epoch == 1

    def test_a_new_optional_column(self, table: LakeTable, reader: Reader) -> None:
        writer = claim(table)
        ticket = writer.begin()
        file = write_file(writer.table, ticket.prefix, [1])
        types = table.lake.iceberg.types.Types
        table.java.updateSchema().addColumn("note", types.StringType.get()).commit()
        writer.commit(ticket, {str(table): [file]}, positions=at(1), read=1, written=1, watermark=None)
        assert [field.name for field in writer.begin().schema] == ["id", "word", "note"]
        commit(writer, [2])
        reader.check(P, [1, 2])

    def test_a_new_required_column(self, table: LakeTable, reader: Reader) -> None:
        writer = claim(table)
        ticket = writer.begin()
        file = write_file(writer.table, ticket.prefix, [1])
        types = table.lake.iceberg.types.Types
        change = table.java.updateSchema().allowIncompatibleChanges()
        change.addRequiredColumn("note", types.StringType.get()).requireColumn("word").commit()
        with pytest.raises(Unsupported, match=r"required columns during the round.*: word, note"):
            writer.commit(ticket, {str(table): [file]}, positions=at(1), read=1, written=1, watermark=None)
        reader.check(P, [])

    def test_another_partition_spec(self, table: LakeTable, reader: Reader) -> None:
        """Files say by which spec they are laid out."""
        writer = claim(table)
        ticket = writer.begin()
        file = write_file(writer.table, ticket.prefix, [1])
        table.java.updateSpec().addField("word").commit()
        writer.commit(ticket, {str(table): [file]}, positions=at(1), read=1, written=1, watermark=None)
        writer.begin()
        assert [field.source for field in writer.table.spec.fields] == ["word"]
        reader.check(P, [1])

    def test_data_elsewhere(self, table: LakeTable) -> None:
        writer = claim(table)
        assert writer.begin().prefix.startswith(f"{table.location}/data/{P}/000001/00000001-")
        table.java.updateProperties().set("write.data.path", f"{table.location}/rows/").commit()
        assert writer.begin().prefix.startswith(f"{table.location}/rows/{P}/000001/00000001-")


def test_discard(table: LakeTable) -> None:
    writer = claim(table)
    failed = writer.begin()
    for number in range(3):
        write_file(writer.table, failed.prefix, [1], number)
    done = writer.begin()
    commit(writer, [1], done)
    writer.discard(failed)
    writer.discard(done)
    assert len(list(writer.table.storage().list(f"{writer.table.data_location}/{P}/"))) == 1
