"""`frazil migrate`: bring the database to the newest schema."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from frazil.catalog import db
from frazil.catalog.db.connect import masked
from frazil.catalog.settings import ServerSettings
from frazil.cli.options import resolved, settings_options


@click.command()
@settings_options(ServerSettings, "data_dir", "database_url")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def migrate(config_file: Path | None, dry_run: bool, **flags: Any) -> None:
    """Bring the database to the newest schema version.

    SQLite files and empty databases are migrated by `frazil serve` itself; a PostgreSQL database in use
    waits for this command, so that you choose the moment.
    """
    settings = resolved(ServerSettings, config_file, flags).values
    asyncio.run(_migrate(settings, dry_run))


async def _migrate(settings: ServerSettings, dry_run: bool) -> None:
    database = await db.connect(settings.database)
    try:
        state = await db.schema_state(database)
        click.echo(f"{masked(settings.database)}: schema version {state.current}, newest {state.newest}")
        if dry_run:
            for migration in db.migrations():
                if migration.version > state.current:
                    click.echo(f"would apply {migration.version:04d} {migration.name}")
            return
        for migration in await db.migrate(database):
            click.echo(f"applied {migration.version:04d} {migration.name}")
    finally:
        await database.close()
