"""Sensor readings as a source: a log that is written by the clock alone.

The time at which the pipeline first began is kept in its stamp, so that a reading is the same one whenever it
is read again, and those of an outage are caught up with. Of live sensors, that time moves with each start:
what was not running has no readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from frazil.core.errors import SourceChanged
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import Limits, SensorSource
from frazil.stream.rounds import RoundPlan, cut
from frazil.stream.sensors.readings import SENSOR_SCHEMA, interval, json_records
from frazil.stream.source import Goal, RawBatch, Slice

#: The name of the one stream there is, in the place of a topic.
STREAM = "sensors"
_BATCH = 65_536


@dataclass(frozen=True)
class SensorReader:
    """Makes up the readings of slices; offsets are their numbers."""

    source: SensorSource
    anchor: datetime

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        source = self.source
        for part in slices:
            for start in range(part.start, part.end, _BATCH):
                count = min(_BATCH, part.end - start)
                values, timestamps = json_records(
                    source.seed, source.sensors, start, count, self.anchor, source.rate
                )
                offsets = pa.array(np.arange(start, start + count, dtype=np.int64))
                yield RawBatch(
                    part.topic, part.partition, values, offsets, timestamps, slice_start=part.start
                )


class SensorFeed:
    """A `Feed` of readings up to now."""

    def __init__(self, source: SensorSource, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._source = source
        self._now = now
        self._step = interval(source.rate)
        self._began: datetime | None = None

    def first(self) -> tuple[str, dict[str, Position]]:
        return self._identity(), {STREAM: Position(id=self._now().isoformat(), next=(0,))}

    def schema(self) -> Schema | None:
        return SENSOR_SCHEMA

    def goal(self) -> Goal:
        """All readings, where their number is given."""
        now = self._now()
        return lambda stamp, plan: stamp.positions[STREAM].next[0] >= self._wanted(stamp, now)

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        if stamp.source != self._identity():
            raise SourceChanged(
                f"pipeline {stamp.pipeline}: it was reading {stamp.source}, and this is {self._identity()}: "
                "other readings would have the same numbers. Nothing was written; put the settings of the "
                "source back, or give the pipeline another name and table"
            )
        position = stamp.positions[STREAM]
        start = position.next[0]
        # A clock that was set back finds nothing to read, until it is there again.
        end = max(start, self._end(stamp, self._now()))
        most = max(limits.records_per_round // self._source.batch, 1) * self._source.batch
        taken = min(end - start, most)
        tasks = min(parallelism, -(-taken // limits.records_per_task))
        parts = [Slice(STREAM, 0, start, start + taken)] if taken else []
        return RoundPlan(
            cut(parts, max(1, tasks)),
            {STREAM: Position(id=self._anchor(stamp).isoformat(), next=(start + taken,))},
            taken,
            {STREAM: (end - start - taken,)},
        )

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """Nothing can have changed."""

    def reader(self, stamp: Stamp) -> SensorReader:
        return SensorReader(self._source, self._anchor(stamp))

    def landed(self, plan: RoundPlan) -> None:
        """The stamp knows all there is to know."""

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}

    def _identity(self) -> str:
        source = self._source
        return f"sensors:seed={source.seed},sensors={source.sensors},rate={float(source.rate)!r}"

    def _wanted(self, stamp: Stamp, now: datetime) -> int:
        return self._end(stamp, now) if self._source.records is None else self._source.records

    def _end(self, stamp: Stamp, now: datetime) -> int:
        passed = (now - self._anchor(stamp)) // datetime.resolution
        there = int(passed / self._step)
        taken, batch = stamp.positions[STREAM].next[0], self._source.batch
        whole = taken + (there - taken) // batch * batch
        records = self._source.records
        if records is None:
            return whole
        # The last batch may be a smaller one.
        return records if there >= records else min(whole, records)

    def _anchor(self, stamp: Stamp) -> datetime:
        position = stamp.positions[STREAM]
        kept = datetime.fromisoformat(position.id)
        if not self._source.live:
            return kept
        if self._began is None:
            passed = timedelta(microseconds=int(position.next[0] * self._step))
            self._began = max(kept, self._now() - passed)
        return self._began
