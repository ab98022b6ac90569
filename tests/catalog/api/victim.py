"""A server of one's own with a little of everything in it, and a dump of all that could change."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from tests.catalog.api.client import (
    Catalog,
    Json,
    add_snapshot,
    column,
    connect,
    local_path,
    schema,
    segment,
    set_ref,
)

from frazil.devstack.frazil_server import FrazilServer

TABLES = ("server", "project", "warehouse", "namespace", "tabular", "idempotency", "purge", "schema_version")
NS = ("ns",)
SUB = ("ns", "Sub Ünter")


class Victim:
    """`rows` is cheap and complete for the database; `everything` also asks the API and the disk."""

    def __init__(self, server: FrazilServer, database_url: str | None) -> None:
        self.server = server
        self.catalog = connect(server.port)
        self._loop = asyncio.new_event_loop()
        self._postgres = (
            self._loop.run_until_complete(asyncpg.connect(database_url)) if database_url else None
        )
        self._sqlite = None if database_url else sqlite3.connect(server.data_dir / "catalog.db")
        self._populate()
        self.warehouse = Path(local_path(self.catalog.load(NS, "t").ok()["metadata"]["location"])).parent

    def rows(self) -> list[list[Any]]:
        """Every row of every table."""
        if self._sqlite is not None:
            return [sorted(map(tuple, self._sqlite.execute(f"SELECT * FROM {t}")), key=repr) for t in TABLES]
        assert self._postgres is not None
        found = []
        for table in TABLES:
            records = self._loop.run_until_complete(self._postgres.fetch(f"SELECT * FROM {table}"))
            found.append(sorted(map(tuple, records), key=repr))
        return found

    def everything(self) -> Json:
        found: Json = {"rows": self.rows(), "files": sorted(map(str, self.warehouse.rglob("*")))}
        for path in self._paths():
            answer = self.catalog.send("GET", path)
            found[path] = (answer.status, answer.body)
        return found

    def close(self) -> None:
        self.catalog.client.close()
        if self._postgres is not None:
            self._loop.run_until_complete(self._postgres.close())
        if self._sqlite is not None:
            self._sqlite.close()
        self._loop.close()

    def _paths(self) -> Iterator[str]:
        yield "/namespaces"
        yield f"/namespaces?parent={segment(*NS)}"
        for levels in (NS, SUB):
            yield self.catalog.namespace_path(levels)
            for kind in ("tables", "views"):
                path = self.catalog.namespace_path(levels, kind)
                yield path
                for entry in self.catalog.send("GET", path).ok()["identifiers"]:
                    yield self.catalog.table_path(levels, entry["name"], kind)

    def _populate(self) -> None:
        catalog: Catalog = self.catalog
        catalog.create_namespace(*NS, properties={"owner": "me"}).ok()
        catalog.create_namespace(*SUB).ok()
        catalog.create_table(NS, "t", properties={"a": "b"}).ok()
        catalog.commit(NS, "t", add_snapshot(1), set_ref(1)).ok()
        fields = [column(1, "id", required=True), column(2, "v", "variant"), column(3, "ts", "timestamp_ns")]
        catalog.create_table(SUB, "v3", schema=schema(*fields), properties={"format-version": "3"}).ok()
        catalog.create_view(NS, "v").ok()


@contextmanager
def victim_of(server: FrazilServer, database_url: str | None) -> Iterator[Victim]:
    with server:
        victim = Victim(server, database_url)
        try:
            yield victim
        finally:
            victim.close()
