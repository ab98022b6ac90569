"""PostgreSQL through asyncpg; any number of server processes may share one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial

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
from frazil.catalog.db.pool import DOUBTFUL, ConnectionPool, PgConnection
from frazil.core.errors import ServiceError, Unavailable

_POOL_SIZE = 16
_CONNECT_SECONDS = 10.0
_STATEMENT_SECONDS = 30.0
_MIGRATION_LOCK = 0x6672617A696C  # "frazil"

#: PostgreSQL said no and did nothing: a standby after a failover, a full disk, too many connections, …
_PASSING = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InsufficientResourcesError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.LockNotAvailableError,
)
_LOST = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)


class PostgresDatabase:
    """One PostgreSQL database."""

    dialect: Dialect = "postgresql"

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    @classmethod
    async def open(cls, url: str) -> PostgresDatabase:
        pool = ConnectionPool(partial(_connect, url), _POOL_SIZE)
        try:
            async with pool.connection():
                return cls(pool)
        except ValueError:
            # Its text may quote the part of the password that it stumbled over.
            raise ServiceError("cannot connect to PostgreSQL: the database URL is malformed") from None
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise ServiceError(f"cannot connect to PostgreSQL: {error}; check the database URL") from error

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        # The look-up behind every request: spelled out, because a context manager costs more than it says.
        try:
            connection = await self._pool.take()
            try:
                row: Row | None = await connection.fetchrow(sql, *args)
            except DOUBTFUL:
                connection.terminate()
                raise
            finally:
                self._pool.give_back(connection)
        except _LOST as error:
            raise _unavailable(error) from error
        except asyncpg.PostgresError as error:
            _raise_known(error)
            raise
        return row

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        with _read():
            async with self._pool.connection() as connection:
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
        await self._pool.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[PgConnection]:
        """Errors inside the block are the caller's to translate; not getting a connection is not."""
        async with AsyncExitStack() as stack:
            with _read():
                connection = await stack.enter_async_context(self._pool.connection())
            yield connection


class _Transaction:
    def __init__(self, connection: PgConnection) -> None:
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


async def _roll_back(connection: PgConnection, transaction: asyncpg.transaction.Transaction) -> None:
    """Never raises: why the transaction ended matters more, and PostgreSQL rolls back a lost one itself."""
    try:
        await transaction.rollback()
    except (*_LOST, asyncpg.PostgresError):
        # A connection that died has gone back to the pool already and refuses even this.
        with suppress(asyncpg.InterfaceError):
            connection.terminate()


async def _connect(url: str) -> PgConnection:
    return await asyncpg.connect(
        url,
        timeout=_CONNECT_SECONDS,
        command_timeout=_STATEMENT_SECONDS,
        statement_cache_size=512,
        # Plans are kept for the life of a connection. One that was made while the catalog was small would
        # go on reading whole tables until the statistics are renewed; every query here has its index.
        server_settings={"application_name": "frazil", "jit": "off", "enable_seqscan": "off"},
    )


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
        raise _unavailable(error) from error
    except asyncpg.PostgresError as error:
        _raise_known(error)
        raise


def _unavailable(error: BaseException) -> Unavailable:
    return Unavailable(f"the database did not answer ({type(error).__name__}); try again")


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
    if isinstance(error, _PASSING):
        raise Unavailable(f"the database could not do it now ({type(error).__name__}); try again") from error
