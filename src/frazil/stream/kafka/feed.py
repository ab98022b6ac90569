"""Kafka topics as a source: the driver's side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.stream.config.model import KafkaSource, Limits, MetadataColumns
from frazil.stream.kafka.fetch import shared_reader
from frazil.stream.kafka.log import KafkaLog, LogView
from frazil.stream.rounds import RoundPlan, confirm, plan_round, reached
from frazil.stream.source import Goal, RawBatch, Slice

#: To a pipeline that goes on from its stamp.
TO_PIPELINES = "Give it a longer retention, and move the pipeline to offsets that exist with `frazil reset`."


@dataclass(frozen=True)
class KafkaReader:
    """Fetches slices; connections are kept from task to task."""

    settings: Mapping[str, str] = field(repr=False)
    keys: bool = False
    headers: bool = False
    #: What to do where records are gone; none: there is nothing to say but that they are.
    advice: str = ""

    def read(self, slices: Sequence[Slice]) -> Iterator[RawBatch]:
        return shared_reader(self.settings, keys=self.keys, headers=self.headers).read(slices, self.advice)


class KafkaFeed:
    """A `Feed` over the topics of a cluster."""

    def __init__(self, source: KafkaSource, metadata: MetadataColumns) -> None:
        self._source = source
        self._log = KafkaLog(source)
        self._reader = KafkaReader(
            source.settings, bool(metadata.key), bool(metadata.headers), advice=TO_PIPELINES
        )

    def first(self) -> tuple[str, dict[str, Position]]:
        return self._log.identity(), self._log.start(self._source.start)

    def look(self) -> LogView:
        """The topics as they are now; NotFound for one that is not there."""
        view = self._log.look()
        self._log.require(view.missing)
        return view

    def schema(self) -> Schema | None:
        return None

    def goal(self) -> Goal:
        ends = self._log.ends(self._log.topics())
        return lambda stamp, plan: reached(ends, stamp, plan)

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        return plan_round(stamp, self._log, limits, parallelism)

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        confirm(stamp, self._log, plan.positions)

    def reader(self, stamp: Stamp) -> KafkaReader:
        return self._reader

    def landed(self, plan: RoundPlan) -> None:
        """The stamp knows all there is to know."""

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}
