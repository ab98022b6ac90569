"""The servers that are compared, each fresh, with the same database kind and a warehouse on local disk."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres
from frazil.devstack.reference import ReferenceCatalog

Server = Literal["frazil", "reference"]
Database = Literal["postgres", "sqlite"]


@dataclass(frozen=True)
class Target:
    """A running server, as the load client needs to know it."""

    server: Server
    database: Database
    port: int
    #: What precedes `/namespaces` in every path.
    base: str
    #: Where table files may be put.
    warehouse: Path
    pid: int
    database_pid: int | None
    #: PostgreSQL's URL or SQLite's file.
    database_place: str

    @property
    def label(self) -> str:
        return f"{self.server} on {self.database}"


@contextmanager
def database_server(database: Database) -> Iterator[Postgres | None]:
    """PostgreSQL with fsync on; nothing for SQLite."""
    with ExitStack() as stack:
        yield stack.enter_context(Postgres()) if database == "postgres" else None


@contextmanager
def target(server: Server, database: Database, postgres: Postgres | None, name: str) -> Iterator[Target]:
    """Start a server on an empty database of that name."""
    url = postgres.create_database(name) if postgres is not None else None
    database_pid = postgres.pid if postgres is not None else None
    if server == "frazil":
        with FrazilServer(database_url=url) as ours:
            prefix = _prefix(ours.port)
            yield Target(
                server,
                database,
                ours.port,
                f"/catalog/v1/{prefix}",
                ours.data_dir / "warehouse",
                ours.pid,
                database_pid,
                url or str(ours.data_dir / "catalog.db"),
            )
        return
    with ReferenceCatalog(database_url=url) as theirs:
        place = url or str(theirs.directory / "catalog.db")
        yield Target(server, database, theirs.port, "/v1", theirs.warehouse, theirs.pid, database_pid, place)


def _prefix(port: int) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/catalog/v1/config")
        answer = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    return str((answer["defaults"] | answer["overrides"])["prefix"])
