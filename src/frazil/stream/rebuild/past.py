"""A source read again: from where the pipeline began up to what its stamp says, as rounds read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.errors import SourceChanged
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.authority import History, ancestry
from frazil.stream.bootstrap.place import Place, history_of, of_log, pending
from frazil.stream.config.model import Limits, SensorSource
from frazil.stream.rounds import RoundPlan, cut
from frazil.stream.sensors.feed import STREAM, SensorFeed, SensorReader
from frazil.stream.source import Feed, Goal, Slice

Mask = npt.NDArray[np.bool_]


class Past(Feed, Protocol):
    """A `Feed` that ends where `end` is: it plans nothing that this stamp does not cover."""

    #: The pipeline's stamp up to which is read; it is moved forward as the pipeline goes on.
    end: Stamp

    def begin(self, history: History) -> Stamp:
        """Where the pipeline began; `history` is of its table. SourceChanged: the source lacks what was."""

    def covers(self, letters: pa.Table) -> Mask:
        """Which dead letters are of records that were read up to `end`."""

    def release(self) -> None:
        """Nothing more is read."""


class BoundedFeed:
    """What those of all sources have in common."""

    def __init__(self, end: Stamp) -> None:
        self.end = end
        self._begin: Stamp | None = None

    def first(self) -> tuple[str, dict[str, Position]]:
        assert self._begin is not None, "asked where it begins first"
        return self._begin.source, self._begin.positions

    def schema(self) -> Schema | None:
        return None

    def goal(self) -> Goal:
        return lambda stamp, plan: not plan.tasks

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """What was read is what the plan said."""

    def landed(self, plan: RoundPlan) -> None:
        """The stamp knows all there is to know."""

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}

    def release(self) -> None:
        """Nobody kept anything for it."""

    def covers(self, letters: pa.Table) -> Mask:
        """By their positions in the log."""
        assert self._begin is not None, "asked where it begins first"
        columns = (letters[name].to_pylist() for name in ("topic", "partition", "offset"))
        inside = [
            _at(self._begin, topic, partition) <= offset < _at(self.end, topic, partition)
            for topic, partition, offset in zip(*columns, strict=True)
        ]
        return np.array(inside, np.bool_)

    def _begun(self, positions: Mapping[str, Position]) -> Stamp:
        """Remembers, and returns, a stamp of a pipeline that has read nothing."""
        end = self.end
        self._begin = Stamp(
            pipeline=end.pipeline, epoch=0, round=0, token="", source=end.source, positions=dict(positions)
        )
        return self._begin

    def _lost(self, found: str, then: str) -> SourceChanged:
        return SourceChanged(
            f"pipeline {self.end.pipeline} cannot be rebuilt: {found}. The table stays as it is; {then}"
        )


class SensorPast(BoundedFeed):
    """Readings that are the same whenever they are made up."""

    def __init__(self, source: SensorSource, end: Stamp) -> None:
        super().__init__(end)
        self._source = source

    def begin(self, history: History) -> Stamp:
        identity = SensorFeed(self._source).first()[0]
        if identity != self.end.source:
            raise self._lost(
                f"it read {self.end.source}, and this is {identity}", "put the settings of the source back"
            )
        return self._begun({STREAM: Position(id=self.end.positions[STREAM].id, next=(0,))})

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        start, end = stamp.positions[STREAM].next[0], self.end.positions[STREAM].next[0]
        taken = min(end - start, limits.records_per_round)
        parts = [Slice(STREAM, 0, start, start + taken)] if taken else []
        position = Position(id=self.end.positions[STREAM].id, next=(start + taken,))
        tasks = cut(parts, tasks_for(taken, limits, parallelism))
        return RoundPlan(tasks, {STREAM: position}, taken, {STREAM: (end - start - taken,)})

    def reader(self, stamp: Stamp) -> SensorReader:
        return SensorFeed(self._source).reader(self.end)


def first_stamp(history: History, pipeline: str) -> Stamp | None:
    """That of the pipeline's very first claim, which says where it began; None: it expired."""
    key, oldest = stamp_key(pipeline), None
    for view in ancestry(history):
        oldest = view.summary.get(key, oldest)
    stamp = None if oldest is None else Stamp.decode(oldest)
    return stamp if stamp is not None and (stamp.epoch, stamp.round) == (1, 0) else None


def begun_with(end: Stamp, story: History) -> Place | None:
    """The rows that came before the log; None: there were none. A reset may take them out of the stamp."""
    first = first_stamp(story, end.pipeline)
    return history_of(end.positions) or (None if first is None else history_of(first.positions))


def begun_at(place: Place, story: History, pipeline: str) -> Stamp | None:
    """A stamp that says where the log goes on behind these rows; None: it expired."""
    key, oldest = stamp_key(pipeline), None
    for view in ancestry(story):
        stamp = Stamp.decode(view.summary[key]) if key in view.summary else None
        oldest = stamp if stamp is not None and _same_rows(place, stamp) else oldest
    if oldest is None:
        return None
    # Nothing of the log is taken before the last row.
    untouched = (oldest.epoch, oldest.round) == (1, 0) or pending(oldest.positions) is not None
    return oldest if untouched else None


def same_place(one: Mapping[str, Position], other: Mapping[str, Position]) -> bool:
    """Whether two stamps have read the same of the source; what came before it does not count."""

    def places(positions: Mapping[str, Position]) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {name: (position.id, position.next) for name, position in of_log(positions).items()}

    return places(one) == places(other)


def tasks_for(records: int, limits: Limits, parallelism: int) -> int:
    return max(1, min(parallelism, -(-records // limits.records_per_task)))


def listed(names: Iterable[str], most: int = 3) -> str:
    """A few of them, in words."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _same_rows(place: Place, stamp: Stamp) -> bool:
    """A reset may have told the pipeline to begin with others."""
    other = history_of(stamp.positions)
    return other is not None and place.topic == other.topic and place.position().id == other.position().id


def _at(stamp: Stamp, topic: str, partition: int) -> int:
    position = stamp.positions.get(topic)
    return position.next[partition] if position is not None and partition < len(position.next) else 0
