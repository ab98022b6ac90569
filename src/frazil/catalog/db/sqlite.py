"""SQLite: one file, one writing process.

Statements run on the event loop itself: a lookup takes some ten microseconds, less than a hop to a
thread would. Only COMMIT goes to a thread, because it waits for the disk.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from pathlib import Path

from frazil.catalog.db.base import (
    Connection,
    Dialect,
    ForeignKeyViolation,
    OutcomeUnknown,
    Row,
    UniqueViolation,
)
from frazil.core.errors import Unavailable

_BUSY_SECONDS = 10.0
_POLL_SECONDS = 0.02
#: Conditions of the machine and not of the statement: a full disk, a file that cannot be written, …
_PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


class SqliteDatabase:
    """A SQLite file in WAL mode; readers never wait for the writer."""

    dialect: Dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._reader = _open(path)
        self._writer = _open(path)
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite-commit")

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        with _translated():
            row: Row | None = self._reader.execute(_numbered(sql), args).fetchone()
            return row

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        with _translated():
            return self._reader.execute(_numbered(sql), args).fetchall()

    async def execute(self, sql: str, *args: object) -> int:
        async with self.transaction() as connection:
            return await connection.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._turn:
            await self._begin()
            try:
                yield _Transaction(self._writer)
            except BaseException:
                self._rollback()
                raise
            await self._commit()

    async def run_script(self, script: str) -> None:
        async with self._turn:
            await self._begin()
            try:
                for statement in script.split(";\n"):
                    if statement.strip():
                        self._writer.execute(statement)
            except BaseException:
                self._rollback()
                raise
            await self._commit()

    async def close(self) -> None:
        async with self._turn:
            self._thread.shutdown()
            self._writer.close()
            self._reader.close()

    async def _begin(self) -> None:
        """Take the file's write lock; another process may hold it for a moment (`frazil migrate`)."""
        deadline = asyncio.get_running_loop().time() + _BUSY_SECONDS
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                if asyncio.get_running_loop().time() > deadline:
                    raise Unavailable(
                        "the SQLite file is locked by another process; stop it or try again"
                    ) from error
            await asyncio.sleep(_POLL_SECONDS)

    async def _commit(self) -> None:
        """Runs to its end even if the request is cancelled: a half-awaited commit would hold the lock."""
        commit = asyncio.get_running_loop().run_in_executor(self._thread, self._writer.execute, "COMMIT")
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            await asyncio.wait([commit])
            self._rollback()
            raise
        except sqlite3.Error as error:
            self._rollback()
            raise OutcomeUnknown(f"SQLite could not confirm a commit: {error}") from error

    def _rollback(self) -> None:
        """SQLite ends the transaction by itself after some errors, and always after a commit."""
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        with _translated():
            row: Row | None = self._connection.execute(_numbered(sql), args).fetchone()
            return row

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        with _translated():
            return self._connection.execute(_numbered(sql), args).fetchall()

    async def execute(self, sql: str, *args: object) -> int:
        with _translated():
            return self._connection.execute(_numbered(sql), args).rowcount


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=0, cached_statements=512
    )
    connection.row_factory = sqlite3.Row
    _write_ahead(connection)
    # An acknowledged commit survives a power cut, not only the end of the process.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA mmap_size = 67108864")
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Changes the file when it is new; whoever opens it at that moment finds it locked, timeout or not."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


@lru_cache(maxsize=1024)
def _numbered(sql: str) -> str:
    return re.sub(r"\$(\d+)", r"?\1", sql)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        message = str(error)
        if message.startswith("UNIQUE constraint failed: "):
            raise UniqueViolation(message.rpartition(" ")[2]) from error
        if message.startswith("FOREIGN KEY"):
            raise ForeignKeyViolation(message) from error
        raise
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            raise Unavailable(f"SQLite: {error}; nothing was changed") from error
        raise
