"""A topic read again from where the pipeline began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from frazil.core.errors import FrazilError, NotFound, SourceChanged
from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import History
from frazil.stream.bootstrap.place import of_log
from frazil.stream.config.model import KafkaSource, Limits, MetadataColumns
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.kafka.log import KafkaLog, LogView, Topic
from frazil.stream.rebuild.past import BoundedFeed, first_stamp, listed
from frazil.stream.rounds import RoundPlan, confirm, plan

_KEPT = (
    "what a topic does not have any more is read from a table that keeps its records, if there is one: name "
    "it by --history. To read what there is, make a pipeline of another name and table"
)


class KafkaPast(BoundedFeed):
    """All topics that the pipeline ever read, also those that it does not read any more."""

    def __init__(self, source: KafkaSource, metadata: MetadataColumns, end: Stamp) -> None:
        super().__init__(end)
        self._source = source
        self._log = KafkaLog(source)
        self._reader = KafkaReader(source.settings, bool(metadata.key), bool(metadata.headers))

    def begin(self, history: History) -> Stamp:
        view = self._look()
        began = self._began(first_stamp(history, self.end.pipeline), view)
        gone = [
            f"{name}-{partition} begins at {first}, not at {began[name].next[partition]}"
            for name in began
            for partition, first in enumerate(view.beginnings[name][: len(began[name].next)])
            if first > began[name].next[partition] and self.end.positions[name].next[partition] > 0
        ]
        if gone:
            raise self._lost(f"the log was trimmed: {listed(gone)}", _KEPT)
        return self._begun(began)

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        view = self._bounded(self._look())
        try:
            return plan(stamp, self._log, view, limits, parallelism)
        except SourceChanged as error:
            said = error.message.partition(". Nothing was written")[0]
            raise self._lost(said.removeprefix(f"pipeline {stamp.pipeline}: "), _KEPT) from None

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        confirm(stamp, self._log, plan.positions)

    def reader(self, stamp: Stamp) -> KafkaReader:
        return self._reader

    @property
    def _ends(self) -> dict[str, Position]:
        return of_log(self.end.positions)

    def _look(self) -> LogView:
        self._log.select(self._ends)
        view = self._log.look()
        try:
            self._log.require(view.missing)
        except NotFound as error:
            raise self._lost(error.message, _KEPT) from None
        if view.source != self.end.source:
            raise self._lost(f"it read {self.end.source}, and this is {view.source}", "name that cluster")
        for name, position in self._ends.items():
            topic = view.topics[name]
            if topic.id != position.id or topic.partitions < len(position.next):
                raise self._lost(f"the topic {name} was deleted and made again", _KEPT)
        return view

    def _bounded(self, view: LogView) -> LogView:
        """As if nothing had come after the stamp."""
        ends = {name: position.next for name, position in self._ends.items()}
        return replace(
            view,
            topics={name: Topic(name, view.topics[name].id, len(end)) for name, end in ends.items()},
            beginnings={name: view.beginnings[name][: len(end)] for name, end in ends.items()},
            ends=ends,
        )

    def _began(self, first: Stamp | None, view: LogView) -> dict[str, Position]:
        """By the first claim, else by the settings: only what was not there yet begins at 0 anyhow."""
        starts = self._configured(view) if first is None else self._claimed(first)
        return {name: _padded(position, starts.get(name, ())) for name, position in self._ends.items()}

    def _claimed(self, first: Stamp) -> dict[str, tuple[int, ...]]:
        begun, ends = of_log(first.positions), self._ends
        left = sorted(begun.keys() - ends.keys())
        if left:
            raise self._lost(
                f"it began with {listed(left)} too, and its stamp does not say any more how far it read that",
                "rows that are there would be lost",
            )
        if any(at.id != ends[name].id for name, at in begun.items()):
            raise self._lost(
                "a topic was made again since the pipeline began, without its old records", _KEPT
            )
        return {name: position.next for name, position in begun.items()}

    def _configured(self, view: LogView) -> Mapping[str, tuple[int, ...]]:
        at = self._source.start.at
        if at == "earliest":
            return {}
        if isinstance(at, Mapping):
            return at
        whole = not any(any(firsts) for firsts in view.beginnings.values())
        if isinstance(at, datetime) and whole:
            try:
                return {name: found.next for name, found in self._log.start(self._source.start).items()}
            except FrazilError as error:
                raise self._lost(f"where it began cannot be told: {error.message}", "try again") from None
        raise self._lost(
            f"it began at {at}, and the commit that says which offsets these were expired",
            "write these offsets as its `start`, if you know them",
        )


def _padded(end: Position, start: tuple[int, ...]) -> Position:
    """Partitions that came later begin at 0; nothing begins behind its end."""
    known = start[: len(end.next)] + (0,) * (len(end.next) - len(start))
    return Position(id=end.id, next=tuple(map(min, known, end.next)))
