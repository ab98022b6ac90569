"""What really happened, written by the database itself.

Triggers note every change of a table's row and of a namespace's properties in the transaction that
makes it. So the notes hold exactly the committed history, in order, whatever the server believes.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import asyncpg
from backports import zstd

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_POSTGRES = """
CREATE TABLE audit (
    seq BIGSERIAL PRIMARY KEY, at DOUBLE PRECISION, tx BIGINT, op TEXT, id TEXT,
    old_namespace TEXT, old_name TEXT, old_location TEXT, namespace TEXT, name TEXT, location TEXT,
    metadata BYTEA);
CREATE TABLE audit_namespace (
    seq BIGSERIAL PRIMARY KEY, at DOUBLE PRECISION, id TEXT, before TEXT, after TEXT);
CREATE TABLE audit_purge (seq BIGSERIAL PRIMARY KEY, op TEXT, name TEXT, attempts BIGINT, tx BIGINT);
CREATE FUNCTION note_tabular() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE o tabular; n tabular;
BEGIN
  IF TG_OP <> 'INSERT' THEN o := OLD; END IF;
  IF TG_OP <> 'DELETE' THEN n := NEW; END IF;
  INSERT INTO audit (at, tx, op, id, old_namespace, old_name, old_location, namespace, name, location,
    metadata)
  VALUES (extract(epoch FROM clock_timestamp()), txid_current(), TG_OP, coalesce(n.tabular_id, o.tabular_id),
    o.namespace_id, o.name, o.metadata_location, n.namespace_id, n.name, n.metadata_location, n.metadata);
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON tabular FOR EACH ROW EXECUTE FUNCTION note_tabular();
CREATE FUNCTION note_namespace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit_namespace (at, id, before, after)
  VALUES (extract(epoch FROM clock_timestamp()), NEW.namespace_id, OLD.properties, NEW.properties);
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE ON namespace FOR EACH ROW EXECUTE FUNCTION note_namespace();
CREATE FUNCTION note_purge() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO audit_purge (op, name, attempts, tx) VALUES (TG_OP, NEW.name, NEW.attempts, txid_current());
  ELSE
    INSERT INTO audit_purge (op, name, attempts, tx) VALUES (TG_OP, OLD.name, OLD.attempts, txid_current());
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR DELETE ON purge FOR EACH ROW EXECUTE FUNCTION note_purge();
"""

_NOW = "(julianday('now') - 2440587.5) * 86400.0"
_SQLITE = f"""
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, tx INTEGER, op TEXT, id TEXT,
    old_namespace TEXT, old_name TEXT, old_location TEXT, namespace TEXT, name TEXT, location TEXT,
    metadata BLOB);
CREATE TABLE audit_namespace (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, id TEXT, before TEXT, after TEXT);
CREATE TRIGGER note_insert AFTER INSERT ON tabular BEGIN
  INSERT INTO audit (at, op, id, namespace, name, location, metadata)
  VALUES ({_NOW}, 'INSERT', NEW.tabular_id, NEW.namespace_id, NEW.name, NEW.metadata_location,
    NEW.metadata); END;
CREATE TRIGGER note_update AFTER UPDATE ON tabular BEGIN
  INSERT INTO audit (at, op, id, old_namespace, old_name, old_location, namespace, name, location, metadata)
  VALUES ({_NOW}, 'UPDATE', NEW.tabular_id, OLD.namespace_id, OLD.name, OLD.metadata_location,
    NEW.namespace_id, NEW.name, NEW.metadata_location, NEW.metadata); END;
CREATE TRIGGER note_delete AFTER DELETE ON tabular BEGIN
  INSERT INTO audit (at, op, id, old_namespace, old_name, old_location)
  VALUES ({_NOW}, 'DELETE', OLD.tabular_id, OLD.namespace_id, OLD.name, OLD.metadata_location); END;
CREATE TRIGGER note_namespace AFTER UPDATE ON namespace BEGIN
  INSERT INTO audit_namespace (at, id, before, after)
  VALUES ({_NOW}, NEW.namespace_id, OLD.properties, NEW.properties); END;
"""


@dataclass(frozen=True)
class Event:
    """A change of one row of `tabular`."""

    seq: int
    at: float
    #: The database transaction; None on SQLite, where a transaction's changes follow each other.
    tx: int | None
    op: str
    tabular_id: str
    old_namespace: str | None
    old_name: str | None
    old_location: str | None
    namespace: str | None
    name: str | None
    location: str | None
    #: As it lies in the row; `plain` gives the document.
    metadata: bytes | None


@dataclass(frozen=True)
class NamespaceEvent:
    at: float
    namespace_id: str
    before: dict[str, str]
    after: dict[str, str]


@dataclass(frozen=True)
class TableRow:
    tabular_id: str
    namespace_id: str
    name: str
    location: str
    metadata_location: str
    metadata: bytes


def plain(stored: bytes) -> bytes:
    """The JSON document of a row, which the server keeps packed."""
    return zstd.decompress(stored)


class Db(Protocol):
    """The server's database, by a connection that has nothing to do with the server."""

    def query(self, sql: str) -> list[Sequence[Any]]: ...

    def install(self) -> None: ...


class PostgresDb:
    def __init__(self, url: str) -> None:
        self._url = url

    def query(self, sql: str) -> list[Sequence[Any]]:
        return asyncio.run(self._query(sql))

    def install(self) -> None:
        asyncio.run(self._query(_POSTGRES, script=True))

    async def _query(self, sql: str, *, script: bool = False) -> list[Sequence[Any]]:
        connection = await asyncpg.connect(self._url)
        try:
            if script:
                await connection.execute(sql)
                return []
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()


class SqliteDb:
    def __init__(self, path: Path) -> None:
        self._path = path

    def query(self, sql: str) -> list[Sequence[Any]]:
        connection = sqlite3.connect(self._path, timeout=30)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def change(self, sql: str) -> None:
        connection = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        try:
            connection.execute(sql)
        finally:
            connection.close()

    def install(self) -> None:
        connection = sqlite3.connect(self._path, timeout=30)
        try:
            connection.executescript(_SQLITE)
        finally:
            connection.close()


def events(db: Db) -> list[Event]:
    return [Event(*row) for row in db.query("SELECT * FROM audit ORDER BY seq")]


def namespace_events(db: Db) -> list[NamespaceEvent]:
    rows = db.query("SELECT at, id, before, after FROM audit_namespace ORDER BY seq")
    return [NamespaceEvent(row[0], row[1], json.loads(row[2]), json.loads(row[3])) for row in rows]


def table_rows(db: Db) -> list[TableRow]:
    rows = db.query(
        "SELECT tabular_id, namespace_id, name, location, metadata_location, metadata FROM tabular"
    )
    return [TableRow(row[0], row[1], row[2], row[3], row[4], plain(row[5])) for row in rows]


def namespaces(db: Db) -> dict[str, tuple[str, dict[str, str]]]:
    """Name and properties by id."""
    rows = db.query("SELECT namespace_id, path, properties FROM namespace")
    return {row[0]: (row[1], json.loads(row[2])) for row in rows}


def idempotency_keys(db: Db) -> dict[str, int]:
    """Status by key."""
    return {row[0]: row[1] for row in db.query("SELECT idempotency_key, status FROM idempotency")}
