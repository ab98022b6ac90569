"""What the tests of maintenance share."""

from __future__ import annotations

import time

import pyarrow as pa
from tests.lake.support import at

from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter
from frazil.lake.writers import PipelineWriter
from frazil.maintenance.actions import document
from frazil.maintenance.expiry import ExpiryPlan, plan_expiry

SIZE = 128 * 1024 * 1024


def plan_of(table: LakeTable) -> ExpiryPlan:
    """What could go if nothing were kept for its age."""
    table.refresh()
    return plan_expiry(document(table), older_than_ms=time.time() * 1000 + 1, at_most=10_000)


def land(writer: PipelineWriter, ids: list[int]) -> None:
    """One round, written where the table is, by the writer of tasks."""
    ticket, table = writer.begin(), writer.table
    files = TableWriter(table.write_target(), table.storage(), f"{ticket.prefix}-00000-0")
    files.write(pa.record_batch({"id": pa.array(ids, pa.int64()), "word": [f"word {n}" for n in ids]}))
    seen = writer.stamp.positions["orders"].next[0]
    writer.commit(
        ticket,
        {str(table): files.close()},
        positions=at(seen + len(ids)),
        read=len(ids),
        written=len(ids),
        watermark=None,
    )
