"""Changes of rows that begin with a history: the rows as they are at a snapshot, then the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from frazil.core.stamp import Position, Stamp
from frazil.stream.bootstrap.hold import Hold
from frazil.stream.bootstrap.place import Place, pending
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.bootstrap.rounds import Rounds
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.cdc.feed import Goal, KafkaChanges
from frazil.stream.config.model import KafkaSource, Limits
from frazil.stream.kafka.log import LogView
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Reader

#: Slices of a round of the history: tasks share them.
_SLICES = 64


class HistoryChanges(KafkaChanges):
    """A `ChangeFeed` of one topic, and of the table that has the rows before it."""

    def __init__(self, source: KafkaSource, table: HistoryTable) -> None:
        super().__init__(source)
        self._table = table
        self._place: Place | None = None
        self._hold = Hold(table, self._log.look)

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        found = [pending(stamp.positions) for stamp in stamps.values()]
        self._place = next((place for place in found if place is not None), None)
        if stamps:
            self._settle(stamps.values())

    def first(self, topic: str) -> tuple[str, dict[str, Position]]:
        return self._table.begin(self._look)

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        log = super().plan
        return Rounds(lambda at, within: log(topic, at, within), _SLICES).plan(stamp, limits)

    def goal(self) -> Goal:
        reached = super().goal()
        return lambda stamps: (
            reached(stamps) and not any(pending(stamp.positions) for stamp in stamps.values())
        )

    def reader(self) -> Reader:
        log = super().reader()
        return log if self._place is None else BothReader(self._table.reader(self._place), log)

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        self._settle(plans.values())

    def _settle(self, landed: Iterable[Stamp | RoundPlan]) -> None:
        """The snapshot may not have to be kept any more."""
        self._hold.settle({name: at for one in landed for name, at in one.positions.items()})

    def _look(self) -> LogView:
        view = self._log.look()
        self._log.require(view.missing)
        return view
