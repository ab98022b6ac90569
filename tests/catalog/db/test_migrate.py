from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.catalog import db
from frazil.catalog.db import Database
from frazil.catalog.metadata import JobWrites
from frazil.catalog.store import jobs, purges, tabulars
from frazil.catalog.store.packing import pack
from frazil.core.errors import Conflict, InvalidConfig

NEWEST = db.migrations()[-1].version
#: A warehouse with a table and a purge, as version 1 wrote them; $1 is a packed document.
FIRST_ROWS = """
INSERT INTO project VALUES ('p', 'P', 0);
INSERT INTO warehouse (warehouse_id, project_id, name, name_key, status, storage_profile, delete_profile,
    allowed_format_versions, created_at) VALUES ('w', 'p', 'W', 'w', 'active', '{}', '{}', '[2]', 0);
INSERT INTO namespace (namespace_id, warehouse_id, path, path_key, properties, created_at)
    VALUES ('n', 'w', 'NS', 'ns', '{}', 0);
INSERT INTO tabular (tabular_id, warehouse_id, namespace_id, kind, name, name_key, location,
    metadata_location, metadata, created_at, updated_at)
    VALUES ('t', 'w', 'n', 'table', 'T', 't', 'file:///w/t', 'file:///w/t/metadata/1.json', $1, 0, 0);
INSERT INTO purge (purge_id, warehouse_id, name, metadata_location, metadata, not_before, created_at)
    VALUES ('x', 'w', 'ns.old', 'file:///w/old/metadata/1.json', $1, 0, 0)
"""


async def tables(database: Database) -> set[str]:
    if database.dialect == "sqlite":
        sql = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    return {row[0] for row in await database.fetch(sql)}


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in db.migrations()] == list(range(1, NEWEST + 1))


async def test_an_empty_database_is_brought_up(url: str) -> None:
    database = await db.connect(url)
    state = await db.schema_state(database)
    assert (state.current, state.newest, state.pending) == (0, NEWEST, NEWEST)
    assert await tables(database) == set(), "looking changes nothing"
    applied = await db.migrate(database)
    assert [migration.version for migration in applied] == list(range(1, NEWEST + 1))
    assert await tables(database) >= {
        "warehouse",
        "namespace",
        "tabular",
        "idempotency",
        "purge",
        "job_table",
    }
    assert (await db.schema_state(database)).pending == 0
    before = await database.fetch("SELECT version, applied_at FROM schema_version")
    assert await db.migrate(database) == []
    after = await database.fetch("SELECT version, applied_at FROM schema_version")
    assert [tuple(row) for row in before] == [tuple(row) for row in after]  # type: ignore[arg-type]
    await database.close()


async def test_rivals_migrate_once(url: str) -> None:
    """Two replicas may start on an empty database at the same moment."""
    databases = await asyncio.gather(*(db.connect(url) for _ in range(4)))
    applied = await asyncio.gather(*(db.migrate(database) for database in databases))
    assert sorted(m.version for each in applied for m in each) == list(range(1, NEWEST + 1))
    for database in databases:
        assert (await db.schema_state(database)).pending == 0
        await database.close()


async def test_a_database_in_use_waits_and_one_that_a_rival_is_making_does_not(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("frazil.catalog.db.migrate")
    database = await db.connect(url)

    async def at_version(number: int) -> None:
        monkeypatch.setattr(module, "migrations", lambda: db.migrations()[:number])
        await module.migrate(database)
        monkeypatch.undo()

    await at_version(1)
    await database.execute("INSERT INTO server (singleton, server_id) VALUES (1, 'x')")
    if database.dialect == "postgresql":
        with pytest.raises(InvalidConfig, match="frazil migrate"):
            await db.bring_up_to_date(database)
        await database.execute("DELETE FROM server")
    await db.bring_up_to_date(database)
    assert (await db.schema_state(database)).pending == 0
    await database.close()


@pytest.mark.parametrize("version", range(1, NEWEST))
async def test_rows_of_older_versions_live_on(
    url: str, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A table stays a table, whose next commit names its job; a purge that waits keeps its place taken."""
    module = importlib.import_module("frazil.catalog.db.migrate")
    database = await db.connect(url)
    monkeypatch.setattr(module, "migrations", lambda: db.migrations()[:1])
    await module.migrate(database)
    for statement in FIRST_ROWS.split(";"):
        await database.execute(statement, *([pack(b"{}")] if "$1" in statement else []))
    monkeypatch.setattr(module, "migrations", lambda: db.migrations()[:version])
    await module.migrate(database)
    monkeypatch.undo()
    applied = await db.migrate(database)
    assert [migration.version for migration in applied] == list(range(version + 1, NEWEST + 1))
    rows = await tabulars.list_kind(database, "n", "table", "", 10)
    assert [(row.name, row.format) for row in rows] == [("T", None)]
    assert await tabulars.list_kind(database, "n", "generic-table", "", 10) == []
    assert await jobs.jobs_of(database, "t", ("", ""), 10) == []
    writes = JobWrites("flink", "j", 1, 2, 3, 1)
    swap = tabulars.Swap("t", "w", 1, "file:///w/t/metadata/2.json", b"{}", "file:///w/t", (writes,))
    async with database.transaction() as connection:
        assert await tabulars.swap(connection, swap, 5, database.dialect)
    (table,) = await jobs.tables_of(database, "w", ("flink", "j"), "", 10, dropped=False)
    assert (table.levels, table.name, table.writes) == (("NS",), "T", writes)
    purge = await purges.next_due(database, 10)
    assert purge is not None
    assert (purge.kind, purge.name, purge.metadata) == ("table", "ns.old", b"{}")
    for location in ("file:///w/old", "file:///w/old/metadata"):
        with pytest.raises(Conflict, match=r"ns\.old was dropped with purge"):
            await purges.refuse_doomed(database, "w", location, [], generic=True)
        await purges.refuse_doomed(database, "w", location, [], generic=False)
    await purges.refuse_doomed(database, "w", "file:///w/old2", [], generic=True)
    await database.close()


async def test_a_newer_schema_is_refused(url: str) -> None:
    database = await db.connect(url)
    await db.migrate(database)
    await database.execute("INSERT INTO schema_version VALUES ($1, $2)", NEWEST + 5, 0)
    with pytest.raises(InvalidConfig, match=rf"{NEWEST + 5}.*newer frazil"):
        await db.migrate(database)
    await database.close()


async def test_a_migration_that_fails_leaves_the_old_version(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module("frazil.catalog.db.migrate")
    database = await db.connect(url)
    await db.migrate(database)
    broken = module.Migration(
        NEWEST + 1, "broken", "CREATE TABLE extra (id TEXT);\nCREATE TABLE tabular (id TEXT);\n"
    )
    every = (*db.migrations(), broken)
    monkeypatch.setattr(module, "migrations", lambda: every)
    with pytest.raises(Exception, match=r"(?i)tabular"):
        await module.migrate(database)
    assert (await module.schema_state(database)).current == NEWEST
    assert "extra" not in await tables(database)
    monkeypatch.undo()
    await database.close()


def migrate(url: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FRAZIL_")}
    if url.startswith("postgresql"):
        environment["FRAZIL_DATABASE_URL"] = url
    command = [sys.executable, "-m", "frazil.cli", "migrate", "--data-dir", str(tmp_path / "deep" / "er")]
    return subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_rival_processes_migrate_once(url: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda _: migrate(url, tmp_path), range(3)))
    assert [run.returncode for run in runs] == [0, 0, 0], [run.stderr for run in runs]
    assert sum(run.stdout.count("applied 0001") for run in runs) == 1


def test_the_command(url: str, tmp_path: Path) -> None:
    dry = migrate(url, tmp_path, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "schema version 0" in dry.stdout
    assert "would apply 0001 catalog" in dry.stdout
    assert "schema version 0" in migrate(url, tmp_path, "--dry-run").stdout, "a dry run changes nothing"
    done = migrate(url, tmp_path)
    assert "applied 0001 catalog" in done.stdout
    again = migrate(url, tmp_path)
    assert again.returncode == 0
    assert f"schema version {NEWEST}, newest {NEWEST}" in again.stdout
    assert "appl" not in again.stdout.replace(str(tmp_path), "")
    if "@" in url:
        password = url.partition("@")[0].rpartition(":")[2]
        for run in (dry, done, again):
            assert password not in run.stdout + run.stderr


async def test_the_command_refuses_a_newer_schema(url: str, tmp_path: Path) -> None:
    database = await db.connect(url)
    await db.migrate(database)
    await database.execute("INSERT INTO schema_version VALUES ($1, $2)", NEWEST + 1, 0)
    await database.close()
    done = await asyncio.to_thread(migrate, url, tmp_path)
    assert done.returncode == 1
    assert "newer frazil" in done.stderr
    assert "Traceback" not in done.stderr
