"""Where keys are in data files: by reading their key columns, or by what is remembered of those."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.schema import Schema
from frazil.lake.data_rows import Columns, DataRows, open_rows
from frazil.lake.key_match import KeyMatcher, Numbers, lanes
from frazil.lake.manifests import ContentFile
from frazil.lake.name_mapping import NONE, Names
from frazil.lake.pruning import KeyRanges
from frazil.lake.storage import Inputs

#: Of 20 million rows.
_MOST_BYTES = 240_000_000
_ROW_BYTES = 12
#: Where keys are so near to each other, each number between the first and the last has a place of its own:
#: numbers so many times as many as rows.
_DENSE = 3
_MOST_DENSE_ROWS = 1 << 31
#: Files whose first search is remembered.
_SEEN = 100_000


@dataclass(frozen=True)
class _Sorted:
    """The keys of a file in their order, and the position of each; None: they are in order there."""

    keys: Numbers
    positions: npt.NDArray[np.uint32] | None
    #: Another writer may have put a key there twice.
    unique: bool

    @classmethod
    def of(cls, keys: Numbers) -> _Sorted | _Dense:
        positions = None
        if (keys[1:] < keys[:-1]).any():
            positions = np.argsort(keys, kind="stable").astype(np.uint32)
            keys = keys[positions]
        made = cls(keys, positions, bool((keys[1:] > keys[:-1]).all()))
        room = int(keys[-1]) - int(keys[0]) + 1
        dense = made.unique and room <= len(keys) * _DENSE and len(keys) < _MOST_DENSE_ROWS
        return _Dense.of(made, room) if dense else made

    @property
    def size(self) -> int:
        return self.keys.nbytes + (0 if self.positions is None else self.positions.nbytes)

    def find(self, wanted: Numbers) -> Numbers:
        """Positions of all rows that have one of the keys, which are in order and differ."""
        start, end = np.searchsorted(wanted, self.keys[0]), np.searchsorted(wanted, self.keys[-1], "right")
        some = wanted[start:end]
        at = np.searchsorted(self.keys, some)
        there = self.keys[at] == some
        at = at[there]
        if not self.unique:
            count = np.searchsorted(self.keys, some[there], "right") - at
            at = np.repeat(at, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return at if self.positions is None else np.sort(self.positions[at]).astype(np.int64)


@dataclass(frozen=True)
class _Dense:
    """Keys that are near to each other, as numbers are that a database counts up: the position of each number
    from the first key on, -1 where there is none. A search among sorted keys waits for memory at each step.
    """

    first: int
    positions: npt.NDArray[np.int32]
    in_order: bool

    @classmethod
    def of(cls, keys: _Sorted, room: int) -> _Dense:
        first = int(keys.keys[0])
        positions = np.full(room, -1, np.int32)
        rows = np.arange(len(keys.keys)) if keys.positions is None else keys.positions
        positions[keys.keys - first] = rows
        return cls(first, positions, keys.positions is None)

    @property
    def size(self) -> int:
        return self.positions.nbytes

    def find(self, wanted: Numbers) -> Numbers:
        """Positions of all rows that have one of the keys, which are in order and differ."""
        start = np.searchsorted(wanted, self.first)
        end = np.searchsorted(wanted, self.first + len(self.positions) - 1, "right")
        at = self.positions[wanted[start:end] - self.first].astype(np.int64)
        there = at[at >= 0]
        return there if self.in_order else np.sort(there)


class KeyIndexes:
    """Sorted keys of the data files that are searched again and again. For many threads.

    A file that is searched for the second time is kept, if its key is one whole number: such files never
    change, and to look a key up costs next to nothing. There is room for so many bytes; what was not asked
    for the longest goes first.
    """

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], _Sorted | _Dense] = OrderedDict()
        self._size = 0
        self._seen: OrderedDict[tuple[str, int], None] = OrderedDict()

    def get(self, name: tuple[str, int]) -> _Sorted | _Dense | None:
        with self._lock:
            found = self._kept.get(name)
            if found is not None:
                self._kept.move_to_end(name)
            return found

    def wants(self, name: tuple[str, int], rows: int) -> bool:
        """Whether the keys of a file are to be kept, which is searched now."""
        with self._lock:
            again = name in self._seen
            self._seen[name] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
            return again and rows * _ROW_BYTES * 2 <= self._most and rows < 1 << 32

    def keep(self, name: tuple[str, int], keys: Numbers) -> None:
        if not len(keys):
            return
        made = _Sorted.of(keys)
        with self._lock:
            if name not in self._kept:
                self._kept[name] = made
                self._size += made.size
            while self._size > self._most:
                self._size -= self._kept.popitem(last=False)[1].size


class KeySearch:
    """The rows of data files that have one of some keys."""

    def __init__(
        self,
        schema: Schema,
        keys: pa.Table,
        storage: Inputs,
        elsewhere: Mapping[int, frozenset[int]],
        indexes: KeyIndexes,
        names: Names = NONE,
    ) -> None:
        """`schema`: the key columns, with their ids; `keys`: no two are equal; the others: see `Lookup`."""
        self._schema = schema
        self._storage = storage
        self._elsewhere = elsewhere
        self._indexes = indexes
        self._names = names
        self._columns = Columns(schema)
        self._keys = [column.combine_chunks() for column in keys.columns]
        self.ranges = KeyRanges(schema, keys)
        #: The keys in their order, if each is one number that is not null.
        self._numbers: Numbers | None = None
        single = _single(self._keys)
        if single is not None:
            self._numbers = np.sort(single)

    @cached_property
    def _matcher(self) -> KeyMatcher:
        return KeyMatcher(self._keys)

    def positions(self, file: ContentFile) -> Numbers:
        """In order."""
        # A column that was widened since is the same number.
        name = (file.path, self._schema.fields[0].id)
        kept = None if self._numbers is None else self._indexes.get(name)
        if kept is not None and self._numbers is not None:
            return kept.find(self._numbers)
        with open_rows(self._storage, file.path, file.format, self._names) as rows:
            rows.require(file.path, self._schema, self._elsewhere.get(file.spec_id, frozenset()))
            if self._numbers is None or not self._indexes.wants(name, file.records):
                return self._scanned(rows)
            tables = [group.read(self._columns) for group in rows.groups()]
        whole = (
            pa.concat_tables(tables).combine_chunks() if tables else self._columns.fitter.schema.empty_table()
        )
        columns = [column.combine_chunks() for column in whole.columns]
        single = _single(columns)
        if single is not None:
            self._indexes.keep(name, single)
        return self._matcher.find(columns)[0] if len(whole) else _NONE

    def _scanned(self, rows: DataRows) -> Numbers:
        found = [_NONE]
        for group in rows.groups():
            if self.ranges.meet_group(group):
                table = group.read(self._columns)
                matched, _ = self._matcher.find([column.combine_chunks() for column in table.columns])
                found.append(matched + group.first)
        return np.concatenate(found)


def _single(columns: Sequence[pa.Array]) -> Numbers | None:
    if len(columns) != 1:
        return None
    parts = lanes(columns[0])
    if len(parts) != 1 or not pa.types.is_int64(parts[0].type) or parts[0].null_count:
        return None
    numbers: Numbers = parts[0].to_numpy()
    return numbers


_NONE = np.zeros(0, np.int64)
