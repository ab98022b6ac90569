"""The table whose rows come first: the driver's side.

While its rows or the log behind them are needed, a tag keeps the pinned snapshot from expiring. It is set
before the pipeline's first commit names the snapshot; `Hold` says when it is taken away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from frazil.core.errors import (
    CommitFailed,
    CommitStateUnknown,
    FrazilError,
    InvalidConfig,
    NoSuchNamespace,
    NoSuchTable,
    SourceChanged,
)
from frazil.core.failpoints import reach
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.core.stamp import Position, history_tag
from frazil.lake.changelog import shape_of
from frazil.lake.history import TableHistory
from frazil.lake.java import java_errors
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.stream.bootstrap.choice import choose, require_held
from frazil.stream.bootstrap.files import HistoryFiles, history_files, time_column
from frazil.stream.bootstrap.place import Place
from frazil.stream.bootstrap.reader import HistoryReader
from frazil.stream.config.model import History, PipelineConfig
from frazil.stream.fit import problems
from frazil.stream.tables.columns import without_ids

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake
    from frazil.stream.kafka.log import LogView

_logger = logging.getLogger(__name__)
#: Tries to set a tag while others commit to the table.
_CONFLICTS = 10


class HistoryTable:
    """The history of one pipeline."""

    def __init__(self, lake: Lake, wanted: History, config: PipelineConfig) -> None:
        self._lake = lake
        self._wanted = wanted
        self._config = config
        self._keys = ReadKeys(lake.client, wanted.namespace, wanted.name)
        self._tagged = history_tag(config.name)
        self._files: tuple[Place, HistoryFiles] | None = None

    def __str__(self) -> str:
        return show(self._wanted.namespace, self._wanted.name)

    def begin(self, look: Callable[[], LogView]) -> tuple[str, dict[str, Position]]:
        """Source and positions of a pipeline that never ran; the snapshot is pinned."""
        metadata, log = self._load(), look()
        choice = choose(self._wanted, metadata, log)
        schema = shape_of(metadata, str(self), choice.snapshot.schema_id).schema
        self._require_fit(schema)
        column = time_column(schema, self._config.event_time)
        storage = PlacedFiles(self._keys.places(metadata))
        files = history_files(storage, metadata, str(self), choice.snapshot, column)
        place = Place(str(self), str(metadata["table-uuid"]), choice.snapshot.id, files.total, column)
        self._files = place, files
        before = TableHistory(metadata).ref(self._tagged)
        self._tag(place.snapshot)
        reach("history.pinned")
        try:
            # Tiering may have trimmed it until it met the tag.
            require_held(str(self), choice.positions, look())
        except FrazilError:
            if before is None:
                self.release()
            else:
                # Of a reset that comes to nothing: where the pipeline is, it needs what was tagged.
                self._tag(before)
            raise
        return log.source, {**choice.positions, place.topic: place.position()}

    def release(self) -> bool:
        """Take the tag away; whether it is gone. That somebody keeps it there stops no pipeline."""
        reach("history.taken")
        try:
            if self.is_kept():
                self._tag(None)
        except FrazilError as error:
            _logger.warning("the tag %s of the table %s stays: %s", self._tagged, self, error.message)
            return False
        return True

    def is_kept(self) -> bool:
        """Whether the tag is there: somebody may still need the rows."""
        try:
            metadata = self._lake.client.tables.load(self._wanted.namespace, self._wanted.name).metadata
        except (NoSuchTable, NoSuchNamespace):
            return False
        return TableHistory(metadata).ref(self._tagged) is not None

    def reader(self, place: Place) -> HistoryReader:
        """What reads the rows, which are there until they are released."""
        metadata = self._pinned(place)
        if TableHistory(metadata).ref(self._tagged) != place.snapshot:
            # Somebody dropped it, or the pipeline was reset to a commit of before it was taken away.
            self._tag(place.snapshot)
        return HistoryReader(self._keys.places(metadata), self.files(place, metadata))

    def files(self, place: Place, metadata: Mapping[str, Any] | None = None) -> HistoryFiles:
        """Read once: what is pinned does not change."""
        if self._files is None or self._files[0].position().id != place.position().id:
            metadata = metadata or self._pinned(place)
            snapshot = TableHistory(metadata).snapshot(place.snapshot)
            assert snapshot is not None, "it was just found"
            storage = PlacedFiles(self._keys.places(metadata))
            found = history_files(storage, metadata, str(self), snapshot, place.ordered_by)
            if found.total != place.total:
                raise self._lost(f"has {found.total} rows in snapshot {place.snapshot}, not {place.total}")
            self._files = place, found
        return self._files[1]

    def _pinned(self, place: Place) -> Mapping[str, Any]:
        if place.table != str(self):
            raise SourceChanged(
                f"pipeline {self._config.name} began with the history in {place.table} and has not taken all "
                f"of it, and its history is {self} now: change it back"
            )
        metadata = self._load()
        if metadata["table-uuid"] != place.uuid:
            raise self._lost(f"was dropped and made again (its id was {place.uuid})")
        if TableHistory(metadata).snapshot(place.snapshot) is None:
            raise self._lost(f"has no snapshot {place.snapshot} any more")
        return metadata

    def _lost(self, found: str) -> SourceChanged:
        return SourceChanged(
            f"pipeline {self._config.name} has not taken all rows of its history, and the table {self} "
            f"{found}. Nothing was written. Begin anew: drop the pipeline's own table, or give the pipeline "
            "another name and table"
        )

    def _load(self) -> Mapping[str, Any]:
        try:
            return self._lake.client.tables.load(self._wanted.namespace, self._wanted.name).metadata
        except (NoSuchTable, NoSuchNamespace):
            raise InvalidConfig(
                f"pipeline '{self._config.name}': there is no table {self} that could be its history"
            ) from None

    def _require_fit(self, history: Schema) -> None:
        """Columns that both have must be of types that fit; whole rows would be bad else."""
        config = self._config
        if config.changes is not None:
            return
        wanted = {field.name: field for field in config.source_schema}
        shared = Schema(tuple(field for field in without_ids(history) if field.name in wanted))
        lacking = [
            f"the history has no column '{name}', which the pipeline requires"
            for name, field in wanted.items()
            if field.required and name not in {one.name for one in shared}
        ]
        expected = Schema(tuple(wanted[field.name] for field in shared))
        misfits = [] if config.contract.types == "evolve" else problems(shared, expected)
        if not shared.fields:
            lacking = ["they have no column in common"]
        if lacking or misfits:
            told = [one.replace("in the table", "here").replace("in the rows", "there") for one in misfits]
            raise InvalidConfig(
                f"pipeline '{config.name}' cannot begin with the table {self}: {'; '.join(lacking + told)}. "
                "Columns are found by their names: change the pipeline's schema, or take another table"
            )

    def _tag(self, snapshot: int | None) -> None:
        """Point the tag there, or remove it."""
        name = self._tagged
        for _ in range(_CONFLICTS):
            table = self._lake.load(self._wanted.namespace, self._wanted.name)
            there = table.ref(name)
            if there == snapshot:
                return
            try:
                with java_errors(f"tagging the table {self}"):
                    change = table.java.manageSnapshots()
                    if snapshot is None:
                        change.removeTag(name)
                    elif there is None:
                        change.createTag(name, snapshot)
                    else:
                        change.replaceTag(name, snapshot)
                    change.commit()
            except (CommitFailed, CommitStateUnknown) as error:
                # Whether it landed is seen when the table is loaded again.
                last = error
            else:
                return
        raise last
