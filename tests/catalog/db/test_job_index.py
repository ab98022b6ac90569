"""The index of jobs, below the API: what a swap writes with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from tests.catalog.db.test_migrate import FIRST_ROWS

from frazil.catalog import db
from frazil.catalog.db import Database
from frazil.catalog.metadata import JobWrites
from frazil.catalog.store import jobs, tabulars
from frazil.catalog.store.packing import pack

FIRST = JobWrites("flink", "a", 10, 10, 1, 1)
SECOND = JobWrites("spark", "b", 10, 10, 1, 1)
SWAP = tabulars.Swap("t", "w", 1, "file:///w/t/metadata/2.json", b"{}", "file:///w/t", (FIRST, SECOND))


@pytest.fixture
async def catalog(url: str) -> AsyncIterator[Database]:
    """A database with the table `t` in it."""
    database = await db.connect(url)
    await db.migrate(database)
    for statement in FIRST_ROWS.split(";"):
        await database.execute(statement, *([pack(b"{}")] if "$1" in statement else []))
    yield database
    await database.close()


async def swap(database: Database, change: tabulars.Swap) -> bool:
    async with database.transaction() as connection:
        return await tabulars.swap(connection, change, 5, database.dialect)


async def test_a_swap_that_is_lost_writes_nothing(catalog: Database) -> None:
    assert not await swap(catalog, replace(SWAP, revision=7))
    assert not await swap(catalog, replace(SWAP, tabular_id="gone"))
    assert await catalog.fetch("SELECT 1 FROM job_table") == []


async def test_swaps_add_up(catalog: Database) -> None:
    assert await swap(catalog, SWAP)
    later = replace(FIRST, first_ms=20, last_ms=30, last_snapshot_id=9, commits=2)
    assert await swap(catalog, replace(SWAP, revision=2, jobs=(later,)))
    found = await jobs.jobs_of(catalog, "t", ("", ""), 10)
    assert found == [JobWrites("flink", "a", 10, 30, 9, 3), SECOND]
    assert await swap(catalog, replace(SWAP, revision=3, jobs=()))
    assert await jobs.jobs_of(catalog, "t", ("", ""), 10) == found


async def test_one_statement_suffices_where_the_catalog_relies_on_it(catalog: Database) -> None:
    """Without a transaction around it: on SQLite only with no jobs."""
    change = replace(SWAP, jobs=()) if catalog.dialect == "sqlite" else SWAP
    assert not await tabulars.swap(catalog, replace(change, revision=7), 5, catalog.dialect)
    assert await tabulars.swap(catalog, change, 5, catalog.dialect)
    assert await jobs.jobs_of(catalog, "t", ("", ""), 10) == list(change.jobs)


async def test_a_long_history_is_registered(catalog: Database) -> None:
    many = [JobWrites("spark", f"app-{number:05d}", number, number, number, 1) for number in range(1201)]
    async with catalog.transaction() as connection:
        await jobs.restore(connection, jobs.Registered("w", "t", "uuid", many))
        await jobs.restore(connection, jobs.Registered("w", "t", "uuid", many))
    assert await jobs.jobs_of(catalog, "t", ("", ""), 5000) == many
    assert await jobs.jobs_of(catalog, "t", ("spark", "app-00999"), 2) == many[1000:1002]
