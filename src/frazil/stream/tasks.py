"""What runs inside Spark tasks: slices in, data files and a report out. No row meets the driver.

Secrets (Kafka's settings, the table's keys) come by broadcast: plans, event logs and the UI show the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from frazil.core import errors
from frazil.core.failpoints import reach
from frazil.core.schema import Schema
from frazil.lake.files import DataFile, WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.writer import TableWriter
from frazil.stream.config.model import JsonFormat
from frazil.stream.decode.json import JsonDecoder, Undecodable
from frazil.stream.kafka.fetch import shared_reader
from frazil.stream.source import RawBatch, Slice

if TYPE_CHECKING:
    from pyspark import Broadcast

    from frazil.client import VendedCredentials


@dataclass(frozen=True)
class Reading:
    """How records are fetched and decoded."""

    settings: Mapping[str, str] = field(repr=False)
    schema: Schema
    format: JsonFormat
    event_time: str | None = None


@dataclass(frozen=True)
class Writing:
    """Where rows go. The task's number and its attempt complete the file names."""

    target: WriteTarget
    prefix: str


@dataclass(frozen=True)
class Failure:
    """An error in a task that the driver raises as what it was, not as a Java stack."""

    kind: str
    message: str
    #: Of a bad record.
    position: tuple[str, int, int] | None = None

    @classmethod
    def of(cls, error: errors.FrazilError) -> Failure:
        return cls(type(error).__name__, error.message, getattr(error, "position", None))

    def error(self) -> errors.FrazilError:
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
    #: Highest event time, microseconds since 1970.
    newest: int | None = None


@dataclass(frozen=True)
class TaskReport:
    """What one task did."""

    slices: tuple[SliceReport, ...] = ()
    files: tuple[DataFile, ...] = ()
    failure: Failure | None = None


class SliceCounter:
    """Counts what the batches of some slices hold."""

    def __init__(self, slices: Sequence[Slice], event_time: str | None) -> None:
        self._event_time = event_time
        self._slices = {(s.topic, s.partition, s.start): s for s in slices}
        self._records = dict.fromkeys(self._slices, 0)
        self._newest: dict[tuple[str, int, int], int] = {}

    def add(self, raw: RawBatch, batch: pa.RecordBatch) -> None:
        key = self._key(raw)
        self._records[key] += len(raw)
        if self._event_time is not None:
            newest = pc.max(batch.column(self._event_time)).cast(pa.int64()).as_py()
            if newest is not None:
                self._newest[key] = max(newest, self._newest.get(key, newest))

    def reports(self) -> tuple[SliceReport, ...]:
        return tuple(
            SliceReport(found, self._records[key], self._newest.get(key))
            for key, found in self._slices.items()
        )

    def _key(self, raw: RawBatch) -> tuple[str, int, int]:
        """A task may hold several slices of one partition."""
        first = raw.offsets[0].as_py()
        for key, found in self._slices.items():
            if key[:2] == (raw.topic, raw.partition) and found.start <= first < found.end:
                return key
        raise AssertionError(f"{raw.topic}/{raw.partition}: offset {first} is in no slice of this task")


def decoded(reading: Reading, slices: Sequence[Slice]) -> Iterator[tuple[RawBatch, pa.RecordBatch]]:
    """The records of the slices, as they came and as typed batches; BadRecord at the first bad one."""
    decoder = JsonDecoder(reading.schema, reading.format)
    for raw in shared_reader(reading.settings).read(slices):
        reach("task.fetched")
        try:
            yield raw, decoder.decode(raw.values)
        except Undecodable as bad:
            raise _bad_record(raw, bad) from None


def ingest(
    tasks: Iterator[tuple[int, tuple[Slice, ...]]],
    reading: Broadcast[Reading],
    keys: Broadcast[VendedCredentials] | None,
    writing: Writing,
) -> Iterator[TaskReport]:
    """The fused path: fetch, decode and write, all in Arrow."""
    for number, slices in tasks:
        try:
            yield _ingest(slices, reading.value, open_writer(number, keys, writing))
        except errors.FrazilError as error:
            yield TaskReport(failure=Failure.of(error))


def _ingest(slices: tuple[Slice, ...], reading: Reading, writer: TableWriter) -> TaskReport:
    counter = SliceCounter(slices, reading.event_time)
    try:
        for raw, batch in decoded(reading, slices):
            counter.add(raw, batch)
            writer.write(batch)
        files = writer.close()
    except BaseException:
        writer.abort()
        raise
    reach("task.written")
    return TaskReport(counter.reports(), tuple(files))


def open_writer(number: int, keys: Broadcast[VendedCredentials] | None, writing: Writing) -> TableWriter:
    """A writer whose file names are its own, also when Spark runs a task or a whole stage twice."""
    from pyspark import TaskContext

    context = TaskContext.get()
    # Not attemptNumber(): when a stage is run again it begins at 0, while old tasks may still write.
    attempt = context.taskAttemptId() if context is not None else 0
    storage = FileStorage.of(writing.target.location, keys.value if keys is not None else None)
    return TableWriter(writing.target, storage, f"{writing.prefix}-{number:05d}-{attempt}")


def _bad_record(raw: RawBatch, bad: Undecodable) -> errors.BadRecord:
    offset = raw.offsets[bad.index].as_py()
    where = f"topic {raw.topic}, partition {raw.partition}, offset {offset}"
    return errors.BadRecord.at(
        (raw.topic, raw.partition, offset),
        f"a record cannot be decoded: {where}: {bad.reason}. Everything before it is in the table, and the "
        "pipeline stops there. Correct the schema, or skip this one record with `frazil reset pipelines.yaml "
        f"NAME --to-offsets {raw.topic}={raw.partition}:{offset + 1}`",
    )
