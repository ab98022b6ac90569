"""A hot table as a stream: what is in Iceberg first, then its log, with no gap and no overlap.

Of a keyed table it is a changelog. When tiering has committed what was already given, its snapshot takes the
place of the older one in which rows are looked up, and the changes in it are let go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import InvalidInput, Unsupported
from frazil.hot.log import require_reached
from frazil.hot.read.arrow import found_at
from frazil.hot.read.changelog import Changelog
from frazil.hot.read.connect import CatalogLike, connected
from frazil.hot.read.pins import Pinned, Pins, log_ends, opened, pinned
from frazil.lake.changelog_pairs import INSERT
from frazil.lake.history import TableHistory
from frazil.lake.places import PlacedFiles, ReadKeys
from frazil.stream.bootstrap.files import history_files
from frazil.stream.bootstrap.place import history_topic
from frazil.stream.bootstrap.reader import HistoryReader
from frazil.stream.source import Slice

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
    other, and DELETE follow. With the `pins` of an earlier call it goes on after them, wherever that was.
    The columns are those that the table had when it began.

    >>> for some in follow("shop.orders"):  # doctest: +SKIP
    ...     print(some.rows.to_pylist())
    """
    with connected(catalog) as client:
        found = found_at(client, name, pins, kafka)
        if found.hot is None:
            raise Unsupported(f"{found} is no hot table, it has no log: see `frazil changes` for its changes")
        if not found.pins.topic:
            raise InvalidInput(
                f"these pins of {found} tell no place in its log: give those that a stream or `frazil.pin` "
                "gave, with the log, or none"
            )
        following = _Following(client, found, kafka or {}, resumed=pins is not None)
        end = found.pins.ends if pins is None else log_ends(found, kafka)
        if pins is None or found.pins.row is not None:
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
    """The state of one stream."""

    def __init__(self, client: Client, found: Pinned, kafka: Mapping[str, str], *, resumed: bool) -> None:
        self._client = client
        self._kafka = kafka
        self._keys = ReadKeys(client, found.namespace, found.name)
        self._log = Changelog(found, kafka, lambda: self._keys.places(self._log.found.metadata))
        self._asked = time.monotonic()
        self.next = found.pins.starts
        if resumed:
            for part in found.pins.slices():
                self._log.know(part)
            self.next = found.pins.ends

    def history(self) -> Iterator[Followed]:
        """The snapshot's rows, from where the pins are: it numbers them alike each time it is read."""
        found = self._log.found
        if found.pins.snapshot is None:
            return
        snapshot = TableHistory(found.metadata).snapshot(found.pins.snapshot)
        assert snapshot is not None, "it was there when it was pinned"
        snapshot = replace(snapshot, schema_id=found.pins.schema)
        places = self._keys.places(found.metadata)
        files = history_files(PlacedFiles(places), found.metadata, str(found), snapshot, 0)
        whole = Slice(history_topic(str(found)), 0, found.pins.row or 0, files.total)
        for raw in HistoryReader(places, files).read([whole]):
            assert raw.rows is not None, "a history has columns"
            told = self._log.told(pa.Table.from_batches([raw.rows]), np.full(len(raw), INSERT))
            yield Followed(told, self._pins(row=raw.offsets[-1].as_py() + 1))

    def up_to(self, ends: tuple[int, ...]) -> Iterator[Followed]:
        self.next += (0,) * (len(ends) - len(self.next))
        hot = self._log.found.hot
        assert hot is not None, "it was asked for when the stream began"
        require_reached(hot, self.next, ends)
        for partition, (start, end) in enumerate(zip(self.next, ends, strict=True)):
            if start >= end:
                continue
            for told in self._log.changes(Slice(self._log.found.pins.topic, partition, start, end)):
                self._reached(partition, told.next)
                if len(told.rows):
                    yield Followed(told.rows, self._pins())
            self._reached(partition, end)

    def rebased(self) -> Pinned:
        """On a newer snapshot, if there is one, and nothing is in it that was not given yet."""
        found = self._log.found
        if time.monotonic() - self._asked < _REBASE_SECONDS:
            return found
        self._asked = time.monotonic()
        newer = pinned(self._client, found.pins.table, kafka=self._kafka)
        starts = newer.pins.starts
        given = self.next + (0,) * (len(starts) - len(self.next))
        if newer.pins.uuid != found.pins.uuid:
            return opened(self._client, self._pins(), kafka=self._kafka)
        if all(start <= reached for start, reached in zip(starts, given, strict=True)):
            kept = msgspec.structs.replace(newer.pins, schema=found.pins.schema)
            self._log.rebase(Pinned(kept, newer.namespace, newer.name, newer.metadata, newer.hot))
        return self._log.found

    def _pins(self, row: int | None = None) -> Pins:
        pins = self._log.found.pins
        starts = pins.starts + (0,) * (len(self.next) - len(pins.starts))
        return msgspec.structs.replace(pins, starts=starts, ends=self.next, row=row)

    def _reached(self, partition: int, offset: int) -> None:
        self.next = (*self.next[:partition], offset, *self.next[partition + 1 :])
