"""Finds the rows of keys in data files and writes what takes them away. Runs in tasks: there is no JVM."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from frazil.core.schema import Schema
from frazil.lake.data_rows import Columns, DataRows, RowGroup, open_rows
from frazil.lake.deleted_rows import DeletedRows
from frazil.lake.deletion_vector import bitmap_of, positions_of
from frazil.lake.delta import DeleteFile
from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.key_match import KeyMatcher, Numbers
from frazil.lake.live import Target
from frazil.lake.name_mapping import Names
from frazil.lake.patches import Patches
from frazil.lake.pruning import KeyRanges
from frazil.lake.removals import Removals
from frazil.lake.sequence import Bounds, sequence_numbers
from frazil.lake.storage import FileStorage, is_local
from frazil.lake.writer import TableWriter

_THREADS = 6


@dataclass(frozen=True)
class Lookup:
    """What all tasks of a lookup share; picklable, without any key to a store."""

    #: The key columns, with their ids.
    schema: Schema
    #: A row for each key, by name; those of `patches` come first, one for each.
    keys: pa.Table
    format_version: int
    #: What names of files begin with, behind place and directory.
    prefix: str
    #: Of the table, for rows that are completed.
    target: WriteTarget
    #: By partition spec, the columns whose values may lie elsewhere than in data files.
    elsewhere: Mapping[int, frozenset[int]] = field(default_factory=dict)
    #: Of columns in files that were not written for the table.
    names: Names = field(default_factory=dict)
    patches: Patches | None = None
    #: Where a patch has several current rows: the one that counts, as path and position.
    chosen: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    #: Where a column orders changes: rows that are newer stay.
    bounds: Bounds | None = None


@dataclass(frozen=True)
class LookupTask:
    """Data files for one task."""

    number: int
    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Patched:
    """A patch whose current row was found."""

    number: int
    #: Of the current row: how young it is, by the column that orders changes and by its file, and where.
    age: tuple[int, int]
    path: str
    position: int
    #: The row is newer, and stays.
    late: bool = False


@dataclass(frozen=True)
class Found:
    """What a task found and wrote."""

    rows: tuple[DataFile, ...] = ()
    deletes: tuple[DeleteFile, ...] = ()
    #: In the JSON of the REST spec, as in `RowDelta`.
    replaced: tuple[dict[str, Any], ...] = ()
    removed: tuple[dict[str, Any], ...] = ()
    #: Rows that were there and go.
    matched: int = 0
    patched: tuple[Patched, ...] = ()
    #: Keys, other than those of patches, that have a row that is newer and stays.
    late: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Hits:
    """Rows of one file that have a key."""

    #: Positions in the file, in order, and the number of the key of each.
    positions: Numbers
    keys: Numbers
    #: What they have in the column that orders changes, if there is one.
    current: Numbers | None = None

    def filter(self, kept: npt.NDArray[np.bool_]) -> _Hits:
        current = None if self.current is None else self.current[kept]
        return _Hits(self.positions[kept], self.keys[kept], current)


def look_up(task: LookupTask, lookup: Lookup, storage: FileStorage) -> Found:
    """All files of a task. If it fails, nothing of it is left that is of use to anybody."""
    return _Search(task, lookup, storage).run()


class _Search:
    def __init__(self, task: LookupTask, lookup: Lookup, storage: FileStorage) -> None:
        self._task = task
        self._lookup = lookup
        self._storage = storage
        # A task may run twice: each run has names of its own.
        self._prefix = f"{lookup.prefix}-{task.number:05d}-{secrets.token_hex(4)}"
        keys = [column.combine_chunks() for column in lookup.keys.columns]
        self._matcher = KeyMatcher(keys)
        self._ranges = KeyRanges(lookup.schema, lookup.keys)
        self._columns = Columns(lookup.schema)
        self._writer: TableWriter | None = None
        self._deleted = DeletedRows(storage, task.targets, lookup.target.schema)
        #: Held by the thread that changes what is below.
        self._lock = threading.Lock()
        self._removals = Removals(storage, self._prefix, lookup.format_version)
        self._patched: list[Patched] = []
        self._late: list[int] = []
        self._matched = 0

    def run(self) -> Found:
        try:
            self._files()
            gone = self._removals.close()
            rows = () if self._writer is None else tuple(self._writer.close())
        except BaseException:
            if self._writer is not None:
                self._writer.abort()
            raise
        return Found(
            rows,
            gone.deletes,
            gone.replaced,
            gone.removed,
            self._matched,
            tuple(self._patched),
            tuple(self._late),
        )

    def _files(self) -> None:
        """A store far away is waited for most of the time; the local disk is not."""
        if is_local(self._lookup.prefix):
            for target in self._task.targets:
                self._file(target)
            return
        with ThreadPoolExecutor(min(_THREADS, len(self._task.targets))) as pool:
            list(pool.map(self._file, self._task.targets))

    def _file(self, target: Target) -> None:
        file = target.file
        with open_rows(self._storage, file.path, file.format, self._lookup.names) as rows:
            elsewhere = self._lookup.elsewhere.get(file.spec_id, frozenset())
            rows.require(file.path, self._lookup.schema, elsewhere)
            hits = self._hits(rows)
            if not len(hits.positions):
                return
            own, shared = self._deleted.positions(target)
            hits = self._living(hits, own | shared)
            if target.equality and len(hits.positions):
                hits = self._not_equal(target, rows, hits)
            if self._lookup.bounds is not None and len(hits.positions):
                hits = self._not_newer(target, rows, hits, self._lookup.bounds)
            if not len(hits.positions):
                return
            with self._lock:
                self._matched += len(hits.positions)
                self._complete(target, rows, hits, elsewhere)
        self._removals.take(target, bitmap_of(hits.positions), own, shared)

    def _hits(self, rows: DataRows) -> _Hits:
        positions, keys = [_NONE], [_NONE]
        for group in rows.groups():
            if self._ranges.meet_group(group):
                table = group.read(self._columns)
                found = self._matcher.find([column.combine_chunks() for column in table.columns])
                positions.append(found[0] + group.first)
                keys.append(found[1])
        return _Hits(np.concatenate(positions), np.concatenate(keys))

    def _living(self, hits: _Hits, dead: BitMap64) -> _Hits:
        if not dead:
            return hits
        alive = bitmap_of(hits.positions) - dead
        return hits.filter(np.isin(hits.positions, positions_of(alive), assume_unique=True))

    def _not_equal(self, target: Target, rows: DataRows, hits: _Hits) -> _Hits:
        """Without those that other writers deleted by value."""
        kept = np.ones(len(hits.positions), np.bool_)
        for file in target.equality:
            columns, matcher = self._deleted.values(file)
            if matcher is None:
                continue
            for group, places, mine in _by_group(rows, hits.positions):
                table = group.read(columns).take(pa.array(places))
                found, _ = matcher.find([column.combine_chunks() for column in table.columns])
                kept[mine.start + found] = False
        return hits.filter(kept)

    def _not_newer(self, target: Target, rows: DataRows, hits: _Hits, bounds: Bounds) -> _Hits:
        """Without those that no change of their key counts for. Of several rows of a key, older ones go."""
        path = target.file.path
        rows.require(path, bounds.schema, self._lookup.elsewhere.get(target.file.spec_id, frozenset()))
        columns = Columns(bounds.schema)
        parts = [
            sequence_numbers(group.read(columns).take(pa.array(places)).column(0))
            for group, places, _ in _by_group(rows, hits.positions)
        ]
        current = np.concatenate(parts)
        hits = _Hits(hits.positions, hits.keys, current)
        newer = (current > bounds.highest[hits.keys]) & self._counting(path, hits)
        if newer.any():
            late, patches = hits.filter(newer), self._lookup.patches
            of_patches = late.keys < (0 if patches is None else len(patches))
            with self._lock:
                self._late += late.keys[~of_patches].tolist()
                self._patched += _patched(target, late.filter(of_patches), late=True)
        return hits.filter(~newer)

    def _counting(self, path: str, hits: _Hits) -> npt.NDArray[np.bool_]:
        """All but the rows of patches that have another, which counts."""
        chosen = self._lookup.chosen
        if not chosen:
            return np.ones(len(hits.keys), np.bool_)
        places = zip(hits.keys.tolist(), hits.positions.tolist(), strict=True)
        return np.array([chosen.get(key, (path, at)) == (path, at) for key, at in places], np.bool_)

    def _complete(self, target: Target, rows: DataRows, hits: _Hits, elsewhere: frozenset[int]) -> None:
        """Write the rows of patches that are found here."""
        lookup, path = self._lookup, target.file.path
        patches = lookup.patches
        if patches is None:
            return
        hits = hits.filter((hits.keys < len(patches)) & self._counting(path, hits))
        if not len(hits.keys):
            return
        if lookup.bounds is None or hits.current is None:
            sources = patches.sources(hits.keys)
        else:
            sources = lookup.bounds.sources(patches, hits.keys, hits.current)
        schema = lookup.target.schema
        lacking = [each for each in schema if each.name in sources and (sources[each.name] < 0).any()]
        rows.require(path, Schema(tuple(lacking)), elsewhere)
        groups = [(group, places) for group, places, _ in _by_group(rows, hits.positions)]
        filled = patches.filled(sources, schema, groups)
        if self._writer is None:
            self._writer = TableWriter(lookup.target, self._storage, self._prefix)
        for batch in filled.to_batches():
            self._writer.write(batch)
        self._patched += _patched(target, hits)


def _patched(target: Target, hits: _Hits, *, late: bool = False) -> list[Patched]:
    current = np.zeros_like(hits.keys) if hits.current is None else hits.current
    found = zip(hits.keys.tolist(), current.tolist(), hits.positions.tolist(), strict=True)
    return [
        Patched(key, (value, target.file.sequence), target.file.path, at, late) for key, value, at in found
    ]


def _by_group(rows: DataRows, positions: Numbers) -> Sequence[tuple[RowGroup, Numbers, slice]]:
    """Sorted positions by the groups that they are in: places in the group, and which of them it has."""
    found = []
    for group in rows.groups():
        start, end = np.searchsorted(positions, [group.first, group.first + group.count])
        if start < end:
            found.append((group, positions[start:end] - group.first, slice(start, end)))
    return found


_NONE = np.zeros(0, np.int64)
