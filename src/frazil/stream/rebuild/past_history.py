"""What a log does not have any more, from a table that keeps its records; then the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from frazil.core.errors import InvalidInput
from frazil.core.names import show
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.authority import History as TableStory
from frazil.lake.authority import MetadataHistory
from frazil.lake.history import TableHistory, TableSnapshot
from frazil.stream.bootstrap.feed import Rounds
from frazil.stream.bootstrap.place import of_log, pending
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import History, KafkaSource, Limits, PipelineConfig
from frazil.stream.kafka.log import LogView
from frazil.stream.rebuild.others import others
from frazil.stream.rebuild.past import first_stamp
from frazil.stream.rebuild.past_kafka import KafkaPast
from frazil.stream.rebuild.record import name_of_rebuild
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Reader

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

_STAMPS = stamp_key("")


class HistoryPast(KafkaPast):
    """Rows of the table up to a stamp that the pipeline has reached too, then what the log has behind it."""

    def __init__(self, config: PipelineConfig, lake: Lake, end: Stamp, wanted: History) -> None:
        assert isinstance(config.source, KafkaSource), "only logs have a history"
        super().__init__(config.source, config.metadata, end)
        self._config = config
        self._lake = lake
        self._wanted = wanted
        self._table: HistoryTable | None = None

    def begin(self, history: TableStory) -> Stamp:
        view = self._bounded(self._look())
        wanted = self._wanted
        if wanted.offsets is None:
            wanted = self._covered(history, view)
        # Its tag is that of the rebuild: the pipeline may have one of its own.
        named = replace(self._config, name=name_of_rebuild(self._config.name))
        self._table = HistoryTable(self._lake, wanted, named)
        return self._begun(self._table.begin(view))

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        behind = super().plan

        def planned(stamp: Stamp, limits: Limits) -> RoundPlan:
            return behind(stamp, limits, parallelism)

        return Rounds(planned, parallelism).plan(stamp, limits)

    def reader(self, stamp: Stamp) -> Reader:  # type: ignore[override] # or one of both
        log, place = super().reader(stamp), pending(stamp.positions)
        assert self._table is not None, "asked where it begins first"
        return log if place is None else BothReader(self._table.reader(place), log)

    def release(self) -> None:
        if self._table is not None:
            self._table.release()

    def _covered(self, history: TableStory, view: LogView) -> History:
        """The newest snapshot that has nothing the pipeline has not read, and not less than the log lacks."""
        wanted = self._wanted
        metadata = self._lake.client.tables.load(wanted.namespace, wanted.name).metadata
        for snapshot, stamp in _stamped(TableHistory(metadata)):
            if self._fits(stamp, view):
                self._require_whole(
                    history, metadata | {"current-snapshot-id": snapshot.id, "refs": {}}, stamp
                )
                offsets = {
                    name: at.next + (0,) * (view.topics[name].partitions - len(at.next))
                    for name, at in of_log(stamp.positions).items()
                }
                return replace(wanted, offsets=offsets, snapshot=snapshot.id, until=None)
        raise InvalidInput(
            f"pipeline {self.end.pipeline} cannot be rebuilt with {show(wanted.namespace, wanted.name)}: "
            "none of its snapshots has a stamp of the same topics that reaches what the log still has, and "
            "nothing that the pipeline has not read. Let the pipeline catch up, or keep snapshots of that "
            "table for longer"
        )

    def _fits(self, stamp: Stamp, view: LogView) -> bool:
        positions = of_log(stamp.positions)
        if stamp.source != view.source or stamp.query is not None or pending(stamp.positions) is not None:
            return False
        if positions.keys() != view.topics.keys():
            return False
        return all(
            at.id == view.topics[name].id and _between(view.beginnings[name], at, view.ends[name])
            for name, at in positions.items()
        )

    def _require_whole(self, history: TableStory, metadata: dict[str, object], stamp: Stamp) -> None:
        """It must have what the pipeline had from its beginning, and nothing else."""
        found = others(metadata, stamp)
        mine, its = (
            first_stamp(history, self.end.pipeline),
            first_stamp(MetadataHistory(metadata), stamp.pipeline),
        )
        began = None if mine is None or its is None else (of_log(mine.positions), of_log(its.positions))
        if not found and (began is None or began[0] == began[1]):
            return
        why = found.texts() or ["the pipeline that fills it began at other offsets"]
        raise InvalidInput(
            f"pipeline {self.end.pipeline} cannot be rebuilt with that history, which is not what it read: "
            f"{'; '.join(why)}"
        )


def _stamped(history: TableHistory) -> Iterator[tuple[TableSnapshot, Stamp]]:
    """Newest first; only snapshots that are a pipeline's own, so that their rows are what the stamp says."""
    for snapshot in history.ancestry():
        for key, text in snapshot.summary.items():
            if key.startswith(_STAMPS):
                yield snapshot, Stamp.decode(text)


def _between(first: tuple[int, ...], at: Position, end: tuple[int, ...]) -> bool:
    count = len(end)
    reached = at.next + (0,) * (count - len(at.next))
    return len(reached) == count and all(
        low <= offset <= high for low, offset, high in zip(first, reached, end, strict=True)
    )
