"""An Iceberg table as a source: the driver's side.

Snapshots of main are read one after another, each by the files that it added. What compaction rewrites is not
read again; what takes rows away stops the pipeline, once everything before it has landed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.core.errors import InvalidConfig, NoSuchNamespace, NoSuchTable, SourceChanged, Unsupported
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.lake.history import Rewritten, TableHistory, TableSnapshot
from frazil.lake.name_mapping import names_of
from frazil.lake.places import ReadKeys
from frazil.lake.scan import live_files
from frazil.stream.config.model import Limits, TableSource
from frazil.stream.rounds import RoundPlan, cut
from frazil.stream.source import Goal, Slice
from frazil.stream.tables.change_reader import ChangeReader
from frazil.stream.tables.columns import identities, source_schema, without_ids
from frazil.stream.tables.manifests import Manifests, SourceFile
from frazil.stream.tables.place import Filling, Place, Step, steps_from
from frazil.stream.tables.reader import FORMATS, TableReader, slice_of

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake


class TableFeed:
    """A `Feed` over the appends to a table of the same catalog."""

    def __init__(self, source: TableSource, lake: Lake) -> None:
        self._source = source
        self._lake = lake
        self._client = lake.client
        self._name = show(source.namespace, source.name)
        self._keys = ReadKeys(lake.client, source.namespace, source.name)
        self._manifests = Manifests()
        self._metadata: Mapping[str, Any] = {}
        #: Snapshots that the last plan left for later ones.
        self._left: set[int] = set()
        #: A place behind a position, with nothing to read between them: what is between may expire.
        self._passed: tuple[Position, Place] | None = None

    def schema(self) -> Schema:
        return without_ids(source_schema(self._load(), self._name))

    def first(self) -> tuple[str, dict[str, Position]]:
        metadata = self._load()
        uuid = str(metadata["table-uuid"])
        self._require_readable(metadata)
        place = self._start(metadata)
        return f"table:{uuid}", {self._name: Position(id=uuid, next=place.numbers())}

    def goal(self) -> Goal:
        head = TableHistory(self._load()).head

        def reached(stamp: Stamp, plan: RoundPlan) -> bool:
            return head not in self._left and not Place.of(plan.positions[self._name]).beginning

        return reached

    def plan(self, stamp: Stamp, limits: Limits, parallelism: int) -> RoundPlan:
        try:
            metadata = self._load()
        except (NoSuchTable, NoSuchNamespace):
            raise self._changed(stamp, "is gone") from None
        position = stamp.positions.get(self._name)
        if position is None or position.id != metadata["table-uuid"]:
            was = ", ".join(f"{name} with the id {read.id}" for name, read in stamp.positions.items())
            raise self._changed(
                stamp,
                f"has the id {metadata['table-uuid']}, and what was read is {was}: it was dropped and made "
                "again, or the pipeline was given another one",
            )
        try:
            return self._plan(stamp, metadata, position, limits, parallelism)
        except Rewritten as error:
            raise self._changed(stamp, f"has another history: {error}") from None

    def confirm(self, stamp: Stamp, plan: RoundPlan) -> None:
        """Data files never change: what was read is what the plan said."""

    def reader(self, stamp: Stamp) -> TableReader | ChangeReader:
        metadata = self._metadata or self._load()
        return TableReader(
            self._keys.places(metadata),
            source_schema(metadata, self._name),
            identities(metadata),
            names_of(metadata),
        )

    def landed(self, plan: RoundPlan) -> None:
        """The stamp knows all there is to know."""

    def ledger(self, plan: RoundPlan) -> Mapping[str, pa.Table]:
        return {}

    def _load(self) -> Mapping[str, Any]:
        self._metadata = self._client.tables.load(self._source.namespace, self._source.name).metadata
        self._manifests.places = self._keys.places(self._metadata)
        return self._metadata

    def _start(self, metadata: Mapping[str, Any]) -> Place:
        history, at = TableHistory(metadata), self._source.start.at
        head = None if history.head is None else history.snapshot(history.head)
        if isinstance(at, datetime):
            return self._start_at(history, at)
        if at not in ("earliest", "latest"):
            raise InvalidConfig(
                f"the table {self._name} has no offsets to begin at: use earliest, latest or a time"
            )
        if head is None or at == "latest":
            return Place(history.head or 0)
        return self._start_earliest(head)

    def _require_readable(self, metadata: Mapping[str, Any]) -> None:
        source_schema(metadata, self._name)

    def _start_earliest(self, head: TableSnapshot) -> Place:
        if self._has_deletes(head):
            raise Unsupported(
                f"rows of the table {self._name} are deleted by delete files, which frazil does not apply to "
                "a source: rewrite its files first (Spark: CALL system.rewrite_data_files with the options "
                "delete-file-threshold 1 and remove-dangling-deletes true), take its changes as rows "
                "(`changes: true`), or only what is appended from now on (`start: latest`)"
            )
        return Place(0, 0, head.id)

    def _has_deletes(self, snapshot: TableSnapshot) -> bool:
        """Delete files stay when what they were for is rewritten: Iceberg knows which of them still apply."""
        if not self._manifests.has_deletes(snapshot):
            return False
        table = self._lake.load(self._source.namespace, self._source.name)
        return any(file.deleted != 0 for file in live_files(table, snapshot.id))

    def _start_at(self, history: TableHistory, moment: datetime) -> Place:
        try:
            found = history.newest_at(moment, before=True)
        except Rewritten as error:
            raise InvalidConfig(
                f"a pipeline cannot begin at {moment.isoformat()} of the table {self._name}: {error}; use a "
                "later time, earliest or latest"
            ) from None
        return Place(0 if found is None else found.id)

    def _plan(
        self, stamp: Stamp, metadata: Mapping[str, Any], position: Position, limits: Limits, parallelism: int
    ) -> RoundPlan:
        place, steps = self._steps(TableHistory(metadata), position)
        filling = Filling(limits.records_per_round, place)
        while steps and self._take(stamp, filling, steps[0]):
            steps = steps[1:]
        if not filling.slices:
            self._passed = position, filling.place
        self._left = {step.snapshot.id for step in steps}
        lag = sum(step.records for step in steps)
        if steps and filling.place.current == steps[0].snapshot.id:
            lag += filling.rest - steps[0].records
        tasks = min(parallelism, -(-filling.records // limits.records_per_task))
        return RoundPlan(
            cut(filling.slices, max(1, tasks)),
            {self._name: Position(id=position.id, next=filling.place.numbers())},
            filling.records,
            {self._name: (lag,)},
        )

    def _steps(self, history: TableHistory, position: Position) -> tuple[Place, list[Step]]:
        if self._passed is not None and self._passed[0] == position:
            with suppress(Rewritten):
                return self._passed[1], steps_from(history, self._passed[1])
        return Place.of(position), steps_from(history, Place.of(position))

    def _take(self, stamp: Stamp, filling: Filling, step: Step) -> bool:
        """Whether the next snapshot can be looked at in the same round."""
        snapshot = step.snapshot
        if step.whole:
            return filling.take(snapshot, self._slices(snapshot, self._manifests.live(snapshot)))
        if snapshot.rewrites:
            filling.skip(snapshot)
            return True
        if snapshot.removals():
            if filling.slices:
                return False
            raise self._takes_away(stamp, snapshot)
        return filling.take(snapshot, self._slices(snapshot, self._manifests.added(snapshot)))

    def _slices(self, snapshot: TableSnapshot, files: list[SourceFile]) -> list[Slice]:
        for file in files:
            if file.format not in FORMATS:
                raise Unsupported(
                    f"the table {self._name} has a data file in {file.format}, and frazil reads "
                    f"{' and '.join(FORMATS)} as a source: {file.path}"
                )
        return [slice_of(file, snapshot.millis) for file in files]

    def _takes_away(self, stamp: Stamp, snapshot: TableSnapshot) -> SourceChanged:
        what = ", ".join(f"{name}: {count}" for name, count in snapshot.removals().items())
        return self._changed(
            stamp,
            f"does not only grow: snapshot {snapshot.id} of {snapshot.time.isoformat(timespec='seconds')} "
            f"({snapshot.operation}) takes rows away ({what}), and only appends can be followed, unless "
            "the source says `changes: true`. What was appended before it was read",
        )

    def _changed(self, stamp: Stamp, found: str) -> SourceChanged:
        return SourceChanged(
            f"pipeline {stamp.pipeline}: the table {self._name}, its source, {found}. Nothing was written; "
            "roll the source back to what it was, or begin anew: a pipeline of another name reads what is in "
            "the table (`start: earliest`) or what will be appended (`start: latest`)"
        )
