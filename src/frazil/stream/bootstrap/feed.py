"""A source that begins with a history: its rows in bounded rounds, and then the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from msgspec import structs

from frazil.core.errors import SourceChanged
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.bootstrap.hold import Hold
from frazil.stream.bootstrap.place import Place, history_of, of_log, pending
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import Limits
from frazil.stream.kafka.feed import KafkaFeed
from frazil.stream.rounds import RoundPlan, cut
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


@dataclass(frozen=True)
class Rounds:
    """Plans rounds of a history, and then of the log."""

    #: The next one of the log after a stamp, within limits.
    log: Callable[[Stamp, Limits], RoundPlan]
    parallelism: int
    #: Where rounds of the history may end; None: anywhere.
    cuts: Sequence[int] | None = None

    def plan(self, stamp: Stamp, limits: Limits) -> RoundPlan:
        place = pending(stamp.positions)
        if place is None:
            return self.log(stamp, limits)
        behind = self._behind(place, stamp, limits)
        part = place.next(limits.records_per_round, self.cuts)
        tasks = min(self.parallelism, -(-len(part) // limits.records_per_task))
        at = replace(place, taken=part.end).position()
        return RoundPlan(
            cut([part], max(1, tasks)),
            {**stamp.positions, place.topic: at},
            len(part),
            {place.topic: (place.total - part.end,), **behind},
        )

    def _behind(self, place: Place, stamp: Stamp, limits: Limits) -> dict[str, tuple[int, ...]]:
        """What waits in the log, by topic; SourceChanged: it does not go on where the history ends."""
        try:
            behind = structs.replace(stamp, positions=of_log(stamp.positions))
            found = self.log(behind, replace(limits, records_per_round=1))
        except SourceChanged as error:
            cause = error.message.partition(". Nothing was written")[0]
            raise SourceChanged(
                f"{cause}. The rows of the history in {place.table} are not all taken, and without the log "
                "behind them they are of no use: drop the pipeline's own table, or give the pipeline another "
                "name and table, and start it again: it begins with a newer snapshot. Let the topic keep its "
                "records for as long as that takes"
            ) from None
        return {topic: _waiting(topic, stamp, found) for topic in found.lags}


def _waiting(topic: str, stamp: Stamp, found: RoundPlan) -> tuple[int, ...]:
    ends = found.positions[topic].next
    known = stamp.positions[topic].next if topic in stamp.positions else ()
    known += (0,) * (len(ends) - len(known))
    return tuple(lag + end - start for lag, end, start in zip(found.lags[topic], ends, known, strict=True))
