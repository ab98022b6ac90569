"""What the batches of a streaming read of a hot table are: planned beside the driver, read in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from frazil.client import Client
from frazil.core.errors import HistoryChanged, NotFound, Unsupported
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Stamp, stamp_key
from frazil.hot.log import require_reached, require_topic
from frazil.hot.read.changelog import Changelog
from frazil.hot.read.connect import client_of
from frazil.hot.read.pins import Pinned, Pins, pinned
from frazil.hot.table import TIERING, HotTable, hot_table, table_name
from frazil.lake.changelog_pairs import CHANGE_TYPE, INSERT
from frazil.lake.history import TableHistory, TableSnapshot
from frazil.lake.places import KeyedPlace, PlacedFiles, ReadKeys
from frazil.stream.bootstrap.files import HistoryFiles, history_files
from frazil.stream.bootstrap.place import history_topic
from frazil.stream.bootstrap.reader import HistoryReader
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import KafkaLog
from frazil.stream.rounds import cut, share
from frazil.stream.source import Slice
from frazil.stream.spark_types import to_spark

#: Rows of a snapshot that a task reads at least.
_ROWS_PER_TASK = 100_000


class StreamOffset(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a stream is. One without anything is at its beginning, which the first batch decides."""

    uuid: str = ""
    #: The rows of this snapshot come first; None: there was none.
    snapshot: int | None = None
    total: int = 0
    taken: int = 0
    topic_id: str = ""
    #: Of the log: where it goes on behind the snapshot, and how far it was taken.
    first: tuple[int, ...] = ()
    next: tuple[int, ...] = ()

    def encode(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    @classmethod
    def decode(cls, found: Any) -> StreamOffset:
        return msgspec.convert(found, cls)


@dataclass(frozen=True)
class Following:
    """What is followed, and how. Sent to a process of Spark's beside the driver, never part of a plan."""

    table: str
    #: Properties of Iceberg's REST catalog: where it is and who asks.
    catalog: Mapping[str, str] = field(repr=False)
    kafka: Mapping[str, str] = field(repr=False)
    #: The columns of the stream.
    schema_id: int
    records_per_batch: int
    parallelism: int

    def client(self) -> Client:
        return client_of(self.catalog)


@dataclass(frozen=True)
class _HistoryPart:
    """Rows of the first snapshot."""

    reader: HistoryReader
    slices: tuple[Slice, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        for raw in self.reader.read(self.slices):
            assert raw.rows is not None, "a history has columns"
            kinds = pa.array(np.full(len(raw), INSERT).tolist(), pa.string())
            batch = raw.rows.append_column(CHANGE_TYPE, kinds)
            yield to_spark(batch, stream_columns(self.reader.files.shape.schema))


@dataclass(frozen=True)
class _LogPart:
    """A part of the log, and the snapshot in which the rows before it are looked up."""

    base: Pinned
    kafka: Mapping[str, str] = field(repr=False)
    places: tuple[KeyedPlace, ...]
    #: Between the snapshot and the part; None: nothing is, or nobody asks.
    before: Slice | None
    part: Slice

    def read(self) -> Iterator[pa.RecordBatch]:
        log = Changelog(self.base, self.kafka, lambda: self.places)
        if self.before is not None:
            log.know(self.before)
        for told in log.changes(self.part):
            if len(told.rows):
                yield to_spark(told.rows, stream_columns(log.schema))


Part: TypeAlias = _HistoryPart | _LogPart


class Planner:
    """Asks catalog and log; for one thread."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._client = following.client()
        self._namespace, self._name = table_name(following.table)
        self._keys = ReadKeys(self._client, self._namespace, self._name)
        self._files: tuple[int, HistoryFiles] | None = None
        self._log: tuple[HotTable, KafkaLog] | None = None

    def after(self, at: StreamOffset) -> StreamOffset:
        """The end of the next batch; the same place if nothing came."""
        at = at if at.uuid else self._begun()
        budget = self._following.records_per_batch
        if at.taken < at.total:
            return msgspec.structs.replace(at, taken=min(at.total, at.taken + budget))
        ends = self._ends(at)
        known = at.next + (0,) * (len(ends) - len(at.next))
        shares = share({("", number): end - known[number] for number, end in enumerate(ends)}, budget)
        following = tuple(start + shares["", number] for number, start in enumerate(known))
        return msgspec.structs.replace(at, next=following)

    def _ends(self, at: StreamOffset) -> tuple[int, ...]:
        """Of the log, by partition."""
        if self._log is None:
            hot = self._pinned(at, self._load(at)).hot
            assert hot is not None, "it has a log"
            self._log = hot, KafkaLog(KafkaSource(hot.settings(self._following.kafka), topics=(hot.topic,)))
        hot, log = self._log
        view = log.look()
        require_topic(hot, view)
        require_reached(hot, at.next, view.ends[hot.topic])
        return view.ends[hot.topic]

    def parts(self, start: StreamOffset, end: StreamOffset) -> Iterator[Part]:
        """What lies between two places, by task."""
        if start == end or not end.uuid:
            return
        metadata = self._load(end)
        places = self._keys.places(metadata)
        yield from self._history(start, end, metadata, places)
        known = start.next if start.uuid else end.first
        known += (0,) * (len(end.next) - len(known))
        if known == end.next:
            return
        base = self._base(end, known, metadata)
        starts = base.pins.starts
        for partition, (begin, until) in enumerate(zip(known, end.next, strict=True)):
            if begin < until:
                part = Slice(base.pins.topic, partition, begin, until)
                since = starts[partition] if partition < len(starts) else 0
                before = replace(part, start=since, end=begin) if since < begin else None
                yield _LogPart(base, self._following.kafka, places, before, part)

    def _begun(self) -> StreamOffset:
        """At the snapshot of now."""
        found = pinned(self._client, self._following.table, kafka=self._following.kafka)
        pins = found.pins
        if not pins.topic:
            raise Unsupported(f"{found} is no hot table any more")
        total = 0
        if pins.snapshot is not None:
            total = self._snapshot_files(pins.snapshot, found.metadata).total
        return StreamOffset(pins.uuid, pins.snapshot, total, 0, pins.topic_id, pins.starts, pins.starts)

    def _history(
        self,
        start: StreamOffset,
        end: StreamOffset,
        metadata: Mapping[str, Any],
        places: tuple[KeyedPlace, ...],
    ) -> Iterator[_HistoryPart]:
        if end.snapshot is None or start.taken >= end.taken:
            return
        reader = HistoryReader(places, self._snapshot_files(end.snapshot, metadata))
        whole = Slice(history_topic(self._following.table), 0, start.taken, end.taken)
        tasks = min(self._following.parallelism, -(-len(whole) // _ROWS_PER_TASK))
        for slices in cut([whole], max(1, tasks)):
            yield _HistoryPart(reader.only(slices), slices)

    def _snapshot_files(self, number: int, metadata: Mapping[str, Any]) -> HistoryFiles:
        if self._files is None or self._files[0] != number:
            snapshot = TableHistory(metadata).snapshot(number)
            if snapshot is None:
                raise NotFound(
                    f"the snapshot {number} of {self._following.table}, with whose rows the stream began, "
                    "expired before they were all read. Start it anew with another checkpoint, and keep "
                    "snapshots for longer than that takes"
                )
            snapshot = replace(snapshot, schema_id=self._following.schema_id)
            storage = PlacedFiles(self._keys.places(metadata))
            files = history_files(storage, metadata, self._following.table, snapshot, 0)
            self._files = number, files
        return self._files[1]

    def _base(self, end: StreamOffset, known: tuple[int, ...], metadata: Mapping[str, Any]) -> Pinned:
        """The newest snapshot that has nothing which lies behind `known`, and what it has of the log.

        Whichever of them it is, with the log behind it the rows are the same, but for what somebody else than
        tiering changed: the row before a change is the one that the table had, corrections among them.
        """
        found = self._pinned(end, metadata)
        if found.hot is None or not found.hot.key:
            return found
        for snapshot in TableHistory(metadata).ancestry():
            starts = _stamped(snapshot, found)
            if starts is not None and all(at <= reached for at, reached in zip(starts, known, strict=False)):
                return self._at(found, snapshot.id, starts, known)
        if end.snapshot is None:
            # Nothing was in Iceberg when it began, and the log has been kept from its first record on.
            return self._at(found, None, (0,) * len(known), known)
        raise HistoryChanged(
            f"the rows that {found} had before offsets {', '.join(map(str, known))} of its log cannot be "
            "told any more: all its snapshots are younger. Start the stream anew with another checkpoint, "
            "and keep snapshots and log (`keep`) for as long as a query may stand still"
        )

    def _at(
        self, found: Pinned, snapshot: int | None, starts: tuple[int, ...], known: tuple[int, ...]
    ) -> Pinned:
        pins = msgspec.structs.replace(found.pins, snapshot=snapshot, starts=starts, ends=known)
        # Tasks need no other snapshot.
        rows = [row for row in found.metadata.get("snapshots") or () if row["snapshot-id"] == snapshot]
        metadata = {**found.metadata, "snapshots": rows, "snapshot-log": [], "metadata-log": []}
        return Pinned(pins, found.namespace, found.name, metadata, found.hot)

    def _pinned(self, at: StreamOffset, metadata: Mapping[str, Any]) -> Pinned:
        hot = hot_table(self._namespace, self._name, metadata)
        if hot is None or hot.binding.topic_id != at.topic_id:
            raise HistoryChanged(
                f"the hot table {self._following.table} has another log than the stream began with: start "
                "it anew with another checkpoint"
            )
        pins = Pins(
            table=self._following.table,
            uuid=at.uuid,
            schema=self._following.schema_id,
            topic=hot.topic,
            topic_id=at.topic_id,
        )
        return Pinned(pins, self._namespace, self._name, metadata, hot)

    def _load(self, at: StreamOffset) -> Mapping[str, Any]:
        metadata = self._client.tables.load(self._namespace, self._name).metadata
        if metadata["table-uuid"] != at.uuid:
            raise HistoryChanged(
                f"the table {self._following.table} was dropped and made again since the stream began: start "
                "it anew with another checkpoint"
            )
        return metadata


def _stamped(snapshot: TableSnapshot, found: Pinned) -> tuple[int, ...] | None:
    """Up to where the log is in it, as its own stamp says."""
    text = snapshot.summary.get(stamp_key(TIERING))
    at = None if text is None else Stamp.decode(text).positions.get(found.pins.topic)
    return at.next if at is not None and at.id == found.pins.topic_id else None


def stream_columns(schema: Schema) -> Schema:
    """Of the stream: a delete has what the row had, so nothing is required."""
    fields = tuple(replace(one, required=False) for one in schema)
    return Schema((*fields, Field(CHANGE_TYPE, "string")))
