"""A hot table as a stream: what is in Iceberg first, then its log, with no gap and no overlap.

Of a keyed table it is a changelog. The row that a change replaces is looked for among the changes since the
snapshot, which are kept, and else in the snapshot; when tiering has committed what was already given, its
snapshot takes the place of the older one, and the changes in it are let go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import Unsupported
from frazil.core.schema import Schema
from frazil.hot.read.arrow import Union, found_at, key_of
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.pins import Pinned, Pins, log_ends, opened, pinned, pinned_schema
from frazil.hot.read.tail import GONE, OFFSET, TailRead, last_of
from frazil.lake.arrow_scan import ArrowScan, Wanted
from frazil.lake.changelog_pairs import AFTER, BEFORE, CHANGE_TYPE, DELETE, INSERT
from frazil.lake.data_rows import Columns
from frazil.lake.key_match import KeyMatcher
from frazil.lake.manifests import Manifests
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.stream.cdc.fold import key_codes
from frazil.stream.kafka.feed import KafkaReader
from frazil.stream.source import Slice

_PARTITION = "frazil partition"
_Places = npt.NDArray[np.int64]
#: How often it is asked for a newer snapshot.
_REBASE_SECONDS = 30.0


@dataclass(frozen=True)
class Followed:
    """Some changes, in the columns of the table, with `_change_type`."""

    rows: pa.RecordBatch
    #: Where the stream is after them: `follow(…, pins=…)` goes on there.
    pins: Pins


def follow(
    name: str,
    *,
    pins: Pins | str | None = None,
    kafka: Mapping[str, str] | None = None,
    catalog: CatalogLike | None = None,
    bounded: bool = False,
    poll_seconds: float = 0.2,
) -> Iterator[Followed]:
    """Rows of a hot table and then its changes, until the caller stops, or, `bounded`, up to what is there.

    All rows of its snapshot come as INSERT; of a keyed table UPDATE_BEFORE and UPDATE_AFTER, one behind the
    other, and DELETE follow. With the `pins` of an earlier call it goes on after them, without the history.
    The columns are those that the table had when it began.

    >>> for some in follow("shop.orders"):  # doctest: +SKIP
    ...     print(some.rows.to_pylist())
    """
    with connected(catalog) as client:
        found = found_at(client, name, pins, kafka)
        if found.hot is None:
            raise Unsupported(f"{found} is no hot table, it has no log: see `frazil changes` for its changes")
        following = _Following(client, found, kafka or {}, resumed=pins is not None)
        end = found.pins.ends if pins is None else log_ends(found, kafka)
        if pins is None:
            yield from following.history()
        while True:
            yield from following.up_to(end)
            if bounded:
                return
            found = following.rebased()
            end = log_ends(found, kafka)
            if end == following.next:
                time.sleep(poll_seconds)


class _Following:
    """The state of one stream; `found` is what its rows are looked up in."""

    def __init__(self, client: Client, found: Pinned, kafka: Mapping[str, str], *, resumed: bool) -> None:
        assert found.hot is not None, "ordinary tables have no log"
        self._client = client
        self._kafka = kafka
        self._found = found
        self._schema = Schema.from_json(pinned_schema(found))
        self._key = key_of(found, self._schema)
        self._columns = Columns(self._schema)
        reader = KafkaReader(found.hot.settings(kafka), keys=True)
        lenient = found.hot.letters is not None
        self._read = TailRead(str(found), reader, self._schema, self._key, lenient)
        self._keys = ReadKeys(client, found.namespace, found.name)
        key = Schema(tuple(self._schema.field(name) for name in self._key))
        self._key_columns = Columns(key)
        self._manifests = Manifests(field.id for field in key)
        self._changed = self._empty()
        self._asked = time.monotonic()
        self.next = found.pins.starts
        if resumed:
            for part in found.pins.slices() if self._key else ():
                self._remember(pa.Table.from_batches(self._fitted(part), self._changed.schema))
            self.next = found.pins.ends

    def history(self) -> Iterator[Followed]:
        found = self._found
        only = msgspec.structs.replace(found.pins, ends=found.pins.starts)
        base = Pinned(only, found.namespace, found.name, found.metadata, found.hot)
        for batch in Union(base, self._client, self._kafka).batches():
            yield self._told(pa.Table.from_batches([batch]), np.full(len(batch), INSERT))

    def up_to(self, ends: tuple[int, ...]) -> Iterator[Followed]:
        self.next += (0,) * (len(ends) - len(self.next))
        for partition, (start, end) in enumerate(zip(self.next, ends, strict=True)):
            if start >= end:
                continue
            for batch in self._fitted(Slice(self._found.pins.topic, partition, start, end)):
                changes = pa.Table.from_batches([batch])
                self._reached(partition, int(batch.column(OFFSET)[-1].as_py()) + 1)
                if not self._key:
                    yield self._told(changes, np.full(len(changes), INSERT))
                    continue
                rows, kinds = _changelog(self._prior(changes), changes, self._key)
                self._remember(changes)
                if len(rows):
                    yield self._told(rows, kinds)
            self._reached(partition, end)

    def rebased(self) -> Pinned:
        """On a newer snapshot, if there is one, and nothing is in it that was not given yet."""
        if time.monotonic() - self._asked < _REBASE_SECONDS:
            return self._found
        self._asked = time.monotonic()
        newer = pinned(self._client, self._found.pins.table, kafka=self._kafka, fresh=False)
        starts = newer.pins.starts
        given = self.next + (0,) * (len(starts) - len(self.next))
        if newer.pins.uuid != self._found.pins.uuid:
            return opened(self._client, self._pins(), kafka=self._kafka)
        if all(start <= reached for start, reached in zip(starts, given, strict=True)):
            kept = msgspec.structs.replace(newer.pins, schema=self._found.pins.schema)
            self._found = Pinned(kept, newer.namespace, newer.name, newer.metadata, newer.hot)
            at = self._changed.column(_PARTITION).to_numpy()
            later = self._changed.column(OFFSET).to_numpy() >= np.array(starts, np.int64)[at]
            self._changed = self._changed.filter(pa.array(later)).combine_chunks()
        return self._found

    def _pins(self) -> Pins:
        starts = self._found.pins.starts
        starts += (0,) * (len(self.next) - len(starts))
        return msgspec.structs.replace(self._found.pins, starts=starts, ends=self.next)

    def _told(self, rows: pa.Table, kinds: npt.NDArray[Any]) -> Followed:
        names = [field.name for field in self._schema]
        (batch,) = rows.select(names).combine_chunks().to_batches() or [self._no_rows()]
        return Followed(batch.append_column(CHANGE_TYPE, pa.array(kinds.tolist(), pa.string())), self._pins())

    def _fitted(self, part: Slice) -> Iterator[pa.RecordBatch]:
        names = [field.name for field in self._schema]
        for batch in self._read.changes(part):
            if len(batch):
                fitted = self._columns.fitter.fit(batch.select(names))
                partition = pa.array(np.full(len(batch), part.partition, np.int64))
                fitted = fitted.append_column(GONE, batch.column(GONE))
                yield fitted.append_column(OFFSET, batch.column(OFFSET)).append_column(_PARTITION, partition)

    def _prior(self, changes: pa.Table) -> pa.Table:
        """What the keys of the changes were before them; a key may have nothing."""
        keys = changes.select(list(self._key)).group_by(list(self._key)).aggregate([])
        arrays = [column.combine_chunks() for column in keys.columns]
        found, known = [self._empty()], np.zeros(len(keys), np.bool_)
        if len(self._changed):
            mine = [self._changed.column(name).combine_chunks() for name in self._key]
            rows, numbers = KeyMatcher(arrays).find(mine)
            known[numbers] = True
            found.append(self._changed.take(pa.array(rows)))
        rest = keys.filter(pa.array(~known))
        if len(rest) and self._found.pins.snapshot is not None:
            found += [self._alive(batch) for batch in self._scan(rest)]
        return pa.concat_tables(found)

    def _scan(self, keys: pa.Table) -> Iterator[pa.RecordBatch]:
        found, fitter = self._found, self._key_columns.fitter
        assert found.pins.snapshot is not None, "nothing is looked for where nothing is"
        batches = [fitter.fit(batch) for batch in keys.combine_chunks().to_batches()]
        wanted = Wanted(self._key_columns.schema, pa.Table.from_batches(batches, fitter.schema))
        storage = PlacedFiles(self._keys.places(found.metadata))
        scan = ArrowScan(found.metadata, found.pins.snapshot, self._schema, storage, wanted, self._manifests)
        return scan.batches()

    def _alive(self, batch: pa.RecordBatch) -> pa.Table:
        count = len(batch)
        columns = [*batch.columns, pa.repeat(False, count), *[pa.array(np.zeros(count, np.int64))] * 2]
        return pa.Table.from_arrays(columns, schema=self._changed.schema)

    def _remember(self, changes: pa.Table) -> None:
        if self._key:
            batches = [*self._changed.to_batches(), *changes.to_batches()]
            self._changed = last_of(batches, self._key)

    def _reached(self, partition: int, offset: int) -> None:
        self.next = (*self.next[:partition], offset, *self.next[partition + 1 :])

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
