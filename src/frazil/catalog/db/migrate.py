"""Numbered migrations: `migrations/NNNN_what.sql`, applied in order, each in one transaction."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cache
from importlib import resources

from frazil.catalog.db.base import Database
from frazil.core.errors import InvalidConfig

_TYPES = {
    "sqlite": {"TEXT": "TEXT", "BLOB": "BLOB", "BIGINT": "INTEGER"},
    # Names and locations are compared byte by byte, whatever the database's own collation.
    "postgresql": {"TEXT": 'TEXT COLLATE "C"', "BLOB": "BYTEA", "BIGINT": "BIGINT"},
}


@dataclass(frozen=True)
class Migration:
    version: int
    name: str
    sql: str


@dataclass(frozen=True)
class SchemaState:
    """How far a database is: `current` is 0 when it is empty."""

    current: int
    newest: int

    @property
    def pending(self) -> int:
        return self.newest - self.current


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations of this version of frazil, in order."""
    found = []
    for entry in resources.files("frazil.catalog.db").joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", entry.name)
        if match:
            found.append(Migration(int(match[1]), match[2], entry.read_text("utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.version))


async def schema_state(database: Database) -> SchemaState:
    """Reads the version table without creating it."""
    if database.dialect == "sqlite":
        probe = "SELECT 1 FROM sqlite_master WHERE name = 'schema_version'"
    else:
        probe = "SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL"
    current = 0
    if await database.fetchrow(probe):
        row = await database.fetchrow("SELECT max(version) FROM schema_version")
        current = (row[0] if row else None) or 0
    return SchemaState(current, migrations()[-1].version)


async def bring_up_to_date(database: Database) -> None:
    """Migrate what nobody else depends on; a PostgreSQL database in use waits for `frazil migrate`."""
    state = await schema_state(database)
    if not state.pending:
        return
    if state.pending > 0 and database.dialect == "postgresql" and await _in_use(database, state):
        # The first row comes after all migrations: what a rival's first start did meanwhile is whole.
        state = await schema_state(database)
        if state.pending:
            raise InvalidConfig(
                f"the database has schema version {state.current}, this frazil needs {state.newest}: "
                "run `frazil migrate`"
            )
    await migrate(database)


async def _in_use(database: Database, state: SchemaState) -> bool:
    """Whether a server ever started on it; one that is starting for the first time may be half way."""
    return state.current > 0 and await database.fetchrow("SELECT 1 FROM server") is not None


async def migrate(database: Database) -> list[Migration]:
    """Bring the database to the newest version; the migrations that were applied."""
    await database.run_script(
        _for_dialect(
            "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, applied_at BIGINT)",
            database,
        )
    )
    applied: list[Migration] = []
    for migration in migrations():
        state = await schema_state(database)
        if state.current > state.newest:
            raise InvalidConfig(
                f"the database has schema version {state.current}, this frazil knows {state.newest}: "
                "install the newer frazil that wrote it"
            )
        if migration.version <= state.current:
            continue
        script = _for_dialect(migration.sql, database)
        # The guard makes a rival process that waited for the lock stop instead of running it twice.
        guard = f"INSERT INTO schema_version VALUES ({migration.version}, {int(time.time() * 1000)})"  # noqa: S608 (two numbers)
        try:
            await database.run_script(f"{guard};\n{script}")
        except Exception:
            if (await schema_state(database)).current < migration.version:
                raise
        else:
            applied.append(migration)
    return applied


def _for_dialect(sql: str, database: Database) -> str:
    types = _TYPES[database.dialect]
    without_comments = re.sub(r"--[^\n]*", "", sql)
    return re.sub(r"\b(TEXT|BLOB|BIGINT)\b", lambda match: types[match[1]], without_comments)
