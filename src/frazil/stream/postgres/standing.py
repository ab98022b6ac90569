"""Whether a pipeline can go on from where its stamps are: the server must be the same, and its slot there."""

from __future__ import annotations

from frazil.core.errors import InvalidConfig, SourceChanged
from frazil.core.stamp import Stamp
from frazil.stream.postgres.database import Database, Slot, anew, slot_gone
from frazil.stream.postgres.source import PostgresSource


def look(source: PostgresSource, pipeline: str, stamp: Stamp | None) -> None:
    """For those who only ask; raises what a run would raise, as far as one table's stamp can tell."""
    database = Database(source)
    try:
        database.check()
        slot = database.slot()
        require_slot(source, pipeline, slot, begun=stamp is not None and begun(stamp))
        if stamp is not None:
            require_server(source, pipeline, database.identity(), stamp.source)
    finally:
        database.close()


def begun(stamp: Stamp) -> bool:
    """Whether something has landed, so that the slot matters."""
    return any(position.state for position in stamp.positions.values())


def require_server(source: PostgresSource, pipeline: str, found: str, stamped: str) -> None:
    if found != stamped:
        raise SourceChanged(
            f"pipeline {pipeline}: it was reading {stamped}, and {source.where} is {found}: another server, "
            "another database, or the same one restored or failed over. Nothing was written. Changes may be "
            f"lost: {anew(pipeline)}"
        )


def require_slot(source: PostgresSource, pipeline: str, slot: Slot | None, *, begun: bool) -> None:
    if slot is None:
        if begun:
            raise slot_gone(source, pipeline, f"the slot {source.slot} is gone")
        return
    if (slot.plugin, slot.database) != ("pgoutput", source.database):
        raise InvalidConfig(
            f"the slot {source.slot} of {source.where} is of {slot.plugin or 'physical replication'} for "
            f"the database {slot.database or '(any)'}: name another one for pipeline {pipeline}"
        )
    if begun and slot.lost:
        found = f"the database has dropped what the slot {source.slot} needed (max_slot_wal_keep_size)"
        raise slot_gone(source, pipeline, found)
