"""Claims and commits of pipelines on a real catalog."""

from __future__ import annotations

from tests.lake.conftest import MakeTable
from tests.lake.support import Reader, at, commit, first, foreign_append

from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter


def test_a_claim_on_an_empty_table(lake: Lake, table: LakeTable, reader: Reader) -> None:
    writer = PipelineWriter.claim(lake, table, "orders", first, "c0ffee")
    stamp = reader.check("orders", [])
    assert stamp == writer.stamp
    assert (stamp.epoch, stamp.round, stamp.positions, stamp.config) == (1, 0, at(0), "c0ffee")
    assert len(reader.metadata()["snapshots"]) == 1


def test_rounds(lake: Lake, table: LakeTable, reader: Reader) -> None:
    writer = PipelineWriter.claim(lake, table, "orders", first, "")
    commit(writer, [1, 2])
    commit(writer, [])
    stamp = commit(writer, [3])
    assert reader.check("orders", [1, 2, 3]) == stamp == writer.stamp
    assert (stamp.round, stamp.positions, stamp.read) == (3, at(3), 3)
