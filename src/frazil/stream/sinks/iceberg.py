"""Rows into Iceberg tables: one, or one for each value of a column; bad records beside them.

One table is the pipeline's home: its stamp is the authority, and it is part of every commit. That is the
table itself, or the dead-letter table where rows go to many.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.core.errors import (
    AlreadyExists,
    FrazilError,
    InvalidConfig,
    InvalidInput,
    NoSuchTable,
    RoundFailed,
    Unsupported,
)
from frazil.core.names import name_key, show
from frazil.core.partitioning import PartitionField
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import find_stamp
from frazil.lake.delivery import Patience
from frazil.lake.files import DataFile, FileOptions
from frazil.lake.leftovers import remove_leftovers
from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter
from frazil.lake.writers import PipelineWriter, RoundTicket
from frazil.maintenance import Caretaker
from frazil.stream.config.model import PipelineConfig, TableConfig
from frazil.stream.dead_letters import DEAD_LETTERS, PARTITIONING, require_letters
from frazil.stream.decode.drift import settled
from frazil.stream.fit import followed, problems
from frazil.stream.jobs import JobResult
from frazil.stream.needs import Needs
from frazil.stream.outlets import Destination, TableWriting
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.keys import TableKeys
from frazil.stream.sinks.sink import Batch, Landed, Turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.catalog import Lake

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OwnTable:
    """A table that is the pipeline's own, beside those of the user."""

    namespace: tuple[str, ...]
    name: str
    schema: Schema
    partitioning: tuple[PartitionField, ...] = ()

    def __str__(self) -> str:
        return show(self.namespace, self.name)


class IcebergSink:
    """The tables of one pipeline."""

    most_tasks: int | None = None

    def __init__(
        self,
        config: PipelineConfig,
        spark: SparkSession,
        lake: Lake,
        rows: Schema,
        ledger: OwnTable | None = None,
        *,
        beside_letters: bool = False,
    ) -> None:
        """`rows`: the columns that land; `ledger`: a table of the source's own.

        `beside_letters`: the dead-letter table is the home, whatever the rows go to.
        """
        self.name = config.name
        self._config = config
        self._lake = lake
        self._rows = rows
        self._keys = TableKeys(spark.sparkContext)
        self._ledger = ledger
        self._table = show(config.table.namespace, config.table.name)
        dead = config.dead_letters
        self._dead = None if dead is None else OwnTable(dead.namespace, dead.name, DEAD_LETTERS, PARTITIONING)
        self._own = {str(table): table for table in (ledger, self._dead) if table is not None}
        self._caretaker = Caretaker(spark, lake, config.maintenance, file_size=config.table.files.size)
        self._touched: set[str] = set()
        #: Names of routed rows that no table can have, with the reason.
        self._unmade: dict[str, str] = {}
        self._writer: PipelineWriter | None = None
        self._replays = beside_letters
        self._many = config.table.routed or beside_letters
        self.created = False
        self.home = self._open_home()
        #: The one table that gets the rows; None: there are many.
        self._main = None if config.table.routed else self._made(self._table) if beside_letters else self.home
        self.schema = config.schema
        self._follow()
        if self._main is not None:
            self._require_fit(self._main)

    def before(self) -> Stamp | None:
        """What the pipeline had written when it was opened; None: it never ran."""
        return find_stamp(self.home, self.name)

    def claim(self, first: Callable[[], tuple[str, dict[str, Position]]], patience: Patience) -> None:
        """From now on this process is the pipeline's only writer. Comes last: nothing was changed before."""
        self._write_by(
            PipelineWriter.claim(self._lake, self.home, self.name, first, self._config.hash, patience)
        )

    def _write_by(self, writer: PipelineWriter) -> None:
        self._writer = writer
        self._keys.add(self.home)
        if self._ledger is not None:
            self._join(self._made(str(self._ledger)))
        if self._dead is not None and str(self._dead) not in writer.tables:
            # Else it is made with the first bad record.
            with suppress(NoSuchTable):
                self._join(self._loaded(self._dead))
        if self._main is not None and self._main is not self.home:
            self._join(self._main)
        self._sweep(self.home)

    @property
    def writer(self) -> PipelineWriter:
        assert self._writer is not None, "the pipeline was claimed"
        return self._writer

    @property
    def stamp(self) -> Stamp:
        return self.writer.stamp

    def keys_end(self) -> datetime | None:
        return self._keys.end()

    def begin(self, plan: RoundPlan) -> Turn:
        # One of many does not stop the others.
        optional = [name for name in self.writer.tables if self._main is None and name not in self._own]
        return self._turn(self.writer.begin(optional))

    def _turn(self, ticket: RoundTicket) -> Turn:
        """Leave to write what the ticket allows, into the tables as they were just loaded."""
        self._follow()
        # Somebody may have renamed or dropped a column: its values would be left out without a word.
        for name, own in self._own.items():
            if name in self.writer.tables:
                self._require_own(own, self.writer.tables[name])
        misfits: dict[str, str] = {}
        if self._main is None:
            misfits = self._misfits() | dict(ticket.refused)
        else:
            self._require_fit(self._main)
        writing = TableWriting(
            self.name,
            {
                name: Destination(table.write_target(self._config.table.files), ticket.prefixes[name])
                for name, table in self.writer.tables.items()
                if name not in misfits and name != str(self._ledger)
            },
            self._table,
            None if self._dead is None or self._replays else str(self._dead),
            self._config.contract.tables,
            refused=misfits | self._unmade | {name: f"{name} is the pipeline's own" for name in self._own},
        )
        return Turn(ticket.round, ticket.token, writing, self._keys.broadcast(), ticket)

    def commit(
        self,
        turn: Turn,
        plan: RoundPlan,
        result: JobResult,
        ledger: Mapping[str, pa.Table],
        batch: Batch | None = None,
    ) -> Landed:
        ticket: RoundTicket = turn.ticket
        taken = {name: self._written(name, rows, ticket) for name, rows in ledger.items()}
        written = sum(
            file.records for name, files in result.files.items() if name not in self._own for file in files
        )
        stamp = self.writer.commit(
            ticket,
            {**result.files, **taken},
            positions=plan.positions,
            read=result.read,
            written=written,
            watermark=result.watermark(self.writer.stamp.watermark) if batch is None else batch.watermark,
            query=None if batch is None else batch.query,
            batch=None if batch is None else batch.number,
        )
        files = [file for several in result.files.values() for file in several]
        # The home table gets a snapshot also where it gets no rows.
        self._touched |= {name for name, several in {**result.files, **taken}.items() if several}
        self._touched.add(str(self.home))
        return Landed(stamp, self.writer.snapshot_id, written, len(files), sum(file.size for file in files))

    def discard(self, turn: Turn) -> None:
        self.writer.discard(turn.ticket)

    def adapt(self, needs: Needs) -> None:
        self._require_legal(needs)
        reserved = [field.name for field in self._config.metadata.fields()]
        # Tasks may want different things of one column.
        main = self._main or self.home
        changes = settled(main.schema, needs.changes(), reserved)
        if changes:
            main.evolve(changes)
            _logger.info(
                "pipeline %s: the table %s got %s",
                self.name,
                main,
                ", ".join(".".join(change.path) for change in changes),
            )
            self._follow()
        known = {name_key(name) for name in self.writer.tables}
        for name in needs.tables:
            if name_key(name) in known:
                continue
            known.add(name_key(name))
            try:
                made = self._made(name)
                self.writer.check_companion(made)
            except (InvalidInput, NoSuchTable, Unsupported) as error:
                # A view has the name, say, or it has a column of a type that frazil has not: what a record
                # brings along does not stop the others.
                if name in self._own:
                    raise
                self._unmade[name] = f"there cannot be a table {name}: {error.message}"
            else:
                self._join(made)

    def _require_legal(self, needs: Needs) -> None:
        """Behind a transform they are found in Spark's text, which may quote what somebody wrote."""
        contract = self._config.contract
        columns = self._main is not None and "evolve" in (contract.columns, contract.types)
        tables = self._config.table.routed and contract.tables == "evolve"
        main = {name_key(self._table)} if self._main is not None else set()
        legal = main | {name_key(name) for name in self._own}
        others = [name for name in needs.tables if name_key(name) not in legal]
        if (needs.columns and not columns) or (others and not tables):
            raise RoundFailed(
                f"pipeline '{self.name}': a task asked for columns or tables that the contract does not "
                "allow. Nothing was written"
            )

    def rest(self) -> None:
        touched, self._touched = self._touched, set()
        for name in sorted(touched):
            self._caretaker.committed(self.writer.tables[name])

    def _open_home(self) -> LakeTable:
        if self._many:
            assert self._dead is not None, "the configuration asks for it"
            return self._made(str(self._dead))
        return self._made(self._table)

    def _made(self, name: str) -> LakeTable:
        """The table, created if it is not there."""
        config = self._config.table
        own = self._own.get(name)
        wanted = own or OwnTable(
            config.namespace,
            name.removeprefix(f"{show(config.namespace)}."),
            self._rows,
            config.partitioning,
        )
        where = (wanted.namespace, wanted.name)
        try:
            return self._lake.load(*where) if own is None else self._loaded(own)
        except NoSuchTable:
            if own is None and self._config.contract.tables != "evolve":
                raise InvalidConfig(
                    f"pipeline '{self.name}': there is no table {name}, and `contract.tables` is "
                    f"{self._config.contract.tables}: make the table, or let it be evolve"
                ) from None
        properties = {} if own is not None else _properties(config)
        try:
            made = self._lake.create(
                *where, wanted.schema, wanted.partitioning, properties, config.format_version
            )
        except AlreadyExists:
            # Another pipeline of the same table was faster.
            return self._lake.load(*where) if own is None else self._loaded(own)
        self.created = self.created or own is None
        return made

    def _loaded(self, own: OwnTable) -> LakeTable:
        table = self._lake.load(own.namespace, own.name)
        self._require_own(own, table)
        return table

    def _join(self, table: LakeTable) -> None:
        self.writer.join(table)
        self._keys.add(table)
        self._sweep(table)

    def _follow(self) -> None:
        """Where the contract lets the table grow, its columns are the ones that values are decoded into."""
        config = self._config
        if config.transform is not None or self._main is None:
            return
        self.schema = followed(config, self._main.schema)
        self._rows = Schema((*self.schema.fields, *config.metadata.fields()))

    def _require_fit(self, table: LakeTable) -> None:
        if wrong := problems(self._rows, table.schema):
            raise InvalidConfig(
                f"pipeline '{self.name}' does not fit the table {table}: {'; '.join(wrong)}. Change "
                "the pipeline's schema or the table's"
            )

    def _require_own(self, own: OwnTable, table: LakeTable) -> None:
        """What it has no column for would be left out without a word."""
        if own is self._dead:
            require_letters(str(table), table.schema)
        elif wrong := problems(own.schema, table.schema):
            raise InvalidConfig(
                f"pipeline '{self.name}' keeps a table of its own at {table}, which is not one: "
                f"{'; '.join(wrong)}. Rename that one"
            )

    def _misfits(self) -> dict[str, str]:
        """Tables that cannot take the rows, with the reason."""
        found = {}
        for name, table in self.writer.tables.items():
            wrong = [] if name in self._own else problems(self._rows, table.schema)
            if wrong:
                found[name] = f"the table {name} cannot take it: {'; '.join(wrong)}"
        return found

    def _written(self, name: str, rows: pa.Table, ticket: RoundTicket) -> tuple[DataFile, ...]:
        table = self.writer.tables[name]
        prefix = f"{ticket.prefixes[name]}-ledger"
        writer = TableWriter(table.write_target(), table.storage(), prefix)
        try:
            for batch in rows.to_batches():
                writer.write(batch)
        except BaseException:
            writer.abort()
            raise
        return tuple(writer.close())

    def _sweep(self, table: LakeTable) -> None:
        """Files of writers that died are removed; if the store refuses just now, by the next claim."""
        try:
            swept = remove_leftovers(self.writer, table)
        except FrazilError as error:
            _logger.warning("pipeline %s: files of older writers stay: %s", self.name, error.message)
            return
        if swept.removed:
            _logger.info("pipeline %s: removed %d files of older writers", self.name, len(swept.removed))


def _properties(table: TableConfig) -> dict[str, str]:
    """Of a new table: merged files are of the format that the pipeline writes."""
    given = dict(table.properties)
    if table.files.format != FileOptions.format:
        given.setdefault("write.format.default", table.files.format)
    return given
