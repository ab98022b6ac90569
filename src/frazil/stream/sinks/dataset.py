"""Rows into a generic table: one file for each round, never twice.

The file's name is the pipeline's and a number; it is put on the condition that there is none of that name,
and carries the stamp of its round. Whoever loses the put goes on behind the winner's file, so that a round
that is repeated, or run by a rival, cannot write rows twice. The task puts the file: its put is the commit.

Of several runs the newest wins, as it does in tables: its files have a higher epoch, at which others stop.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from frazil.client import Client, Renewing
from frazil.core.errors import NotFound, RoundFailed, Superseded, Unsupported
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.lake.delivery import Patience
from frazil.lake.files import DataFile, Metrics
from frazil.stream.config.model import DatasetConfig, PipelineConfig
from frazil.stream.decode.decoded import Undecodable
from frazil.stream.decoding import Rows
from frazil.stream.jobs import JobResult
from frazil.stream.needs import Needs
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.dataset_formats import EXTENSIONS, file_maker
from frazil.stream.sinks.dataset_place import Place, Taken, file_name, is_local, newest_stamp, place_of
from frazil.stream.sinks.sink import Landed, Turn
from frazil.stream.source import RawBatch

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.client import VendedCredentials
    from frazil.stream.outlets import Keys

_MARGIN = 600.0


@dataclass(frozen=True)
class DatasetWriting:
    """Where the one file of a round goes."""

    #: Of the generic table, as `show` writes it.
    table: str
    location: str
    name: str
    format: str
    schema: Schema
    #: Of the round; rows are counted when they are written.
    stamp: Stamp
    single: bool = True

    def open(self, number: int, attempt: int, keys: Keys) -> DatasetOutlet:
        return DatasetOutlet(self, place_of(self.location, keys.get(self.table)))


class DatasetOutlet:
    """Collects the rows of a round and puts them as one file."""

    def __init__(self, writing: DatasetWriting, place: Place) -> None:
        self._writing = writing
        self._place = place
        self._maker = file_maker(writing.format, writing.schema)
        self._rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._maker.add(rows)
        self._rows += len(rows)

    def take(self, rows: Rows) -> int:
        self.write(rows.batch)
        return 0

    def set_aside(self, raw: RawBatch, bad: Sequence[Undecodable], stage: str) -> None:
        raise AssertionError("a dataset has no dead letters: the first bad record ends the round")

    def close(self) -> Mapping[str, tuple[DataFile, ...]]:
        writing, data = self._writing, self._maker.finish()
        stamp = replace(writing.stamp, written=writing.stamp.written + self._rows)
        try:
            self._place.put(writing.name, data, stamp)
        except Taken:
            # By this very round, if the task ran twice or the answer to its put was lost.
            there = self._place.stamp(writing.name)
            if there.token != stamp.token:
                raise RoundFailed(
                    f"another run of pipeline {stamp.pipeline} wrote {writing.name} first; going on behind it"
                ) from None
            # A transform need not give the same rows twice; what counts is what is in the file.
            stamp = there
        rows = stamp.written - writing.stamp.written
        path = f"{writing.location}/{writing.name}"
        return {writing.table: (DataFile(path, len(data), rows, 0, {}, Metrics()),)}

    def abort(self) -> None:
        """Nothing is visible before the put."""


class DatasetSink:
    """A generic table as a pipeline's sink."""

    most_tasks: int | None = 1

    def __init__(self, config: PipelineConfig, spark: SparkSession, client: Client, rows: Schema) -> None:
        assert config.dataset is not None, "this is for datasets"
        self.name = config.name
        self.schema = config.schema
        self.created = False
        self._dataset: DatasetConfig = config.dataset
        self._where = (self._dataset.namespace, self._dataset.name)
        self._table = show(*self._where)
        self._rows = rows
        self._config_hash = config.hash
        self._client = client
        self._context = spark.sparkContext
        self._sent: tuple[VendedCredentials | None, Broadcast[Keys]] | None = None
        self._location = self._registered()
        self._renewing: Renewing | None = None
        if not is_local(self._location):
            self._renewing = Renewing(lambda: client.generic_tables.credentials(*self._where), margin=_MARGIN)
        #: Of the newest file.
        self._number = 0
        #: Tokens of rounds that may have landed unseen.
        self._own: set[str] = set()
        self._unsure = False
        self._stamp: Stamp | None = None
        self._stamp = self._newest()

    def before(self) -> Stamp | None:
        return self._stamp

    def claim(self, first: Callable[[], tuple[str, dict[str, Position]]], patience: Patience) -> None:
        """Nothing is written for it: rivals are told apart by their puts."""
        if self._stamp is not None:
            self._stamp = replace(self._stamp, epoch=self._stamp.epoch + 1)
            return
        source, positions = first()
        self._stamp = Stamp(
            pipeline=self.name,
            epoch=1,
            round=0,
            token="",
            source=source,
            positions=positions,
            config=self._config_hash,
        )

    @property
    def stamp(self) -> Stamp:
        """Looked up again after a round that failed: it, or one of a rival, may have landed."""
        assert self._stamp is not None, "the pipeline was claimed"
        if self._unsure:
            self._stamp = self._behind(self._stamp)
            self._unsure = False
        return self._stamp

    def keys_end(self) -> datetime | None:
        return None if self._renewing is None else self._renewing.current().expires_at

    def begin(self, plan: RoundPlan) -> Turn:
        assert len(plan.tasks) <= 1, "several tasks would put the same file"
        planned, before = self._stamp, self.stamp
        if planned is None or planned.token != before.token:
            raise RoundFailed(f"another run of pipeline {self.name} went on; planning again behind it")
        stamp = replace(
            before,
            round=self._number + 1,
            token=secrets.token_hex(16),
            positions=dict(plan.positions),
            read=before.read + plan.offsets,
            config=self._config_hash,
        )
        self._own.add(stamp.token)
        writing = DatasetWriting(
            self._table,
            self._location,
            self._file(self._number + 1),
            self._dataset.format,
            self._rows,
            stamp,
        )
        return Turn(stamp.round, stamp.token, writing, self._keys(), writing)

    def commit(
        self, turn: Turn, plan: RoundPlan, result: JobResult, ledger: Mapping[str, pa.Table]
    ) -> Landed:
        if ledger:
            raise Unsupported("a source with a ledger needs an Iceberg table to write to")
        writing: DatasetWriting = turn.ticket
        files = result.files.get(self._table, ())
        if not files:
            # A transform may leave no partition to write; that it was read must be known all the same.
            files = DatasetOutlet(writing, self._place()).close()[self._table]
        written = sum(file.records for file in files)
        self._stamp = replace(writing.stamp, written=writing.stamp.written + written)
        self._number = writing.stamp.round
        self._own.clear()
        return Landed(self._stamp, None, written, len(files), sum(file.size for file in files))

    def discard(self, turn: Turn) -> None:
        """What was not put is not there; but whether it was put is not known."""
        self._unsure = True

    def adapt(self, needs: Needs) -> None:
        raise AssertionError("the contract of a dataset does not evolve")

    def rest(self) -> None:
        """Files are as large as their rounds."""

    def _registered(self) -> str:
        try:
            return self._client.generic_tables.load(*self._where).location.rstrip("/")
        except NotFound:
            self._client.namespaces.create(self._where[0], parents=True, exist_ok=True)
            made = self._client.generic_tables.create(*self._where, self._dataset.format)
            self.created = True
            return made.location.rstrip("/")

    def _behind(self, known: Stamp) -> Stamp:
        """The newest stamp, with this run's epoch; Superseded if a later run wrote it."""
        newer = self._newest() or known
        if newer.token == known.token:
            return known
        if newer.token in self._own:
            return newer
        if newer.epoch > known.epoch:
            raise Superseded(
                f"another run of pipeline '{self.name}' took over (epoch {newer.epoch}, this one had "
                f"{known.epoch}). Nothing is lost; run it once"
            )
        # Of two that began at the same time, this one goes on and the other will stop.
        return replace(newer, epoch=max(known.epoch, newer.epoch + 1))

    def _newest(self) -> Stamp | None:
        """The stamp of the highest file; None: there is none."""
        extension = EXTENSIONS[self._dataset.format]
        self._number, found = newest_stamp(self._place(), self.name, extension, self._number)
        return found or self._stamp

    def _place(self) -> Place:
        return place_of(self._location, None if self._renewing is None else self._renewing.current())

    def _file(self, number: int) -> str:
        return file_name(self.name, number, EXTENSIONS[self._dataset.format])

    def _keys(self) -> Broadcast[Keys]:
        current = None if self._renewing is None else self._renewing.current()
        if self._sent is None or self._sent[0] is not current:
            keys = {} if current is None else {self._table: current}
            if self._sent is not None:
                self._sent[1].destroy()
            self._sent = current, self._context.broadcast(keys)
        return self._sent[1]
