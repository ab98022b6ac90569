"""A pipeline without a sink: what it would write, and the stamp that it would leave."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from frazil.client import Client
from frazil.core.stamp import Stamp
from frazil.lake.catalog import Lake
from frazil.stream.config.model import Contract, Limits, ParquetFormat, Start, TableSource
from frazil.stream.decode.rows import RowsDecoder
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import RawBatch
from frazil.stream.tables.change_feed import ChangeFeed
from frazil.stream.tables.feed import TableFeed


@dataclass
class Follower:
    client: Client
    name: str
    at: Any = "earliest"
    limits: Limits = field(default_factory=Limits)
    parallelism: int = 2
    namespace: tuple[str, ...] = ("tables",)
    changes: bool = False
    #: Only asked for where there are delete files.
    lake: Lake | None = None
    stamp: Stamp | None = None
    #: Raw batches of the last round.
    batches: list[RawBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feed = self.restarted()

    def restarted(self) -> TableFeed:
        lake = self.lake or cast("Lake", SimpleNamespace(client=self.client))
        source = TableSource(self.namespace, self.name, Start(self.at), self.changes)
        return (ChangeFeed if self.changes else TableFeed)(source, lake)

    def claim(self) -> Follower:
        source, positions = self.feed.first()
        self.stamp = Stamp(pipeline="p", epoch=1, round=0, token="t", source=source, positions=positions)
        return self

    def plan(self) -> RoundPlan:
        if self.stamp is None:
            self.claim()
        assert self.stamp is not None
        return self.feed.plan(self.stamp, self.limits, self.parallelism)

    def round(self) -> list[dict[str, Any]]:
        """One round: its rows, decoded by the columns that the feed names."""
        plan = self.plan()
        assert self.stamp is not None
        reader = pickle.loads(pickle.dumps(self.feed.reader(self.stamp)))
        decoder = RowsDecoder(self.feed.schema(), ParquetFormat(), Contract())
        rows: list[dict[str, Any]] = []
        self.batches = [batch for task in plan.tasks for batch in reader.read(task)]
        for batch in self.batches:
            decoded = decoder.decode(batch)
            assert not decoded.bad
            rows += decoded.rows.to_pylist()
        # Manifests do not always tell how many rows change.
        assert self.changes or len(rows) == plan.offsets
        if plan.tasks:
            self.feed.confirm(self.stamp, plan)
            self.stamp = Stamp(
                pipeline="p", epoch=1, round=1, token="t", source=self.stamp.source, positions=plan.positions
            )
        return rows

    def ids(self) -> list[int]:
        return [row["id"] for row in self.round()]

    @property
    def next(self) -> tuple[int, ...]:
        assert self.stamp is not None
        (position,) = self.stamp.positions.values()
        return position.next
