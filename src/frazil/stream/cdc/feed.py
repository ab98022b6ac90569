"""Where change events come from: one log for each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol, TypeAlias

from frazil.core.errors import Unsupported
from frazil.core.stamp import Position, Stamp
from frazil.stream.cdc.transactions import Tail, Transactions
from frazil.stream.config.model import KafkaSource, Limits, PipelineConfig
from frazil.stream.kafka.feed import TO_PIPELINES, KafkaReader
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.rounds import RoundPlan, confirm, plan_round
from frazil.stream.source import Reader, Slice

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

#: Whether a bounded run has read what was there when it began; stamps are by topic.
Goal: TypeAlias = Callable[[Mapping[str, Stamp]], bool]


class ChangeFeed(Protocol):
    """The driver's side of a source of changes. For one thread."""

    @property
    def joint(self) -> bool:
        """Whether all tables are read together, for which it must be known where each of them goes on."""

    def topics(self) -> Sequence[str]:
        """Those there are now, one for each table; a round looks once."""

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        """A round follows, from these stamps, by topic. `stopped`: topics of tables that cannot go on."""

    def first(self, topic: str) -> tuple[str, dict[str, Position]]:
        """Identity and positions for a table that is new."""

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        """The next round of one topic, a task for each partition; SourceChanged."""

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """After reading: the source must still be what it was when the round was planned."""

    def ended(self, topic: str, tail: Tail, stamp: Stamp) -> bool:
        """Whether the transaction has no more changes of the table."""

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        """The first record that has to wait if this one does: of its transaction, if only whole ones land."""

    def goal(self) -> Goal:
        """For a bounded run: what is there now."""

    def reader(self) -> Reader: ...

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        """What the plans read is in the tables."""

    def close(self) -> None:
        """Nothing is read any more."""


def feed_of(config: PipelineConfig, lake: Lake) -> ChangeFeed:
    """Imported where it is used: few read a database directly, or begin with a history."""
    if isinstance(config.source, PostgresSource):
        from frazil.stream.postgres.changes import PostgresChanges

        whole = config.changes is not None and config.changes.whole_transactions
        return PostgresChanges(config.source, config.name, whole_transactions=whole)
    assert isinstance(config.source, KafkaSource), "the configuration asks for it"
    if config.source.history is not None:
        from frazil.stream.bootstrap.changes import HistoryChanges
        from frazil.stream.bootstrap.table import HistoryTable

        return HistoryChanges(config.source, HistoryTable(lake, config.source.history, config))
    return KafkaChanges(config.source)


class KafkaChanges:
    """Topics of Kafka."""

    joint = False

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._log = KafkaLog(source)
        self._view: LogView | None = None
        #: Topics that were there once.
        self._seen: set[str] = set()
        self._reader = KafkaReader(source.settings, keys=True, headers=True, advice=TO_PIPELINES)
        #: By the topics that may tell of them.
        self._transactions: dict[tuple[str, ...], Transactions] = {}
        #: By topic: the table whose transactions were asked about, and the records behind the newest plan.
        self._tables: dict[str, str] = {}
        self._left: dict[str, int] = {}

    def topics(self) -> Sequence[str]:
        self._view = self._log.look()
        # One that was deleted stops its own table alone: the plan for it tells.
        self._log.require(name for name in self._view.missing if name not in self._seen)
        self._seen |= self._view.topics.keys()
        return sorted(self._view.topics)

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        """Each topic is planned alone; nobody asks for those of tables that stopped."""
        if self._source.pattern is None:
            self._log.select(topic for topic in self._source.topics if topic not in stopped)

    def first(self, topic: str) -> tuple[str, dict[str, Position]]:
        return self._log.identity(), {topic: self._log.start(self._source.start)[topic]}

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        planned = plan_round(stamp, OneTopic(self._log, topic, self._view), limits, 1)
        self._left[topic] = planned.lag
        # A partition is read in its order, by one task.
        slices = [part for task in planned.tasks for part in task]
        return replace(planned, tasks=tuple((part,) for part in slices))

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        confirm(stamp, self._log, plan.positions)

    def ended(self, topic: str, tail: Tail, stamp: Stamp) -> bool:
        known = self._tables.setdefault(topic, tail.table)
        if known != tail.table:
            raise Unsupported(
                f"the topic {topic} has changes of {known} and of {tail.table}, and which tables share it is "
                "told nowhere, so that nobody can tell when all changes of a transaction are there: read "
                "topics of one table each, or leave `changes.whole_transactions` out"
            )
        if self._left.get(topic):
            # What comes next tells of which transaction the records are that say nothing.
            tail = replace(tail, unread=0)
        topics = told_of_in(topic, tail)
        if topics not in self._transactions:
            self._transactions[topics] = Transactions(self._source, topics)
        marks = [mark.ts for mark in stamp.marks.get(topic, ()) if mark is not None]
        return self._transactions[topics].ended(tail, min(marks, default=0))

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        """Records tell of their transactions; who decodes them cuts there."""
        return topic, partition, offset

    def goal(self) -> Goal:
        ends = self._log.ends(self._log.topics())
        return lambda stamps: all(
            _reached(ends[topic], stamp.positions.get(topic))
            for topic, stamp in stamps.items()
            if topic in ends
        )

    def reader(self) -> Reader:
        return self._reader

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        """The stamps know all there is to know."""

    def close(self) -> None:
        """Connections end with the process."""


@dataclass
class OneTopic:
    """The part of a log that one table is made of."""

    log: KafkaLog
    topic: str
    #: What was just seen; looked at anew when that does not fit.
    view: LogView | None

    def look(self) -> LogView:
        view, self.view = self.view or self.log.look(), None
        return replace(
            view,
            topics={name: topic for name, topic in view.topics.items() if name == self.topic},
            missing=() if self.topic in view.topics else (self.topic,),
        )

    def topics(self) -> Mapping[str, Topic]:
        return self.log.topics()

    def require(self, missing: Sequence[str]) -> None:
        self.log.require(missing)


def told_of_in(topic: str, tail: Tail) -> tuple[str, ...]:
    """Topics in which the connector may tell of transactions, the likeliest first.

    Whoever copies topics, or renames all of a connector, gives the same beginning to each of them; where only
    that of the table has another name, the connector's own is in force.
    """
    own, more = f"{tail.connector}.transaction", tail.table.count(".") + 1
    prefix, *rest = topic.rsplit(".", more)
    if len(rest) < more:
        return (own,)
    beside = f"{prefix}.transaction"
    if beside == own:
        return (own,)
    return (beside, own) if beside.endswith(f".{own}") else (own, beside)


def _reached(ends: tuple[int, ...], position: Position | None) -> bool:
    following = () if position is None else position.next
    return all(done >= end for done, end in zip_longest(following, ends, fillvalue=0))


def packed_tasks(slices: Sequence[Slice], tasks: int) -> tuple[tuple[Slice, ...], ...]:
    """Slices as even loads; each stays whole."""
    loads: list[list[Slice]] = [[] for _ in range(min(tasks, len(slices)))]
    for part in sorted(slices, key=len, reverse=True):
        min(loads, key=lambda load: sum(map(len, load))).append(part)
    return tuple(tuple(sorted(load)) for load in loads)
