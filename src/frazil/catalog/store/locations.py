"""Which tabular lies where: what remote signing asks for each request of an engine, so it is one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.db import Connection, Row
from frazil.catalog.store.tabulars import Kind


@dataclass(frozen=True, slots=True)
class Placed:
    """A tabular, and the version of its warehouse."""

    warehouse_version: int
    kind: Kind
    location: str


_PLACED = (
    "SELECT w.version, t.kind, t.location FROM tabular t "
    "JOIN warehouse w ON w.warehouse_id = t.warehouse_id WHERE t.warehouse_id = $1 "
)


async def placed(connection: Connection, warehouse_id: str, tabular_id: str) -> Placed | None:
    """The tabular with this id."""
    return _of(await connection.fetchrow(f"{_PLACED} AND t.tabular_id = $2", warehouse_id, tabular_id))


async def placed_at(connection: Connection, warehouse_id: str, locations: Sequence[str]) -> Placed | None:
    """The tabular at one of these locations, each of which lies in the next: there can be only one."""
    places = ", ".join(f"${index}" for index in range(2, 2 + len(locations)))
    return _of(
        await connection.fetchrow(f"{_PLACED} AND t.location IN ({places}) LIMIT 1", warehouse_id, *locations)
    )


def _of(row: Row | None) -> Placed | None:
    return Placed(row[0], row[1], row[2]) if row else None
