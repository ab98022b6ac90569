"""What runs inside Spark tasks: changes are fetched, spread by key, and folded into files.

A partition of the log is read by one task, in its order. What a task finds wrong with one lane is a report of
that lane: the others go on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from frazil.core.changes import Op
from frazil.core.errors import BadRecord, FrazilError
from frazil.core.failpoints import reach
from frazil.core.stamp import Mark
from frazil.lake.files import DataFile
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter
from frazil.stream.bootstrap.place import is_history
from frazil.stream.bootstrap.rows import HistoryRows
from frazil.stream.cdc.change_log import logged
from frazil.stream.cdc.changes import ChangeDecoder, Changes, Shape
from frazil.stream.cdc.decode import change_decoder
from frazil.stream.cdc.fold import fold
from frazil.stream.cdc.moves import half_a_move, has_moves
from frazil.stream.cdc.order import admit, mark_at, not_below, raised
from frazil.stream.cdc.spread import apart, packed, spread, together, unpacked
from frazil.stream.cdc.transactions import Tail, tail_after
from frazil.stream.cdc.work import Job, LaneReport, LaneWork, Place
from frazil.stream.config.model import JsonFormat
from frazil.stream.dead_letters import letters
from frazil.stream.sizes import fitting
from frazil.stream.source import RawBatch, Slice
from frazil.stream.tasks import Failure, SliceReport, newest
from frazil.stream.worker_costs import settle

if TYPE_CHECKING:
    from pyspark import Broadcast


@dataclass(frozen=True)
class Chunk:
    """Changes on their way to the task that folds them."""

    lane: str
    partition: int
    #: Counts the truncates of the partition: changes before the last one are void.
    age: int
    #: An Arrow stream of rows and their order.
    changes: bytes | None = None
    #: Where the truncate stands that made this age: what other partitions have from before it is void, too.
    floor: Mark | None = None


#: What the first tasks hand on: the bucket, and a chunk for it or a report for the driver.
Handed: TypeAlias = tuple[int, Chunk | LaneReport]


def fetched(tasks: Iterator[tuple[int, tuple[Slice, ...]]], job: Broadcast[Job]) -> Iterator[Handed]:
    """The first stage: fetch, decode, leave out replays, spread by key."""
    settle()
    for number, slices in tasks:
        by_lane: dict[str, list[Slice]] = defaultdict(list)
        for part in slices:
            by_lane[_lane(job.value, part)].append(part)
        for name, parts in by_lane.items():
            lane = job.value.lanes[name]
            try:
                yield from _LaneReading(job.value, lane, number).run(parts)
            except FrazilError as error:
                yield lane.first, LaneReport(name, failure=Failure.of(error))


def _lane(job: Job, part: Slice) -> str:
    """A pipeline that begins with a history has one lane alone."""
    return next(iter(job.lanes)) if is_history(part.topic) else part.topic


def folded(handed: Iterator[Handed], job: Broadcast[Job]) -> Iterator[LaneReport]:
    """The second stage: the last change of each key; rows into files."""
    settle()
    chunks: dict[str, list[Chunk]] = defaultdict(list)
    failed: set[str] = set()
    bucket = 0
    for bucket, each in handed:  # noqa: B007
        if isinstance(each, Chunk):
            chunks[each.lane].append(each)
            continue
        if each.redone:
            failed.add(each.lane)
        yield each
    for name, several in chunks.items():
        if name in failed:
            continue
        try:
            yield _folded(job.value, job.value.lanes[name], several, bucket)
        except FrazilError as error:
            yield LaneReport(name, failure=Failure.of(error))


@dataclass
class _LaneReading:
    """One lane's slices in one task of the first stage."""

    job: Job
    lane: LaneWork
    number: int

    def __post_init__(self) -> None:
        lane = self.lane
        self._decoder: ChangeDecoder = change_decoder(
            lane.format, lane.schema, lane.key, transactions=lane.transactions, several=lane.several
        )
        self._history = HistoryRows(lane.schema, lane.key, lane.soft_delete, self.job.reader)
        self._marks: dict[int, Mark] = {}
        self._shape: Shape | None = None
        self._ages: dict[int, int] = defaultdict(int)
        self._floor: Mark | None = None
        #: Half of a changed key at the end of what was read.
        self._half: tuple[str, int, int] | None = None
        self._alone = False
        self._tails: dict[int, Tail] = {}
        self._writers: dict[str, TableWriter] = {}
        self._records: dict[Slice, int] = {}
        self._bad: dict[Slice, int] = {}
        self._newest: dict[Slice, int] = {}
        self._inserted = 0

    def run(self, slices: Sequence[Slice]) -> Iterator[Handed]:
        try:
            for part in slices:
                self._records[part] = self._bad[part] = 0
                half, tail = None, None
                for raw in self.job.reader.read([part]):
                    reach("task.fetched")
                    changes = self._decode(raw)
                    half = half_a_move(changes) if len(changes.order) else half
                    tail = tail_after(tail, changes)
                    yield from self._take(part, changes)
                self._half = self._half or half
                if tail is not None:
                    self._tails[part.partition] = tail
            files = {name: tuple(writer.close()) for name, writer in self._writers.items()}
        except BaseException:
            for writer in self._writers.values():
                writer.abort()
            raise
        reports = tuple(
            SliceReport(part, count, self._bad[part], self._newest.get(part))
            for part, count in self._records.items()
        )
        yield (
            self.lane.first,
            LaneReport(
                self.lane.name,
                reports,
                self._marks,
                files,
                shape=self._shape,
                cut=None if self.lane.halves else self._half,
                alone=self._alone,
                half=self._half if self.lane.halves else None,
                tails=self._tails,
                truncated=any(self._ages.values()),
                floor=self._floor,
                upserted=self._inserted,
            ),
        )

    def _decode(self, raw: RawBatch) -> Changes:
        if is_history(raw.topic):
            return self._history.decode(raw)
        fit = fitting(raw, self.job.largest)
        found = self._decoder.decode(fit.raw)
        return found if fit.kept is None else replace(found, raw=raw, bad=fit.bad(found.bad))

    def _take(self, part: Slice, changes: Changes) -> Iterator[Handed]:
        self._records[part] += len(changes.raw)
        if changes.bad:
            self._bad[part] += len(changes.bad)
            self._set_aside(changes)
        if changes.shape is not None:
            self._shape = changes.shape if self._shape is None else self._shape | changes.shape
        if self._shape is not None:
            return
        partition = part.partition
        mark = self._marks.get(partition, _at(self.lane.marks, partition))
        kept, mark = admit(changes.order, mark, f"{part.topic}-{partition}")
        if mark is not None:
            self._marks[partition] = raised(self._marks.get(partition), mark)
        rows, order = changes.rows, changes.order
        if kept is not None:
            rows, order = rows.take(pa.array(kept)), order.take(pa.array(kept))
        if self.lane.event_time is not None and self.lane.event_time in rows.schema.names:
            found = newest(rows, self.lane.event_time)
            if found is not None:
                self._newest[part] = max(found, self._newest.get(part, found))
        if self.lane.log is not None:
            self._put(self.lane.log, "log", logged(rows, order, changes.raw))
        if self.lane.rows is None:
            return
        if self.lane.floor is not None:
            above = not_below(order, self.lane.floor)
            rows, order = rows.filter(above), order.filter(above)
        if self.lane.inserts:
            self._put(self.lane.rows, "rows", rows)
            self._inserted += len(rows)
        else:
            yield from self._handed(partition, rows, order)

    def _handed(self, partition: int, rows: pa.RecordBatch, order: pa.RecordBatch) -> Iterator[Handed]:
        """The changes after the last truncate, by bucket; that there was one is told to all."""
        truncates = np.flatnonzero(order.column("op").to_numpy() == int(Op.TRUNCATE))
        if len(truncates):
            self._ages[partition] += 1
            last = int(truncates[-1])
            self._floor = floor = mark_at(order, last)
            rows, order = rows.slice(last + 1), order.slice(last + 1)
            for bucket in range(self.lane.buckets):
                chunk = Chunk(self.lane.name, partition, self._ages[partition], floor=floor)
                yield (self.lane.first + bucket) % self.job.buckets, chunk
        if not len(rows):
            return
        # What a row with a new key lacks is where its old key is.
        self._alone = self._alone or (self.lane.buckets > 1 and has_moves(order))
        for bucket, part in spread(together(rows, order), rows, self.lane.spread, self.lane.buckets):
            chunk = Chunk(self.lane.name, partition, self._ages[partition], packed(part))
            yield (self.lane.first + bucket) % self.job.buckets, chunk

    def _set_aside(self, changes: Changes) -> None:
        raw, first = changes.raw, changes.bad[0]
        if self.lane.letters is None:
            offset = raw.offsets[first.index].as_py()
            raise BadRecord.at(
                (raw.topic, raw.partition, offset),
                f"a change cannot be taken: topic {raw.topic}, partition {raw.partition}, offset {offset}: "
                f"{first.reason}. Everything before it is in the table, and this table stops there, the "
                f"others go on. {_remedy(self.lane)}",
            )
        self._put(self.lane.letters, "letters", letters(self.lane.pipeline, raw, changes.bad))

    def _put(self, to: Place, kind: str, rows: pa.RecordBatch) -> None:
        if to.table not in self._writers:
            self._writers[to.table] = _opened(self.job, to, f"{kind}{self.number:05d}")
        self._writers[to.table].write(rows)


def _folded(job: Job, lane: LaneWork, chunks: Sequence[Chunk], bucket: int) -> LaneReport:
    changes = _valid(chunks)
    if changes is None:
        return LaneReport(lane.name)
    assert lane.rows is not None, "changes are handed on for its rows"
    result = fold(*apart(changes), lane.key, lane.soft_delete, lane.sequence_by)
    rows = result.rows
    files: tuple[DataFile, ...] = ()
    if len(rows):
        writer = _opened(job, lane.rows, f"{bucket:05d}")
        try:
            for batch in rows.to_batches():
                writer.write(batch)
            files = tuple(writer.close())
        except BaseException:
            writer.abort()
            raise
    reach("task.written")
    return LaneReport(
        lane.name,
        files={lane.rows.table: files},
        keys=packed(result.keys),
        patches=packed(result.patches) if len(result.patches) else None,
        holes=result.holes.to_pylist(),
        origins=packed(result.origins) if len(result.patches) else None,
        key_values=result.key_values,
        patch_values=result.patch_values,
        upserted=len(result.keys) - len(result.deleted),
        deleted=len(result.deleted),
    )


def _valid(chunks: Sequence[Chunk]) -> pa.Table | None:
    """The changes that no truncate made void."""
    newest: dict[int, int] = defaultdict(int)
    for chunk in chunks:
        newest[chunk.partition] = max(newest[chunk.partition], chunk.age)
    floors = [(chunk.partition, chunk.floor) for chunk in chunks if chunk.floor is not None]
    found = []
    for chunk in chunks:
        if chunk.changes is None or chunk.age < newest[chunk.partition]:
            continue
        changes = unpacked(chunk.changes)
        for partition, floor in floors:
            if partition != chunk.partition:
                changes = changes.filter(not_below(apart(changes)[1], floor))
        found.append(changes)
    return pa.concat_tables(found) if sum(map(len, found)) else None


def _opened(job: Job, place: Place, name: str) -> TableWriter:
    """One whose file names are its own, also when Spark runs a task or a whole stage twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context is not None else 0
    storage = FileStorage.of(place.target.location, job.keys.get(place.table))
    return TableWriter(place.target, storage, f"{place.prefix}-{name}-{attempt}")


def _remedy(lane: LaneWork) -> str:
    """For somebody who meets a bad record."""
    if isinstance(lane.format, JsonFormat):
        return (
            "Correct the schema, or let bad records go to a table (the table property "
            "`frazil.hot.dead-letters`): reads and tiering then leave them out"
        )
    return (
        "Correct the schema, or let bad records go to a dead-letter table (`dead_letters`): the rows they "
        "are of are then not as in the database"
    )


def _at(marks: Sequence[Mark | None], partition: int) -> Mark | None:
    return marks[partition] if partition < len(marks) else None
