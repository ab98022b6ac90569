"""The logs of all hot tables of a cluster, as the loop of tiering sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from frazil.core.errors import NotFound, RoundFailed, SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.hot.log import log_reader, lost, remade, require_topic
from frazil.hot.table import TIERING, HotTable
from frazil.stream.cdc.feed import Goal, OneTopic
from frazil.stream.cdc.transactions import Tail
from frazil.stream.config.model import KafkaSource, Limits
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.rounds import RoundPlan, confirm, plan
from frazil.stream.source import Reader


class HotFeed:
    """A `ChangeFeed` whose topics come and go with their tables. A topic that is broken breaks no other."""

    joint = False

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._log = KafkaLog(KafkaSource(dict(kafka)))
        self._reader = log_reader(dict(kafka))
        self._tables: Mapping[str, HotTable] = {}
        self._view: LogView | None = None
        #: As it is after the job, asked for once in a round.
        self._after: LogView | None = None

    def follow(self, tables: Mapping[str, HotTable]) -> None:
        """By topic, those there are from now on."""
        if set(tables) != set(self._tables):
            self._view = None
        self._tables = dict(tables)
        self._log.select(sorted(self._tables))

    def look(self, *, wait: bool = False) -> LogView:
        """The logs as they are now; what is planned next goes by this. `wait`: as for `look_at_each`."""
        self._view = self._log.look_at_each(wait=wait)
        return self._view

    def topics(self) -> Sequence[str]:
        return sorted(self._tables)

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        """Each topic is planned alone."""

    def first(self, topic: str) -> tuple[str, dict[str, Position]]:
        """All of the log: nothing of it was ever tiered."""
        view, table = _told(self._view or self.look(), topic), self._tables[topic]
        found = require_topic(table, view)
        return view.source, {topic: Position(id=found.id, next=(0,) * found.partitions)}

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        view = _told(self._view or self.look(), topic)
        require_topic(self._tables[topic], view)
        one = OneTopic(self._log, topic, view)
        # Not looked at twice: a table that stops is tried again later, and the others do not wait meanwhile.
        try:
            planned = plan(stamp, one, one.look(), limits, 1)
        except SourceChanged as error:
            # What a pipeline is told to do is no way for a hot table.
            found = error.message.partition(". Nothing was written")[0].removeprefix(f"pipeline {TIERING}: ")
            raise lost(self._tables[topic], found) from None
        slices = [part for task in planned.tasks for part in task]
        return replace(planned, tasks=tuple((part,) for part in slices))

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        self._after = self._after or self._log.look_at_each()
        for topic in plan.positions:
            seen, table = _Seen(_told(self._after, topic), topic), self._tables[topic]
            try:
                confirm(stamp, seen, plan.positions)
            except SourceChanged:
                raise remade(table, table.binding.topic_id, seen.topics()[topic].id) from None

    def ended(self, topic: str, tail: Tail, stamp: Stamp) -> bool:
        """Records of hot tables are of no database's transactions."""
        return True

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        return topic, partition, offset

    def goal(self) -> Goal:
        """The loop knows itself what was there."""
        return lambda _stamps: False

    def reader(self) -> Reader:
        self._after = None
        return self._reader

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        """The stamps know all there is to know."""

    def close(self) -> None:
        """Connections end with the process."""


@dataclass(frozen=True)
class _Seen:
    """One topic after a round was read."""

    view: LogView
    topic: str

    def topics(self) -> Mapping[str, Topic]:
        if self.topic not in self.view.topics:
            raise NotFound(f"the topic {self.topic} is gone")
        return {self.topic: self.view.topics[self.topic]}

    def look(self) -> LogView:
        return self.view

    def require(self, missing: Sequence[str]) -> None:
        if missing:
            raise RoundFailed(f"the topic {', '.join(missing)} is gone")


def _told(view: LogView, topic: str) -> LogView:
    """The view, which tells of the topic."""
    if topic in view.failed:
        raise view.failed[topic]
    return view
