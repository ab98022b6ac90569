"""Which tabular lies where. Remote signing asks it for each request of an engine, so that is one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.db import Connection, Row
from frazil.catalog.storage import ancestors
from frazil.catalog.store.tabulars import Kind

_PLACES = 500


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


async def in_others(
    connection: Connection, warehouse_id: str, base: str, files: Sequence[str], own: str, tabular_id: str = ""
) -> set[str]:
    """Those of `files` that lie in the location, present or former, of another tabular.

    Files below `own` are the asker's, whoever lies there now; `tabular_id` is the asker's while it has a row.
    """
    above = {f: [*ancestors(f, base), f] for f in files if not f.startswith(f"{own}/")}
    places = list(dict.fromkeys(place for each in above.values() for place in each))
    taken: set[str] = set()
    for start in range(0, len(places), _PLACES):
        some = places[start : start + _PLACES]
        listed = ", ".join(f"${index}" for index in range(3, 3 + len(some)))
        others = f"warehouse_id = $1 AND tabular_id <> $2 AND location IN ({listed})"
        rows = await connection.fetch(
            f"SELECT location FROM tabular WHERE {others} "  # noqa: S608 (only $n)
            f"UNION ALL SELECT location FROM former_location WHERE {others}",
            warehouse_id,
            tabular_id,
            *some,
        )
        taken.update(row[0] for row in rows)
    return {file for file, each in above.items() if not taken.isdisjoint(each)}


def _of(row: Row | None) -> Placed | None:
    return Placed(row[0], row[1], row[2]) if row else None
