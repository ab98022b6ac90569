"""Servers for these tests, with the database's own notes switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.catalog.concurrency.audit import Db, PostgresDb, SqliteDb

from frazil.devstack.frazil_server import FrazilServer

#: Servers that share a database must share the key that seals its secrets.
KEY = "5a" * 32
ARGUMENTS = ("--no-access-log",)


@contextmanager
def on_postgres(url: str, servers: int = 2) -> Iterator[tuple[list[FrazilServer], Db]]:
    """Servers that share one database; the warehouse is in the first one's directory."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                FrazilServer(
                    database_url=url, arguments=ARGUMENTS, environment={"FRAZIL_ENCRYPTION_KEY": KEY}
                )
            )
            for _ in range(servers)
        ]
        db = PostgresDb(url)
        db.install()
        yield started, db


@contextmanager
def on_sqlite(directory: Path) -> Iterator[tuple[list[FrazilServer], Db]]:
    with FrazilServer(directory, arguments=ARGUMENTS) as server:
        db = SqliteDb(server.data_dir / "catalog.db")
        db.install()
        yield [server], db
