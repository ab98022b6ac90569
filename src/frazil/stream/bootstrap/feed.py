"""A source that begins with a history: its rows in bounded rounds, and then the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.bootstrap.hold import Hold
from frazil.stream.bootstrap.place import history_of, pending
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.bootstrap.rounds import Rounds
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import Limits
from frazil.stream.kafka.feed import KafkaFeed
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Goal, Reader


class HistoryFeed:
    """A `Feed` over a table's rows and then the topics. A round is of one of them alone."""

    def __init__(
        self,
        log: KafkaFeed,
        table: HistoryTable | None,
        cuts: Sequence[int] | None = None,
        *,
        reruns: bool = False,
    ) -> None:
        """`table`: None where rounds are only planned, which needs no catalog.

        `cuts`: where rounds of the history may end; None: anywhere. `reruns`: a round may be run again after
        it was committed, and somebody else says when it is settled.
        """
        self._log = log
        self._table = table
        self._reruns = reruns
        self._hold = None if table is None else Hold(table, log.look)
        self.cuts = cuts

    @property
    def table(self) -> HistoryTable:
        assert self._table is not None, "this feed only plans"
        return self._table

    def first(self) -> tuple[str, dict[str, Position]]:
        return self.table.begin(self._log.look)

    def schema(self) -> Schema | None:
        return self._log.schema()

    def goal(self) -> Goal:
        reached = self._log.goal()
        return lambda stamp, plan: pending(stamp.positions) is None and reached(stamp, plan)

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        def planned(stamp: Stamp, limits: Limits) -> RoundPlan:
            return self._log.plan(stamp, limits, parallelism)

        return Rounds(planned, parallelism, self.cuts).plan(stamp, limits)

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        self._log.confirm(stamp, plan)

    def reader(self, stamp: Stamp) -> Reader:
        log, place = self._log.reader(stamp), pending(stamp.positions)
        return log if place is None else BothReader(self.table.reader(place), log)

    def replaying(self, stamp: Stamp) -> Reader:
        """Reads the history also where all of it is taken, as long as it is kept."""
        log, place = self._log.reader(stamp), history_of(stamp.positions)
        if place is None or (place.done and not self.table.is_kept()):
            return log
        return BothReader(self.table.reader(place), log)

    def landed(self, plan: RoundPlan) -> None:
        if not self._reruns:
            self.settle(plan.positions)

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}

    def settle(self, positions: Mapping[str, Position]) -> None:
        """These are in the table: the snapshot may not have to be kept any more."""
        assert self._hold is not None, "this feed only plans"
        self._hold.settle(positions)
