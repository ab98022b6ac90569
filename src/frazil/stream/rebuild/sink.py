"""Where a rebuild writes: files that nobody sees, until one commit makes them all there is of the table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import structs

from frazil.core.correction import CORRECTION, Correction
from frazil.core.rebuild import REBUILD, Record, name_of_rebuild
from frazil.core.schema import Schema
from frazil.core.stamp import Stamp
from frazil.lake.delivery import Patience
from frazil.lake.delta import RowDelta
from frazil.lake.files import DataFile
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter, RoundTicket
from frazil.stream.config.model import PipelineConfig
from frazil.stream.jobs import JobResult
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.iceberg import IcebergSink
from frazil.stream.sinks.sink import Batch, Landed, Turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.lake.catalog import Lake


class Moved(Exception):
    """Somebody committed since the table was looked at: look again."""


@dataclass(frozen=True)
class Swap:
    """All that the table has goes and what was rebuilt comes, on the snapshot that was looked at alone."""

    head: int | None
    files: Sequence[DataFile]
    summary: Mapping[str, str] = field(default_factory=dict)

    def at(self, table: LakeTable) -> RowDelta:
        if table.head != self.head:
            raise Moved
        return RowDelta(self.head, self.files, truncates=True, summary=self.summary)

    def landed(self) -> None:
        """It wrote nothing of its own."""


class RebuildSink(IcebergSink):
    """Takes the rounds of a rebuild. Its writer has a name, and so an epoch and a folder, of its own.

    All files carry the token of the commit that will swap them in: by that, the next rebuild tells what
    landed from what a dead one left behind.
    """

    def __init__(
        self, config: PipelineConfig, spark: SparkSession, lake: Lake, rows: Schema, begin: Stamp
    ) -> None:
        super().__init__(replace(config, name=name_of_rebuild(config.name)), spark, lake, rows)
        self._at = begin
        self._ticket: RoundTicket | None = None
        self._parts = 0
        #: By table.
        self.files: dict[str, list[DataFile]] = defaultdict(list)
        self.bad = 0

    @property
    def stamp(self) -> Stamp:
        """What was rebuilt so far: where its next round goes on."""
        return self._at

    @property
    def rows(self) -> Sequence[DataFile]:
        return self.files[str(self.home)]

    @property
    def letters(self) -> str | None:
        """The dead-letter table, if it is there."""
        return next((name for name in self._own if name in self.writer.tables), None)

    def take_over(self, patience: Patience) -> None:
        """From now on this is the only rebuild; files that others left are removed."""
        begin = self._at
        self._write_by(
            PipelineWriter.reset(
                self._lake, self.home, self.name, begin.source, begin.positions, self._config.hash, patience
            )
        )

    def begin(self, plan: RoundPlan) -> Turn:
        return self._turn(self._part())

    def commit(
        self,
        turn: Turn,
        plan: RoundPlan,
        result: JobResult,
        ledger: Mapping[str, pa.Table],
        batch: Batch | None = None,
    ) -> Landed:
        """Keep the files; nobody sees them."""
        for name, files in result.files.items():
            self.files[name] += files
        self.bad += result.bad
        mine = result.files.get(str(self.home), ())
        written = sum(file.records for file in mine)
        self._at = structs.replace(
            self._at,
            positions=plan.positions,
            read=self._at.read + result.read,
            written=self._at.written + written,
        )
        return Landed(self._at, None, written, len(mine), sum(file.size for file in mine))

    def swap(self, head: int | None, record: Record, letters: Sequence[pa.Table]) -> int:
        """The snapshot that it made. Moved: main is not `head` any more; nothing was done."""
        ticket = self._part()
        # To change streams it is a correction of all rows, and no news.
        told = Correction(id=ticket.token[:8], range="true", fork=head or 0)
        summary = {REBUILD: record.encode(), CORRECTION: told.encode()}
        files: dict[str, Sequence[DataFile] | Swap] = {str(self.home): Swap(head, self.rows, summary)}
        if self.letters is not None:
            kept = [rows for rows in letters if len(rows)]
            files[self.letters] = self._written(self.letters, pa.concat_tables(kept), ticket) if kept else ()
        at = self._at
        self.writer.commit(
            ticket, files, positions=at.positions, read=at.read, written=at.written, watermark=at.watermark
        )
        return self.writer.snapshot_id

    def drop(self, tables: Sequence[str] | None = None) -> None:
        """Remove the files that were written for these tables, or for all; none that a commit took."""
        first = self._ticket
        if first is None:
            return
        behind = first.prefix.removeprefix(self.writer.folder(self.home))
        prefixes = {
            name: self.writer.folder(table) + behind
            for name, table in self.writer.tables.items()
            if tables is None or name in tables
        }
        self.writer.discard(replace(first, prefixes=prefixes))

    def _part(self) -> RoundTicket:
        """A ticket for the tables as they are now, under the token of the whole."""
        fresh = self.writer.begin()
        first = self._ticket = self._ticket or fresh
        self._parts += 1
        mark = f"{first.token[:8]}-{self._parts:06d}"
        return replace(
            fresh,
            token=first.token,
            prefixes={
                name: prefix.removesuffix(fresh.token[:8]) + mark for name, prefix in fresh.prefixes.items()
            },
            # The first files are of the columns of then.
            schemas={**fresh.schemas, **first.schemas},
        )
