"""Begin a pipeline anew, or one of its tables: what the tables know of the log is void, all rows are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.core.errors import Conflict, HistoryChanged, InvalidInput
from frazil.core.stamp import Stamp
from frazil.lake.authority import find_stamp
from frazil.lake.writers import PipelineWriter
from frazil.stream.postgres.database import Database
from frazil.stream.postgres.source import PostgresSource

if TYPE_CHECKING:
    from frazil.lake.catalog import Lake
    from frazil.lake.table import LakeTable
    from frazil.stream.config.model import PipelineConfig


def require_stopped(source: PostgresSource) -> None:
    """Who follows the log has changes in memory that a new beginning would come between."""
    database = Database(source)
    try:
        _require_stopped(database, source)
    finally:
        database.close()


def begin_anew(
    source: PostgresSource, lanes: Sequence[PipelineConfig], lake: Lake, *, whole: bool
) -> dict[str, Stamp]:
    """The stamps of the lanes' tables, by table, none of them with a position; `whole`: they are all there
    are, and the slot goes too."""
    database = Database(source)
    try:
        database.check()
        _require_stopped(database, source)
        server = database.identity()
        tables = [lake.load(*lane.home) for lane in lanes]
        if not whole:
            _require_server(source, tables, server)
        stamps = {}
        for lane, table in zip(lanes, tables, strict=True):
            writer = PipelineWriter.reset(lake, table, lane.name, server, {}, lane.hash)
            stamps[str(table)] = writer.stamp
        if whole:
            # Not before: the stamps would miss it. The next run makes another.
            database.drop_slot()
        return stamps
    finally:
        database.close()


def _require_stopped(database: Database, source: PostgresSource) -> None:
    slot = database.slot()
    if slot is not None and slot.active:
        raise Conflict(
            f"pipeline '{source.name}' runs: a process is reading the slot {source.slot} of {source.where}. "
            "Stop it first. To read the rows of a table again while it runs, use `frazil snapshot`"
        )


def _require_server(source: PostgresSource, tables: Sequence[LakeTable], server: str) -> None:
    for table in tables:
        try:
            stamp = find_stamp(table, source.name)
        except HistoryChanged:
            continue
        if stamp is not None and stamp.source != server:
            raise InvalidInput(
                f"{table} was read from {stamp.source}, and {source.where} is {server}: another server, or "
                "the same one restored or failed over. Then all tables must begin anew: leave --table out"
            )
