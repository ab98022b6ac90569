"""Tables of a PostgreSQL database as topics of changes, each with a stamp of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from frazil.core.errors import SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.stream.cdc.feed import Goal
from frazil.stream.cdc.transactions import Tail
from frazil.stream.config.model import Limits
from frazil.stream.postgres.database import anew
from frazil.stream.postgres.feed import PostgresFeed
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Reader


class PostgresChanges:
    """A `ChangeFeed`: one connection for all tables, planned together and landing one by one."""

    joint = True

    def __init__(self, source: PostgresSource, pipeline: str, *, whole_transactions: bool = False) -> None:
        self._feed = PostgresFeed(source, whole_transactions=whole_transactions)
        self._pipeline = pipeline
        self._source: str | None = None
        self._planned: RoundPlan | None = None
        self._together: Stamp | None = None

    def topics(self) -> Sequence[str]:
        return self._feed.topics()

    def first(self, topic: str) -> tuple[str, dict[str, Position]]:
        if self._source is None:
            self._source, _ = self._feed.first()
        return self._source, {}

    def begin(self, stamps: Mapping[str, Stamp], limits: Limits, stopped: Set[str]) -> None:
        """What is in memory is cut into a round of all topics."""
        self._feed.stop(stopped)
        if not stamps:
            self._planned = None
            return
        positions = {
            topic: position for stamp in stamps.values() for topic, position in stamp.positions.items()
        }
        self._require_one_server(stamps)
        any_stamp = next(iter(stamps.values()))
        together = Stamp(
            pipeline=self._pipeline, epoch=0, round=0, token="", source=any_stamp.source, positions=positions
        )
        self._together = together
        self._planned = self._feed.plan(together, limits, 1)

    def _require_one_server(self, stamps: Mapping[str, Stamp]) -> None:
        """One connection is for all: a table that goes on elsewhere would miss changes."""
        servers = {stamp.source: topic for topic, stamp in stamps.items()}
        if len(servers) > 1:
            found = ", ".join(f"{topic} {server}" for server, topic in servers.items())
            raise SourceChanged(
                f"pipeline {self._pipeline}: its tables were read from several servers ({found}), because "
                f"some of them were begun anew alone. Nothing was written. Changes may be lost: "
                f"{anew(self._pipeline)}"
            )

    def plan(self, topic: str, stamp: Stamp, limits: Limits) -> RoundPlan:
        planned = self._planned
        if topic in self._feed.troubles:
            raise self._feed.troubles[topic]
        if planned is None:
            return RoundPlan((), dict(stamp.positions), 0, {})
        slices = [part for task in planned.tasks for part in task if part.topic == topic]
        positions = {topic: planned.positions[topic]} if topic in planned.positions else {}
        return replace(
            planned,
            tasks=tuple((part,) for part in slices),
            positions=dict(stamp.positions) | positions,
            offsets=sum(map(len, slices)),
            lags={topic: planned.lags.get(topic, ())},
        )

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """What was read is what the plan said: it was in memory."""

    def ended(self, topic: str, tail: Tail, stamp: Stamp) -> bool:
        raise AssertionError("what is offered ends with a transaction")

    def beginning(self, topic: str, partition: int, offset: int) -> tuple[str, int, int]:
        return topic, partition, self._feed.beginning(topic, partition, offset)

    def goal(self) -> Goal:
        reached = self._feed.goal()

        def done(stamps: Mapping[str, Stamp]) -> bool:
            planned, together = self._planned, self._together
            if not stamps:
                return True
            return planned is not None and together is not None and reached(together, planned)

        return done

    def reader(self) -> Reader:
        assert self._together is not None, "a round was begun"
        return self._feed.reader(self._together)

    def landed(self, plans: Mapping[str, RoundPlan]) -> None:
        for plan in plans.values():
            self._feed.landed(plan)

    def close(self) -> None:
        self._feed.close()
