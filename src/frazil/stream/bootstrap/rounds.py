"""What the rounds of a pipeline read that begins with a history. Without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from frazil.core.errors import SourceChanged
from frazil.core.stamp import Stamp
from frazil.stream.bootstrap.place import Place, of_log, pending
from frazil.stream.config.model import KafkaSource, Limits
from frazil.stream.kafka.log import KafkaLog, LogView
from frazil.stream.rounds import RoundPlan, cut, plan


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


def plan_next(
    source: KafkaSource, stamp: Stamp, log: KafkaLog, view: LogView, limits: Limits, parallelism: int
) -> RoundPlan:
    """The round that a runner would do now. InvalidConfig, SourceChanged: it would refuse to go on."""

    def planned(stamp: Stamp, limits: Limits) -> RoundPlan:
        return plan(stamp, log, view, limits, parallelism)

    if source.history is None:
        return planned(stamp, limits)
    return Rounds(planned, parallelism).plan(stamp, limits)
