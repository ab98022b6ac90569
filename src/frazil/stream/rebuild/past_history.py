"""What a log does not have any more, from a table that keeps its records; then the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from frazil.core.errors import InvalidInput, NoSuchNamespace, NoSuchTable
from frazil.core.names import show
from frazil.core.rebuild import REBUILD, Record, name_of_rebuild, rebuilds_in
from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.lake.authority import History as TableStory
from frazil.lake.authority import MetadataHistory
from frazil.lake.history import TableHistory, TableSnapshot
from frazil.stream.bootstrap.place import Place, of_log, pending
from frazil.stream.bootstrap.reader import BothReader
from frazil.stream.bootstrap.rounds import Rounds
from frazil.stream.bootstrap.table import HistoryTable
from frazil.stream.config.model import History, KafkaSource, Limits, PipelineConfig
from frazil.stream.kafka.log import LogView
from frazil.stream.rebuild.others import others
from frazil.stream.rebuild.past import begun_at, first_stamp
from frazil.stream.rebuild.past_kafka import KafkaPast
from frazil.stream.rounds import RoundPlan
from frazil.stream.source import Reader

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

_STAMPS = stamp_key("")


class HistoryPast(KafkaPast):
    """Rows of the table up to a stamp that the pipeline has reached too, then what the log has behind it."""

    def __init__(
        self, config: PipelineConfig, lake: Lake, end: Stamp, wanted: History, begun: Place | None
    ) -> None:
        assert isinstance(config.source, KafkaSource), "only logs have a history"
        super().__init__(config.source, config.metadata, end)
        self._config = config
        self._lake = lake
        self._wanted = wanted
        #: The very rows that the pipeline began with; None: it began with the log.
        self._begun_with = begun
        self._table: HistoryTable | None = None

    def begin(self, history: TableStory) -> Stamp:
        view = self._bounded(self._look())
        wanted = self._wanted
        if wanted.offsets is None:
            wanted = self._again(history, view) or self._covered(history, view)
        self._table = tagged(self._lake, wanted, self._config)
        _, positions = self._table.begin(lambda: self._bounded(self._look()))
        return self._begun(positions)

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

    def _again(self, history: TableStory, view: LogView) -> History | None:
        """What the pipeline took itself; None: the table or the log does not have all of it any more."""
        place = self._begun_with
        first = None if place is None else begun_at(place, history, self.end.pipeline)
        if place is None or first is None:
            return None
        metadata, begun = self._load(), of_log(first.positions)
        there = TableHistory(metadata).snapshot(place.snapshot) is not None
        held = all(
            name in view.topics
            and at.id == view.topics[name].id
            and _between(view.beginnings[name], at, view.ends[name])
            for name, at in begun.items()
        )
        if metadata["table-uuid"] != place.uuid or not there or not held:
            return None
        offsets = {name: begun[name].next if name in begun else () for name in view.topics}
        return replace(self._wanted, offsets=_padded(offsets, view), snapshot=place.snapshot, until=None)

    def _covered(self, history: TableStory, view: LogView) -> History:
        """The newest snapshot that has nothing the pipeline has not read, and not less than the log lacks."""
        wanted, metadata = self._wanted, self._load()
        for snapshot, stamp in _stamped(TableHistory(metadata)):
            if self._fits(stamp, view):
                self._require_whole(
                    history, metadata | {"current-snapshot-id": snapshot.id, "refs": {}}, stamp
                )
                offsets = {name: at.next for name, at in of_log(stamp.positions).items()}
                return replace(wanted, offsets=_padded(offsets, view), snapshot=snapshot.id, until=None)
        raise InvalidInput(
            f"pipeline {self.end.pipeline} cannot be rebuilt with {show(wanted.namespace, wanted.name)}: "
            "none of its snapshots has a stamp of the same topics that reaches what the log still has, and "
            "nothing that the pipeline has not read. Let the pipeline catch up, or keep snapshots of that "
            "table for longer"
        )

    def _load(self) -> dict[str, Any]:
        namespace, name = self._wanted.namespace, self._wanted.name
        try:
            return self._lake.client.tables.load(namespace, name).metadata
        except (NoSuchTable, NoSuchNamespace):
            raise NoSuchTable(
                f"pipeline {self.end.pipeline} cannot be rebuilt with {show(namespace, name)}: there is no "
                "such table. If a dot is part of its name or of its namespace's, name it by --history, with "
                r"a backslash before that dot, such as sales\.eu.orders"
            ) from None

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
        why = others(metadata, stamp).texts()
        mine, its = (
            first_stamp(history, self.end.pipeline),
            first_stamp(MetadataHistory(metadata), stamp.pipeline),
        )
        if self._begun_with is not None:
            # It began where the table did, if it is that table.
            if metadata["table-uuid"] != self._begun_with.uuid:
                why.append("the table was dropped and made again since")
        elif mine is not None and its is not None and of_log(mine.positions) != of_log(its.positions):
            why.append("the pipeline that fills it began at other offsets")
        if not why:
            return
        raise InvalidInput(
            f"pipeline {self.end.pipeline} cannot be rebuilt with that history, which is not what it read: "
            f"{'; '.join(why)}"
        )


def tagged(lake: Lake, wanted: History, config: PipelineConfig) -> HistoryTable:
    """Its tag is that of the rebuild: the pipeline may have one of its own."""
    return HistoryTable(lake, wanted, replace(config, name=name_of_rebuild(config.name)))


def _stamped(history: TableHistory) -> Iterator[tuple[TableSnapshot, Stamp]]:
    """Newest first; only snapshots that are a pipeline's own, so that their rows are what the stamp says."""
    rebuilds = rebuilds_in(snapshot.summary for snapshot in history.ancestry())
    for snapshot in history.ancestry():
        record = Record.decode(snapshot.summary.get(REBUILD))
        for key, text in snapshot.summary.items():
            if not key.startswith(_STAMPS):
                continue
            stamp = Stamp.decode(text)
            if stamp.pipeline not in rebuilds:
                yield snapshot, stamp
            elif record is not None and stamp.pipeline == name_of_rebuild(record.pipeline):
                # What it swapped in is the pipeline's, up to the same place.
                yield snapshot, structs.replace(stamp, pipeline=record.pipeline)


def _padded(offsets: Mapping[str, tuple[int, ...]], view: LogView) -> dict[str, tuple[int, ...]]:
    """Partitions that came later begin at 0."""
    return {name: at + (0,) * (view.topics[name].partitions - len(at)) for name, at in offsets.items()}


def _between(first: tuple[int, ...], at: Position, end: tuple[int, ...]) -> bool:
    count = len(end)
    reached = at.next + (0,) * (count - len(at.next))
    return len(reached) == count and all(
        low <= offset <= high for low, offset, high in zip(first, reached, end, strict=True)
    )
