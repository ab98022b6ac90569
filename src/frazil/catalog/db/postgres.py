"""PostgreSQL through asyncpg; any number of server processes may share one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TypeAlias

import asyncpg
import asyncpg.transaction

from frazil.catalog.db.base import (
    Connection,
    Dialect,
    ForeignKeyViolation,
    OutcomeUnknown,
    Row,
    UniqueViolation,
)
from frazil.core.errors import ServiceError, Unavailable

_POOL_SIZE = 16
_STATEMENT_SECONDS = 30.0
_MIGRATION_LOCK = 0x6672617A696C  # "frazil"

_LOST = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)


_Pooled: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"


class PostgresDatabase:
    """A pool of connections to one PostgreSQL database."""

    dialect: Dialect = "postgresql"

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, url: str) -> PostgresDatabase:
        try:
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=_POOL_SIZE,
                command_timeout=_STATEMENT_SECONDS,
                max_inactive_connection_lifetime=300,
                statement_cache_size=512,
                reset=_keep_session,
                server_settings={"application_name": "frazil", "jit": "off"},
            )
        except (TimeoutError, OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            # asyncpg's messages name host, port, user and database, never the password.
            raise ServiceError(f"cannot connect to PostgreSQL: {error}; check --database-url") from error
        return cls(pool)

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        with _read():
            async with self._pool.acquire() as connection:
                row: Row | None = await connection.fetchrow(sql, *args)
                return row

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        with _read():
            async with self._pool.acquire() as connection:
                return list(await connection.fetch(sql, *args))

    async def execute(self, sql: str, *args: object) -> int:
        async with self._connection() as connection:
            with _write():
                return _touched(await connection.execute(sql, *args))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._connection() as connection:
            transaction = connection.transaction()
            with _read():
                await transaction.start()
            try:
                yield _Transaction(connection)
            except BaseException:
                await _roll_back(connection, transaction)
                raise
            with _write():
                await transaction.commit()

    async def run_script(self, script: str) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
            await connection.execute(script)

    async def close(self) -> None:
        try:
            await asyncio.wait_for(self._pool.close(), 10)
        except TimeoutError:
            self._pool.terminate()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[_Pooled]:
        with _read():
            connection = await self._pool.acquire()
        try:
            yield connection
        finally:
            await self._pool.release(connection)


class _Transaction:
    def __init__(self, connection: _Pooled) -> None:
        self._connection = connection

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        with _read():
            row: Row | None = await self._connection.fetchrow(sql, *args)
            return row

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        with _read():
            return list(await self._connection.fetch(sql, *args))

    async def execute(self, sql: str, *args: object) -> int:
        # Inside a transaction nothing has happened until COMMIT, so a lost connection is known.
        with _read():
            return _touched(await self._connection.execute(sql, *args))


async def _roll_back(connection: _Pooled, transaction: asyncpg.transaction.Transaction) -> None:
    """Never raises: why the transaction ended matters more, and PostgreSQL rolls back a lost one itself."""
    try:
        await transaction.rollback()
    except (*_LOST, asyncpg.PostgresError):
        # A connection that died has gone back to the pool already and refuses even this.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()


async def _keep_session(_connection: asyncpg.Connection) -> None:
    """Nothing to reset: no code here leaves session state behind."""


def _touched(status: str) -> int:
    """The row count at the end of a command tag such as `UPDATE 1`."""
    count = status.rpartition(" ")[2]
    return int(count) if count.isdigit() else 0


@contextmanager
def _read() -> Iterator[None]:
    """Translate errors of a statement that cannot have taken effect on its own."""
    try:
        yield
    except _LOST as error:
        raise Unavailable(f"the database did not answer ({type(error).__name__}); try again") from error
    except asyncpg.PostgresError as error:
        _raise_known(error)
        raise


@contextmanager
def _write() -> Iterator[None]:
    """Translate errors of a statement that commits: once sent, losing the connection leaves it open."""
    try:
        yield
    except _LOST as error:
        raise OutcomeUnknown(
            f"the database did not confirm a write ({type(error).__name__}); it may have happened"
        ) from error
    except asyncpg.PostgresError as error:
        _raise_known(error)
        raise


def _raise_known(error: asyncpg.PostgresError) -> None:
    if isinstance(error, asyncpg.UniqueViolationError):
        # Constraints are named `table__column`.
        raise UniqueViolation((error.constraint_name or "").replace("__", ".")) from error
    if isinstance(error, asyncpg.ForeignKeyViolationError):
        raise ForeignKeyViolation(error.constraint_name or "") from error
    if isinstance(
        error, (asyncpg.DeadlockDetectedError, asyncpg.SerializationError, asyncpg.TooManyConnectionsError)
    ):
        raise Unavailable(f"the database was busy ({type(error).__name__}); try again") from error
