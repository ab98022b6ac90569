"""Changes of a hot table's log, with the rows that they replace. Runs in tasks and in this process alike.

The row that a change replaces is looked for among the changes since a snapshot, which are kept, and else in
the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.core.schema import Schema
from frazil.hot.log import log_reader
from frazil.hot.read.arrow import key_of
from frazil.hot.read.pins import Pinned, pinned_schema
from frazil.hot.read.tail import GONE, OFFSET, TailRead, last_of
from frazil.lake.arrow_scan import ArrowScan
from frazil.lake.changelog_pairs import AFTER, BEFORE, CHANGE_TYPE, DELETE, INSERT
from frazil.lake.data_rows import Columns
from frazil.lake.key_match import KeyMatcher
from frazil.lake.manifests import Manifests
from frazil.lake.places import KeyedPlace, PlacedFiles
from frazil.lake.wanted import Wanted
from frazil.stream.cdc.fold import key_codes
from frazil.stream.source import Slice

_PARTITION = "frazil partition"
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Told:
    """Some changes in their order, in the columns of the table with `_change_type`; `next` is behind them."""

    rows: pa.RecordBatch
    next: int


class Changelog:
    """The log of one table, on top of the snapshot of `found`: rows are looked up there."""

    def __init__(
        self, found: Pinned, kafka: Mapping[str, str], places: Callable[[], Sequence[KeyedPlace]]
    ) -> None:
        """`places`: where its files lie, with the keys of now."""
        assert found.hot is not None, "ordinary tables have no log"
        self.found = found
        self._places = places
        self.schema = Schema.from_json(pinned_schema(found), str(found))
        self.key = key_of(found, self.schema)
        self._columns = Columns(self.schema)
        reader = log_reader(found.hot.settings(kafka))
        lenient = found.hot.letters is not None
        several = len(found.pins.starts) > 1
        self._read = TailRead(str(found), reader, self.schema, self.key, lenient, several=several)
        key = Schema(tuple(self.schema.field(name) for name in self.key))
        self._key_columns = Columns(key)
        self._manifests = Manifests(field.id for field in key)
        self._changed = self._empty()

    def know(self, part: Slice) -> None:
        """Changes since the snapshot that were told before."""
        if self.key:
            self._remember(pa.Table.from_batches(self._fitted(part), self._changed.schema))

    def changes(self, part: Slice) -> Iterator[Told]:
        """Those of a slice; they are known from then on."""
        for batch in self._fitted(part):
            changes = pa.Table.from_batches([batch])
            following = int(batch.column(OFFSET)[-1].as_py()) + 1
            if not self.key:
                yield Told(self.told(changes, np.full(len(changes), INSERT)), following)
                continue
            rows, kinds = _changelog(self._prior(changes), changes, self.key)
            self._remember(changes)
            yield Told(self.told(rows, kinds), following)

    def rebase(self, found: Pinned) -> None:
        """On a newer snapshot, in which is nothing that was not told: what is in it need not be kept."""
        self.found = found
        at = self._changed.column(_PARTITION).to_numpy()
        later = self._changed.column(OFFSET).to_numpy() >= np.array(found.pins.starts, np.int64)[at]
        self._changed = self._changed.filter(pa.array(later)).combine_chunks()

    def told(self, rows: pa.Table, kinds: npt.NDArray[Any]) -> pa.RecordBatch:
        """Rows of the table, with what became of them."""
        names = [field.name for field in self.schema]
        (batch,) = rows.select(names).combine_chunks().to_batches() or [self._no_rows()]
        return batch.append_column(CHANGE_TYPE, pa.array(kinds.tolist(), pa.string()))

    def _fitted(self, part: Slice) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self.schema]
        for batch in self._read.changes(part):
            if len(batch):
                fitted = self._columns.fitter.fit(batch.select(names))
                partition = pa.array(np.full(len(batch), part.partition, np.int64))
                fitted = fitted.append_column(GONE, batch.column(GONE))
                yield fitted.append_column(OFFSET, batch.column(OFFSET)).append_column(_PARTITION, partition)

    def _prior(self, changes: pa.Table) -> pa.Table:
        """What the keys of the changes were before them; a key may have nothing."""
        _, first = np.unique(key_codes(changes, self.key)[0], return_index=True)
        keys = changes.select(list(self.key)).take(pa.array(first))
        arrays = [column.combine_chunks() for column in keys.columns]
        found, known = [self._empty()], np.zeros(len(keys), np.bool_)
        if len(self._changed):
            mine = [self._changed.column(name).combine_chunks() for name in self.key]
            rows, numbers = KeyMatcher(arrays).find(mine)
            known[numbers] = True
            found.append(self._changed.take(pa.array(rows)))
        rest = keys.filter(pa.array(~known))
        if len(rest) and self.found.pins.snapshot is not None:
            found += [self._alive(batch) for batch in self._scan(rest)]
        return pa.concat_tables(found)

    def _scan(self, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        found, fitter = self.found, self._key_columns.fitter
        assert found.pins.snapshot is not None, "nothing is looked for where nothing is"
        batches = [fitter.fit(batch) for batch in keys.combine_chunks().to_batches()]
        wanted = Wanted(self._key_columns.schema, pa.Table.from_batches(batches, fitter.schema))
        storage = PlacedFiles(self._places())
        scan = ArrowScan(found.metadata, found.pins.snapshot, self.schema, storage, [wanted], self._manifests)
        return scan.batches()

    def _alive(self, batch: pa.RecordBatch) -> pa.Table:
        count = len(batch)
        columns = [*batch.columns, pa.repeat(False, count), *[pa.array(np.zeros(count, np.int64))] * 2]
        return pa.Table.from_arrays(columns, schema=self._changed.schema)

    def _remember(self, changes: pa.Table) -> None:
        batches = [*self._changed.to_batches(), *changes.to_batches()]
        if batches:
            self._changed = last_of(batches, self.key)

    def _empty(self) -> pa.Table:
        more = [pa.field(GONE, pa.bool_()), pa.field(OFFSET, pa.int64()), pa.field(_PARTITION, pa.int64())]
        return pa.Table.from_batches([], pa.schema([*self._columns.fitter.schema, *more]))

    def _no_rows(self) -> pa.RecordBatch:
        schema = self._columns.fitter.schema
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _changelog(prior: pa.Table, changes: pa.Table, key: tuple[str, ...]) -> tuple[pa.Table, npt.NDArray[Any]]:
    """Each change as one or two rows: the row before it, if there was one, and the one after, if there is."""
    every = pa.concat_tables([prior, changes]).combine_chunks()
    codes, _ = key_codes(every, key)
    order = np.argsort(codes, kind="stable")
    same = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    before = np.full(len(every), -1, np.int64)
    before[order[same + 1]] = order[same]
    gone = every.column(GONE).to_numpy()
    after: _Places = np.arange(len(prior), len(every))
    before = before[after]
    had, comes = (before >= 0) & ~gone[before], ~gone[after]
    # Two places for each change; those that stay empty are left out.
    places = np.stack([before, after], axis=1).reshape(-1)
    filled = np.stack([had, comes], axis=1).reshape(-1)
    kinds = np.stack([np.where(comes, BEFORE, DELETE), np.where(had, AFTER, INSERT)], axis=1).reshape(-1)
    return every.take(pa.array(places[filled])), kinds[filled]
