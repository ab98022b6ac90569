"""Rows into a generic table: one file for each round, never twice.

The file's name is the pipeline's and a number; it is put on the condition that there is none of that name,
and carries the stamp of its round. Whoever loses the put goes on behind the winner's file, so that a round
that is repeated, or run by a rival, cannot write rows twice. The task puts the file: its put is the commit.
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
from frazil.core.errors import NotFound, RoundFailed, Unsupported
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
from frazil.stream.sinks.dataset_place import Place, Taken, file_name, place_of
from frazil.stream.sinks.sink import Landed, Turn
from frazil.stream.source import RawBatch

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

    from frazil.client import VendedCredentials
    from frazil.stream.outlets import Keys

_MARGIN = 600.0
_LOCAL = ("/", "file:")


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
            path = self._place.put(writing.name, data, stamp)
        except Taken:
            # By this very round, if the task ran twice or the answer to its put was lost.
            if self._place.stamp(writing.name).token != stamp.token:
                raise RoundFailed(
                    f"another run of pipeline {stamp.pipeline} wrote {writing.name} first; going on behind it"
                ) from None
            path = f"{writing.location}/{writing.name}"
        file = DataFile(path, len(data), self._rows, 0, {}, Metrics())
        return {writing.table: (file,)}

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
        if not self._location.startswith(_LOCAL):
            self._renewing = Renewing(lambda: client.generic_tables.credentials(*self._where), margin=_MARGIN)
        self._number = 0
        self._stamp: Stamp | None = self._newest()

    def before(self) -> Stamp | None:
        return self._stamp

    def claim(self, first: Callable[[], tuple[str, dict[str, Position]]], patience: Patience) -> None:
        """There is nothing to claim: rivals are told apart by their puts."""
        if self._stamp is None:
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
        assert self._stamp is not None, "the pipeline was claimed"
        return self._stamp

    def keys_end(self) -> datetime | None:
        return None if self._renewing is None else self._renewing.current().expires_at

    def begin(self, plan: RoundPlan) -> Turn:
        newer = self._newest()
        if newer is not None and newer.token != self.stamp.token:
            self._stamp = newer
            raise RoundFailed(f"another run of pipeline {self.name} went on; planning again behind it")
        stamp = replace(
            self.stamp,
            round=self._number + 1,
            token=secrets.token_hex(16),
            positions=dict(plan.positions),
            read=self.stamp.read + plan.offsets,
            config=self._config_hash,
        )
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
        return Landed(self._stamp, None, written, len(files), sum(file.size for file in files))

    def discard(self, turn: Turn) -> None:
        """What was not put is not there."""

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

    def _newest(self) -> Stamp | None:
        """The stamp of the highest file; None: there is none."""
        place = self._place()
        number = place.newest(self.name, self._number)
        if number == self._number and self._number:
            return self._stamp
        self._number = number
        return place.stamp(self._file(number)) if number else None

    def _place(self) -> Place:
        return place_of(self._location, None if self._renewing is None else self._renewing.current())

    def _file(self, number: int) -> str:
        return file_name(self.name, number, EXTENSIONS[self._dataset.format])

    def _keys(self) -> Broadcast[Keys]:
        current = None if self._renewing is None else self._renewing.current()
        if self._sent is None or self._sent[0] is not current:
            keys = {} if current is None else {self._table: current}
            self._sent = current, self._context.broadcast(keys)
        return self._sent[1]
