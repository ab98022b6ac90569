"""A table of what tiering measured: a row for each hot table and interval, written as all tables are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from frazil.core.errors import (
    AlreadyExists,
    FrazilError,
    InvalidConfig,
    NoSuchTable,
    Outcome,
    Superseded,
)
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema, SchemaChange
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.files import DataFile
from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter
from frazil.lake.writers import PipelineWriter, RoundTicket
from frazil.stream.events import TableFreshness
from frazil.stream.fit import problems

#: What its writer is called in the table's stamps.
WRITER: Final = "tiering"
DEFAULT_TABLE: Final = "frazil.tiering_log"
COLUMNS: Final = Schema(
    (
        Field("at", "timestamptz", required=True),
        Field("table", "string", required=True),
        Field("lag_seconds", "double", required=True, doc="age of the oldest record not in Iceberg"),
        Field("freshness_seconds", "double", required=True, doc="what was promised"),
        Field("backlog", "long", required=True, doc="offsets not in Iceberg"),
        Field("breaches", "long", required=True, doc="broken promises since the row before"),
        Field("cause", "string", doc="of the last of them"),
        Field("trouble", "string", doc="why the table does not go on"),
        Field("watermark", "timestamptz", doc="event time that Iceberg has reached"),
    )
)
_PARTITIONING = parse_partitioning(["day(at)"])
_EVERY_SECONDS = 60.0


class TieringHistory:
    """Writes it, once a minute. For the thread of the loop."""

    def __init__(
        self,
        lake: Lake,
        namespace: tuple[str, ...],
        name: str,
        patience: Patience,
        *,
        every: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._lake = lake
        self._where = namespace, name
        self._patience = patience
        self._every = _EVERY_SECONDS if every is None else every
        self._clock = clock
        self._writer: PipelineWriter | None = None
        self._written = clock()
        #: Breaches that rows tell of already, by table.
        self._told: dict[str, int] = {}

    def write(self, tables: Sequence[TableFreshness], *, last: bool = False) -> LakeTable | None:
        """A row for each table, if it is time, or if there are `last` breaches to tell of.

        The table that it went to; None: it was not time.
        """
        now = self._clock()
        news = any(one.breaches > self._told.get(one.table, 0) for one in tables)
        if not tables or (now - self._written < self._every and not (last and news)):
            return None
        # Also if it fails: tables wait while it is tried.
        self._written = now
        try:
            try:
                table = self._commit(tables, now)
            except Superseded:
                # Services of other brokers may have the same catalog, and then share the table.
                self._writer = None
                table = self._commit(tables, now)
        except FrazilError as error:
            if error.outcome is not Outcome.RETRY:
                # Whatever became of the table is looked at the next time.
                self._writer = None
            raise
        # A table may be gone for a while: what was told of it is not told again.
        self._told |= {one.table: one.breaches for one in tables}
        return table

    def check(self) -> None:
        """InvalidConfig: the table is another one. What else is wrong with it is told when it is written."""
        try:
            found = self._lake.load(*self._where)
        except FrazilError:
            return
        _require_own(found)

    def _commit(self, tables: Sequence[TableFreshness], now: float) -> LakeTable:
        writer = self._writer = self._writer or self._claimed()
        ticket = writer.begin()
        files = self._files(writer.table, ticket, self._rows(tables, now))
        writer.commit(
            ticket,
            {str(writer.table): files},
            positions={},
            read=0,
            written=len(tables),
            watermark=int(now * 1_000_000),
        )
        return writer.table

    def _claimed(self) -> PipelineWriter:
        return PipelineWriter.claim(
            self._lake, self._table(), WRITER, lambda: ("frazil:tiering", {}), "", self._patience
        )

    def _table(self) -> LakeTable:
        namespace, name = self._where
        with suppress(NoSuchTable):
            return _grown(self._lake.load(namespace, name))
        with suppress(AlreadyExists):
            return self._lake.create(namespace, name, COLUMNS, _PARTITIONING)
        return _grown(self._lake.load(namespace, name))

    def _rows(self, tables: Sequence[TableFreshness], now: float) -> pa.RecordBatch:
        at = datetime.fromtimestamp(now, UTC)
        rows = []
        for one in tables:
            new = one.breaches - self._told.get(one.table, 0)
            rows.append(
                {
                    "at": at,
                    "table": one.table,
                    "lag_seconds": one.lag,
                    "freshness_seconds": one.freshness,
                    "backlog": one.backlog,
                    "breaches": new,
                    "cause": one.cause if new else None,
                    "trouble": one.trouble,
                    "watermark": one.watermark,
                }
            )
        return pa.RecordBatch.from_pylist(rows, COLUMNS.to_arrow())

    def _files(self, table: LakeTable, ticket: RoundTicket, rows: pa.RecordBatch) -> tuple[DataFile, ...]:
        writer = TableWriter(table.write_target(), table.storage(), f"{ticket.prefix}-rows")
        try:
            writer.write(rows)
        except BaseException:
            writer.abort()
            raise
        return tuple(writer.close())


def _grown(table: LakeTable) -> LakeTable:
    """With the column that older services did not know. Where that is refused, rows go without it."""
    _require_own(table)
    try:
        table.evolve([SchemaChange(("watermark",), "timestamptz")])
    except FrazilError as error:
        # What passes is tried again, with the rows of the next time: this writer never looks again.
        if error.outcome is not Outcome.FATAL:
            raise
    return table


def _require_own(table: LakeTable) -> None:
    """What a table has no column for is left out, and what it has others for is null: rows of nothing."""
    # Older services did not know all of the others.
    if wrong := problems(Schema(tuple(one for one in COLUMNS if one.required)), table.schema):
        raise InvalidConfig(
            f"the table {table} is none that tiering wrote: {'; '.join(wrong)}. Name another by --log-table, "
            "which is made if it is not there"
        )
