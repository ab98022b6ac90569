"""The changes of an Iceberg table as a source: rows that come, go and are replaced, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.core.errors import Unsupported
from frazil.core.schema import Schema
from frazil.core.stamp import Stamp
from frazil.lake.changelog import shape_of, specs_of
from frazil.lake.changelog_units import Commit, TableFiles
from frazil.lake.history import TableHistory, TableSnapshot
from frazil.lake.places import PlacedFiles
from frazil.stream.tables.change_reader import ChangeReader, diff_slice, file_slices
from frazil.stream.tables.columns import without_ids
from frazil.stream.tables.feed import TableFeed
from frazil.stream.tables.place import Filling, Place, Step


class ChangeFeed(TableFeed):
    """A `Feed` like that of appends, which takes all that happens to the table.

    The rows that are there at the beginning come first, as inserts.
    """

    _known: TableFiles | None = None

    def schema(self) -> Schema:
        return without_ids(self._reader(self._load()).schema)

    def reader(self, stamp: Stamp) -> ChangeReader:
        return self._reader(self._metadata or self._load())

    def _reader(self, metadata: Mapping[str, Any]) -> ChangeReader:
        return ChangeReader.of(self._keys.places(metadata), self._name, metadata)

    def _require_readable(self, metadata: Mapping[str, Any]) -> None:
        shape_of(metadata, self._name)

    def _start_earliest(self, head: TableSnapshot) -> Place:
        return Place(0, 0, head.id)

    def _take(self, stamp: Stamp, filling: Filling, step: Step) -> bool:
        snapshot, files = step.snapshot, self._files()
        if step.whole or snapshot.parent is None:
            return filling.take(snapshot, file_slices(snapshot, files.whole(snapshot, snapshot.sequence)))
        parent = TableHistory(self._metadata).snapshot(snapshot.parent)
        if snapshot.rewrites and (parent is None or files.rewrites(parent, snapshot)):
            filling.skip(snapshot)
            return True
        commit = self._commit(stamp, files, parent, snapshot)
        if commit.plain:
            return filling.take(snapshot, file_slices(snapshot, commit))
        return filling.take_part(snapshot, diff_slice(self._name, snapshot, parent, commit))

    def _commit(
        self, stamp: Stamp, files: TableFiles, parent: TableSnapshot | None, snapshot: TableSnapshot
    ) -> Commit:
        if parent is not None:
            return files.commit(parent, snapshot, snapshot.sequence)
        try:
            return files.append(snapshot, snapshot.sequence)
        except Unsupported as error:
            raise self._changed(stamp, f"cannot be followed: {error.message}") from None

    def _files(self) -> TableFiles:
        """With the keys of now, and what is known of manifests from earlier rounds."""
        storage = PlacedFiles(self._keys.places(self._metadata))
        specs = specs_of(self._metadata, shape_of(self._metadata, self._name).schema)
        if self._known is None:
            self._known = TableFiles(storage, specs)
        self._known.renew(storage, specs)
        return self._known
