"""Whether a load costs more among 100,000 tables than among 100."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import closing

from bench.catalog.client import Plan, run
from bench.catalog.documents import table_metadata
from bench.catalog.measurement import Measurement
from bench.catalog.targets import Target
from bench.catalog.workloads import SPREAD_NAMESPACE, spread_name
from frazil.catalog.store.packing import pack

Row = tuple[str, str, str, str, str, str, str, str, bytes, int, int]

_COLUMNS = (
    "tabular_id",
    "warehouse_id",
    "namespace_id",
    "kind",
    "name",
    "name_key",
    "location",
    "metadata_location",
    "metadata",
    "created_at",
    "updated_at",
)
_BATCH = 5000


def measure(target: Target, tables: int, *, warm: int, measured: int, rounds: int) -> list[Measurement]:
    """Loads of 100 tables with nothing else there; of 100 among `tables`; and of all of them in turn."""
    run(target, Plan("spread", rounds=0))  # makes the namespace
    found = []
    filled = 0
    for total, asked in ((100, 100), (tables, 100), (tables, tables)):
        if total > filled:
            fill(target, filled, total)
            filled = total
        options = (("total", total), ("asked", asked))
        plan = Plan("spread", warm=warm, measured=measured, rounds=rounds, options=options)
        measurement = run(target, plan)
        measurement.workload = f"load {asked:,} of {total:,} tables"
        found.append(measurement)
    return found


def fill(target: Target, start: int, stop: int) -> None:
    """Put the rows of new tables into the server's database, and the files that they name on the disk."""
    if target.database == "sqlite":
        _fill_sqlite(target, start, stop)
    else:
        asyncio.run(_fill_postgres(target, start, stop))


def _fill_sqlite(target: Target, start: int, stop: int) -> None:
    with closing(sqlite3.connect(target.database_place, timeout=60)) as connection, connection:
        places = ", ".join("?" * len(_COLUMNS))
        ids = connection.execute(_IDS, (SPREAD_NAMESPACE,)).fetchone()
        for batch in _batches(target, ids[0], ids[1], start, stop):
            connection.executemany(f"INSERT INTO tabular ({', '.join(_COLUMNS)}) VALUES ({places})", batch)


async def _fill_postgres(target: Target, start: int, stop: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(target.database_place)
    try:
        ids = await connection.fetchrow(_IDS.replace("?", "$1"), SPREAD_NAMESPACE)
        assert ids is not None
        for batch in _batches(target, ids[0], ids[1], start, stop):
            await connection.copy_records_to_table("tabular", records=batch, columns=_COLUMNS)
        # As autovacuum does within a minute.
        await connection.execute("VACUUM ANALYZE tabular")
    finally:
        await connection.close()


_IDS = "SELECT warehouse_id, namespace_id FROM namespace WHERE path = ?"


def _batches(
    target: Target, warehouse_id: str, namespace_id: str, start: int, stop: int
) -> Iterator[list[Row]]:
    folder = target.warehouse / SPREAD_NAMESPACE
    folder.mkdir(exist_ok=True)
    location, marker = f"file://{folder}", "00000000-0000-0000-0000-000000000000"
    template = json.dumps(table_metadata(f"{location}/LOCATION", marker, 10))
    now = time.time_ns() // 1_000_000
    rows: list[Row] = []
    for number in range(start, stop):
        name, table_uuid = spread_name(number), str(uuid.UUID(int=number))
        file = folder / f"{name}.metadata.json"
        file.touch()
        metadata = pack(template.replace(marker, table_uuid).replace("LOCATION", name).encode())
        place = f"{location}/{name}"
        rows.append(
            (
                str(uuid.uuid4()),
                warehouse_id,
                namespace_id,
                "table",
                name,
                name,
                place,
                f"file://{file}",
                metadata,
                now,
                now,
            )
        )
        if len(rows) == _BATCH:
            yield rows
            rows = []
    yield rows
