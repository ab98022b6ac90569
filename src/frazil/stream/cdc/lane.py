"""One topic and the tables that it becomes: they commit and fail alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.core.errors import AlreadyExists, FrazilError, InvalidConfig, NoSuchTable
from frazil.core.names import show
from frazil.core.schema import Field, Schema
from frazil.core.stamp import Mark, Position, Stamp
from frazil.lake.authority import find_stamp
from frazil.lake.delivery import Patience
from frazil.lake.files import DataFile
from frazil.lake.keyed import KeyedRound, KeyedTable, Round, Run
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.patches import Patches
from frazil.lake.sequence import SequenceBy, sequence_field
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter, RoundTicket
from frazil.stream.cdc.change_log import LOG_COLUMNS, log_schema
from frazil.stream.cdc.changes import Shape
from frazil.stream.cdc.naming import lane_config
from frazil.stream.cdc.neighbours import Neighbours
from frazil.stream.cdc.order import raised
from frazil.stream.cdc.result import LaneResult
from frazil.stream.cdc.shapes import grown
from frazil.stream.cdc.spread import spread_by
from frazil.stream.cdc.work import LaneWork, Place, sequence_column
from frazil.stream.config.model import (
    ChangesConfig,
    DebeziumFormat,
    JsonFormat,
    KafkaSource,
    PipelineConfig,
)
from frazil.stream.dead_letters import DEAD_LETTERS, PARTITIONING, require_letters
from frazil.stream.postgres.log import READS, numbers
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.keys import TableKeys
from frazil.stream.tasks import watermark

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake

_logger = logging.getLogger(__name__)
#: A task folds at least this many changes, so that small rounds make few files.
_CHANGES_PER_BUCKET = 100_000
#: What the name of a table of changes ends with.
LOG_SUFFIX = "_changes"
#: Modes with a table of all changes, and with one whose rows have a key.
_LOGGING, _KEYED = ("append", "changelog"), ("upsert", "changelog")


@dataclass(frozen=True)
class LaneTurn:
    """A round of a lane: what it reads, and leave to write it."""

    plan: RoundPlan
    work: LaneWork
    #: None: there is no table yet.
    ticket: RoundTicket | None


class Lane:
    """One topic of a pipeline. For one thread."""

    def __init__(
        self,
        config: PipelineConfig,
        lake: Lake,
        keys: TableKeys,
        topic: str,
        first: Callable[[], tuple[str, dict[str, Position]]],
        neighbours: Neighbours,
    ) -> None:
        config = lane_config(config, topic)
        assert config.changes is not None, "the pipeline reads changes"
        assert isinstance(config.format, DebeziumFormat | JsonFormat), "the configuration asks for it"
        self.topic = topic
        self._config = config
        self._changes: ChangesConfig = config.changes
        self._format = config.format
        self._sequence_by = sequence_column(config.format)
        self._lake = lake
        self._keys = keys
        self._first = first
        self._neighbours = neighbours
        self._name = config.table.name
        self._key = config.changes.key
        self._keyed: KeyedTable | None = None
        self._writer: PipelineWriter | None = None
        self._provisional: Stamp | None = None
        #: The table of rows as they are now, and that of all changes.
        self.rows: LakeTable | None = None
        self.log: LakeTable | None = None
        self._letters: LakeTable | None = None
        self.created = False

    def __str__(self) -> str:
        return show(self._config.table.namespace, self._name)

    @property
    def stamp(self) -> Stamp:
        """Where the next round goes on."""
        if self._writer is not None:
            return self._writer.stamp
        if self._provisional is None:
            source, positions = self._first()
            self._provisional = Stamp(
                pipeline=self._config.name, epoch=0, round=0, token="", source=source, positions=positions
            )
        return self._provisional

    @property
    def home(self) -> LakeTable | None:
        """The table whose stamp counts."""
        return self.log if self._changes.mode == "append" else self.rows

    @property
    def claimed(self) -> bool:
        return self._writer is not None

    @property
    def inserts(self) -> bool:
        """Whether rows only come."""
        return self._changes.mode == "insert"

    @property
    def complete(self) -> bool:
        """Whether all rows of the source were read before its changes."""
        source = self._config.source
        if not isinstance(source, PostgresSource) or not source.reads_all:
            return False
        return numbers(self.stamp.positions.get(self.topic))[READS] > 0

    @property
    def config(self) -> PipelineConfig:
        """As if its pipeline had this topic alone."""
        return self._config

    @property
    def _declared(self) -> bool:
        """Whether somebody declared the table and made it: no record adds a column."""
        return isinstance(self._format, JsonFormat)

    def open(self, patience: Patience) -> bool:
        """Take over the tables, if they are there; whether they are. NoSuchTable: it was declared."""
        where = self._config.table.namespace
        try:
            if self._changes.mode != "append":
                self.rows = self._lake.load(where, self._name)
                self._key = self._key or (() if self.inserts else self.rows.key)
            if self._changes.mode in _LOGGING:
                self.log = self._lake.load(where, self._log_name)
        except NoSuchTable:
            if self._declared:
                raise
            return False
        if self._changes.mode in _KEYED and not self._key:
            # The records tell; until then there is nothing to write with.
            return False
        self._claim(patience)
        return True

    def begin(self, plan: RoundPlan, parallelism: int, *, halves: bool = False) -> LaneTurn:
        """Start a round; `halves`: of changed keys are taken as they are. Superseded: by another writer."""
        if self._writer is None:
            return LaneTurn(plan, self._asking(), None)
        ticket = self._writer.begin()
        several = len(plan.positions[self.topic].next) > 1
        work = replace(
            self._asking(),
            schema=self._columns(),
            marks=self._marks(),
            floor=self._floor(),
            rows=self._place(self.rows, ticket),
            log=self._place(self.log, ticket),
            letters=self._place(self._letters, ticket),
            # In several partitions the other half may be anywhere, or have been read long ago.
            halves=halves or several,
            several=several,
            buckets=1 if self.inserts else max(1, min(parallelism, plan.offsets // _CHANGES_PER_BUCKET)),
            inserts=self.inserts,
        )
        if work.rows is not None and not self.inserts:
            work = replace(work, spread=spread_by(work.rows.target, self._key))
        return LaneTurn(plan, work, ticket)

    def adapt(self, shape: Shape, patience: Patience) -> None:
        """Make the tables, or let them have what the records have."""
        if self._writer is None:
            self._make(shape)
            self._claim(patience)
            return
        for table in (self.rows, self.log):
            if table is not None:
                table.evolve(grown(table.schema, shape.columns))

    def lookup(self, turn: LaneTurn, result: LaneResult, run: Run, slots: int) -> KeyedRound | None:
        """What finds the rows that have to go; None: none does."""
        if self.rows is None or self.inserts:
            return None
        assert turn.ticket is not None, "the lane was claimed"
        self._keyed = self._keyed or KeyedTable(self._key)
        name = str(self.rows)
        key = self._keyed.key_schema(self.rows).to_arrow()
        patches = None
        if result.patches:
            patches = Patches(
                pa.concat_tables(result.patches),
                pa.array(result.holes, pa.binary()),
                pa.concat_tables(result.origins),
            )
        wanted = Round(
            pa.concat_tables(result.keys) if result.keys else key.empty_table(),
            tuple(result.files.get(name, ())),
            patches,
            result.truncated,
            self._sequence(result),
            complete=self.complete,
        )
        return KeyedRound(
            self._keyed,
            wanted,
            turn.ticket.prefixes[name],
            run,
            slots=slots,
            options=self._config.table.files,
        )

    def commit(self, turn: LaneTurn, result: LaneResult, found: KeyedRound | None) -> Stamp:
        """Make the round part of the tables."""
        assert turn.ticket is not None, "the lane was claimed"
        files = {name: tuple(several) for name, several in result.files.items()}
        written: dict[str, Sequence[DataFile] | KeyedRound] = {**files}
        if found is not None:
            written[str(self.rows)] = found
        stamp = self._owner.commit(
            turn.ticket,
            written,
            positions=turn.plan.positions,
            read=result.read,
            written=result.upserted,
            watermark=watermark(result.slices, self.stamp.watermark),
            marks={self.topic: self._raised(turn.plan, result)},
            floors=self._floors(result),
            incarnation=self._changes.incarnation,
        )
        result.upserted -= 0 if found is None else found.late
        return stamp

    def discard(self, turn: LaneTurn) -> None:
        """Remove what a failed round wrote."""
        if turn.ticket is not None and turn.ticket.token != self.stamp.token:
            self._owner.discard(turn.ticket)

    def _sequence(self, result: LaneResult) -> SequenceBy | None:
        column, none = self._sequence_by, pa.array([], pa.int64())
        if column is None:
            return None
        return SequenceBy(
            column,
            pa.concat_arrays([none, *result.key_values]),
            pa.concat_arrays([none, *result.patch_values]),
        )

    @property
    def tables(self) -> Sequence[LakeTable]:
        return [] if self._writer is None else list(self._writer.tables.values())

    @property
    def _owner(self) -> PipelineWriter:
        assert self._writer is not None, "the lane was claimed"
        return self._writer

    @property
    def _log_name(self) -> str:
        return self._name if self._changes.mode == "append" else f"{self._name}{LOG_SUFFIX}"

    def _asking(self) -> LaneWork:
        """The work of a lane that has no table."""
        return LaneWork(
            self.topic,
            self._config.name,
            self._format,
            None,
            self._key,
            (),
            soft_delete=self._changes.soft_delete,
            # Who reads a database directly ends its rounds where transactions end.
            transactions=self._changes.whole_transactions and isinstance(self._config.source, KafkaSource),
            event_time=self._config.event_time,
        )

    def _columns(self) -> Schema:
        """Those of values; the table may have others of frazil's own."""
        assert self.home is not None, "the lane was claimed"
        if self._declared:
            return self.home.schema
        own = {column.name for column in LOG_COLUMNS} if self.home is self.log else set()
        own.add(self._changes.soft_delete or "")
        found = Schema(tuple(replace(f, required=False) for f in self.home.schema if f.name not in own))
        self._require_order(found)
        return found

    def _require_order(self, columns: Schema) -> None:
        if self._sequence_by is not None:
            try:
                sequence_field(columns, self._sequence_by)
            except InvalidConfig as error:
                raise InvalidConfig(
                    f"pipeline '{self._config.name}', {self.topic}: {error.message}"
                ) from None

    def _marks(self) -> tuple[Mark | None, ...]:
        return () if self._begins_anew else self.stamp.marks.get(self.topic, ())

    def _floor(self) -> Mark | None:
        return None if self._begins_anew else self.stamp.floors.get(self.topic)

    @property
    def _begins_anew(self) -> bool:
        """Whether nothing from before can be compared with the source as it is now."""
        return self._changes.incarnation > self.stamp.incarnation

    def _floors(self, result: LaneResult) -> dict[str, Mark]:
        floor = self._floor()
        if result.floor is not None:
            floor = raised(floor, result.floor)
        return {} if floor is None else {self.topic: floor}

    def _raised(self, plan: RoundPlan, result: LaneResult) -> tuple[Mark | None, ...]:
        before = self._marks()
        marks = []
        for partition in range(len(plan.positions[self.topic].next)):
            mark = before[partition] if partition < len(before) else None
            higher = result.marks.get(partition)
            marks.append(mark if higher is None else raised(mark, higher))
        return tuple(marks)

    def _place(self, table: LakeTable | None, ticket: RoundTicket) -> Place | None:
        if table is None:
            return None
        target = table.write_target(self._config.table.files)
        return Place(str(table), target, ticket.prefixes[str(table)])

    def _make(self, shape: Shape) -> None:
        """Tables for what the records have."""
        self._require_order(shape.columns)
        self._key = self._key or shape.key
        if self._changes.mode != "append":
            self._require_key(shape)
            self.rows = self._made(self._name, self._row_schema(shape.columns), self._key)
        if self._changes.mode in _LOGGING:
            self.log = self._made(self._log_name, log_schema(shape.columns), ())

    def _made(self, name: str, schema: Schema, key: tuple[str, ...]) -> LakeTable:
        config = self._config.table
        with suppress(AlreadyExists):
            made = self._lake.create(
                config.namespace,
                name,
                schema,
                config.partitioning,
                dict(config.properties),
                config.format_version,
                key,
            )
            self.created = True
            return made
        return self._lake.load(config.namespace, name)

    def _row_schema(self, columns: Schema) -> Schema:
        fields = [replace(column, required=column.name in self._key) for column in columns]
        if self._changes.soft_delete is not None:
            fields.append(
                Field(self._changes.soft_delete, "boolean", doc="whether the source deleted the row")
            )
        return Schema(tuple(fields))

    def _require_key(self, shape: Shape) -> None:
        names = [column.name for column in shape.columns]
        missing = [name for name in self._key if name not in names]
        if not self._key or missing:
            wrong = f"they have no column {', '.join(missing)}" if missing else "they have none"
            raise InvalidConfig(
                f"pipeline '{self._config.name}': rows of {self.topic} need a key, and {wrong}; the columns "
                f"are {', '.join(names)}. Give the table a primary key, name columns that tell rows apart "
                "(`changes.key`), or write every change as a row (`changes.mode: append`)"
            )

    def _claim(self, patience: Patience) -> None:
        assert self.home is not None, "the tables are there"
        config = self._config
        self._require_order(self.home.schema)
        stamp = find_stamp(self.home, config.name)
        self._require_life(stamp)
        tables = [table for table in (self.rows, self.log) if table is not None]
        self._neighbours.take(self.topic, tables, stamp)
        self._writer = PipelineWriter.claim(
            self._lake, self.home, config.name, self._first, config.hash, patience
        )
        self._keys.add(self.home)
        for table in tables:
            if table is not self.home:
                self._join(table)
        if config.dead_letters is not None:
            self._letters = self._dead_letters()
            self._join(self._letters)
        self._sweep(self.home)

    def _require_life(self, stamp: Stamp | None) -> None:
        if stamp is not None and stamp.incarnation > self._changes.incarnation:
            raise InvalidConfig(
                f"pipeline '{self._config.name}': the table {self} was written with `changes.incarnation` "
                f"{stamp.incarnation}, which is now {self._changes.incarnation}: it only goes up"
            )

    def _dead_letters(self) -> LakeTable:
        letters = self._config.dead_letters
        assert letters is not None, "asked for where there are any"
        with suppress(AlreadyExists):
            return self._lake.create(letters.namespace, letters.name, DEAD_LETTERS, PARTITIONING)
        found = self._lake.load(letters.namespace, letters.name)
        require_letters(str(found), found.schema)
        return found

    def _join(self, table: LakeTable) -> None:
        self._owner.join(table)
        self._keys.add(table)
        self._sweep(table)

    def _sweep(self, table: LakeTable) -> None:
        """Files of writers that died are removed; if the store refuses just now, by the next claim."""
        try:
            remove_leftovers(self._owner, table)
        except FrazilError as error:
            _logger.warning("%s: files of older writers stay: %s", self, error.message)
