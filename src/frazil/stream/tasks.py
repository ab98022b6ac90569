"""What runs inside Spark tasks: slices in, data files and a report out. No row meets the driver.

Secrets (the source's settings, the tables' keys) come by broadcast: plans, event logs and the UI show the
rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc
from pyarrow import RecordBatch, int64

from frazil.core import errors
from frazil.core.failpoints import reach
from frazil.lake.files import DataFile
from frazil.stream.bootstrap.place import is_history
from frazil.stream.decoding import Reading, Rows, decoded
from frazil.stream.needs import Lacking, Needs
from frazil.stream.outlets import Outlet, Writing
from frazil.stream.source import Slice
from frazil.stream.worker_costs import settle

if TYPE_CHECKING:
    from pyspark import Broadcast

    from frazil.stream.outlets import Keys


@dataclass(frozen=True)
class Failure:
    """An error in a task that the driver raises as what it was, not as a Java stack."""

    kind: str
    message: str
    #: Of a bad record.
    position: tuple[str, int, int] | None = None
    needs: Needs = field(default_factory=Needs)

    @classmethod
    def of(cls, error: errors.FrazilError | Lacking) -> Failure:
        if isinstance(error, Lacking):
            return cls("Lacking", "", needs=error.needs)
        return cls(type(error).__name__, error.message, getattr(error, "position", None))

    def error(self) -> errors.FrazilError | Lacking:
        if self.needs:
            return Lacking(self.needs)
        kind = getattr(errors, self.kind, None)
        if kind is errors.BadRecord:
            return errors.BadRecord.at(self.position, self.message)
        if not (isinstance(kind, type) and issubclass(kind, errors.FrazilError)):
            kind = errors.RoundFailed
        return kind(self.message)


@dataclass(frozen=True)
class SliceReport:
    """What was found in one slice."""

    slice: Slice
    records: int
    #: Of them, those that became no row.
    bad: int = 0
    #: Highest event time, microseconds since 1970.
    newest: int | None = None


def newest(rows: RecordBatch, event_time: str) -> int | None:
    """The highest event time of some rows; None: none of them has one."""
    found: int | None = pc.max(rows.column(event_time)).cast(int64()).as_py()
    return found


def watermark(slices: Iterable[SliceReport], before: int | None) -> int | None:
    """The event time that every partition of a round has reached; it never goes back.

    Rows of a history are in no order that could tell.
    """
    reached: dict[tuple[str, int], int] = {}
    for report in slices:
        if report.newest is not None and not is_history(report.slice.topic):
            key = (report.slice.topic, report.slice.partition)
            reached[key] = max(report.newest, reached.get(key, report.newest))
    if not reached:
        return before
    least = min(reached.values())
    return least if before is None else max(before, least)


@dataclass(frozen=True)
class TaskReport:
    """What one task did."""

    slices: tuple[SliceReport, ...] = ()
    #: By table.
    files: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    failure: Failure | None = None


class SliceCounter:
    """Counts what the batches of some slices hold."""

    def __init__(self, slices: Sequence[Slice], event_time: str | None) -> None:
        self._event_time = event_time
        self._slices = {(s.topic, s.partition, s.start): s for s in slices}
        self._records = dict.fromkeys(self._slices, 0)
        self._bad = dict.fromkeys(self._slices, 0)
        self._newest: dict[tuple[str, int, int], int] = {}

    def add(self, rows: Rows, bad: int) -> None:
        raw = rows.raw
        key = (raw.topic, raw.partition, raw.slice_start)
        self._records[key] += len(raw)
        self._bad[key] += bad
        if self._event_time is not None:
            found = newest(rows.batch, self._event_time)
            if found is not None:
                self._newest[key] = max(found, self._newest.get(key, found))

    def reports(self) -> tuple[SliceReport, ...]:
        return tuple(
            SliceReport(found, self._records[key], self._bad[key], self._newest.get(key))
            for key, found in self._slices.items()
        )


def ingest(
    tasks: Iterator[tuple[int, tuple[Slice, ...]]],
    reading: Broadcast[Reading],
    keys: Broadcast[Keys],
    writing: Writing,
) -> Iterator[TaskReport]:
    """The fused path: fetch, decode and write, all in Arrow."""
    settle()
    for number, slices in tasks:
        try:
            yield _ingest(slices, reading.value, open_outlet(number, keys, writing))
        except (errors.FrazilError, Lacking) as error:
            yield TaskReport(failure=Failure.of(error))


def _ingest(slices: tuple[Slice, ...], reading: Reading, outlet: Outlet) -> TaskReport:
    counter = SliceCounter(slices, reading.event_time)
    try:
        for rows in decoded(reading, slices):
            counter.add(rows, outlet.take(rows))
        files = outlet.close()
    except BaseException:
        outlet.abort()
        raise
    reach("task.written")
    return TaskReport(counter.reports(), files)


def open_outlet(number: int, keys: Broadcast[Keys], writing: Writing) -> Outlet:
    """One whose file names are its own, also when Spark runs a task or a whole stage twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # Not attemptNumber(): when a stage is run again it begins at 0, while old tasks may still write.
    attempt = context.taskAttemptId() if context is not None else 0
    return writing.open(number, attempt, keys.value)
