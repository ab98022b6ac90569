"""Appends to a table read again: its rows at the snapshot that the stamp names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.core.errors import Unsupported
from frazil.core.names import show
from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import History
from frazil.lake.history import Rewritten, TableHistory, TableSnapshot
from frazil.lake.name_mapping import names_of
from frazil.lake.places import ReadKeys
from frazil.stream.config.model import Limits, TableSource
from frazil.stream.rebuild.past import BoundedFeed, Mask, first_stamp, tasks_for
from frazil.stream.rounds import RoundPlan, cut
from frazil.stream.source import Slice
from frazil.stream.tables.columns import identities, source_schema
from frazil.stream.tables.manifests import Manifests, SourceFile
from frazil.stream.tables.place import Filling, Place, Step, steps_from
from frazil.stream.tables.reader import TableReader, slice_of

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake


class TablePast(BoundedFeed):
    """Nothing was taken away since the pipeline began, so what was appended is what is there."""

    def __init__(self, source: TableSource, lake: Lake, end: Stamp) -> None:
        super().__init__(end)
        self._source = source
        self._client = lake.client
        self._name = show(source.namespace, source.name)
        self._keys = ReadKeys(lake.client, source.namespace, source.name)
        self._manifests = Manifests()
        self._metadata: Mapping[str, Any] = {}

    def begin(self, history: History) -> Stamp:
        self._load()
        position = self.end.positions.get(self._name)
        if position is None or position.id != self._metadata["table-uuid"]:
            raise self._lost(
                f"its source, the table {self._name}, was dropped and made again, or is another",
                "bring the table back",
            )
        return self._begun({self._name: Position(id=position.id, next=self._began(history).numbers())})

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        """Whole files, as many as a round may take; the last round ends exactly where the stamp does."""
        self._load()
        end = self.end.positions[self._name]
        try:
            filling = self._filled(Place.of(stamp.positions[self._name]), Place.of(end), limits)
        except Rewritten as error:
            raise self._lost(
                f"its source, the table {self._name}, has another history: {error}",
                "let the pipeline catch up, and rebuild then",
            ) from None
        tasks = cut(filling.slices, tasks_for(filling.records, limits, parallelism))
        position = Position(id=end.id, next=filling.place.numbers())
        return RoundPlan(tasks, {self._name: position}, filling.records, {self._name: (filling.rest,)})

    def reader(self, stamp: Stamp) -> TableReader:
        metadata = self._metadata
        return TableReader(
            self._keys.places(metadata),
            source_schema(metadata, self._name),
            identities(metadata),
            names_of(metadata),
        )

    def covers(self, letters: pa.Table) -> Mask:
        """None: files are rewritten, so that nobody can say which record a letter is of."""
        return np.zeros(len(letters), np.bool_)

    def _load(self) -> None:
        self._metadata = self._client.tables.load(self._source.namespace, self._source.name).metadata
        self._manifests.places = self._keys.places(self._metadata)

    def _began(self, history: History) -> Place:
        first, end = first_stamp(history, self.end.pipeline), Place.of(self.end.positions[self._name])
        if first is not None and self._name in first.positions:
            place = Place.of(first.positions[self._name])
        elif self._source.start.at == "earliest":
            place = Place(0)
        else:
            raise self._lost(
                "it did not begin with all rows of its source, and the commit that says where expired",
                "make a pipeline of another name and table",
            )
        # What was in the table at first is there still, among what came later: all of it is read at once.
        return place if place.read else Place(0, 0, end.read or end.current)

    def _filled(self, place: Place, end: Place, limits: Limits) -> Filling:
        filling = Filling(limits.records_per_round, place)
        for step in () if place == end else steps_from(TableHistory(self._metadata), place):
            snapshot = step.snapshot
            if snapshot.rewrites and not step.whole:
                filling.skip(snapshot)
            else:
                files = self._files(step)
                last = snapshot.id == end.current
                taken = filling.take(snapshot, self._slices(snapshot, files[: end.taken] if last else files))
                if taken and last:
                    filling.place = end
                if not taken:
                    break
            if filling.place == end:
                break
        return filling

    def _files(self, step: Step) -> list[SourceFile]:
        if not step.whole:
            return self._manifests.added(step.snapshot)
        if self._manifests.has_deletes(step.snapshot):
            raise Unsupported(
                f"rows of the table {self._name} are deleted by delete files, which frazil does not apply to "
                "a source: rewrite its files first, let the pipeline catch up, and rebuild then"
            )
        return self._manifests.live(step.snapshot)

    def _slices(self, snapshot: TableSnapshot, files: list[SourceFile]) -> list[Slice]:
        return [slice_of(file, snapshot.millis) for file in files]
