"""A pool of PostgreSQL connections that costs next to nothing to use.

asyncpg's own pool starts a task for each release, which is half the price of a table load. This one
hands out the connection that came back last, and throws away any whose state is in doubt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import asyncpg

from frazil.core.errors import CommitStateUnknown, Unavailable

PgConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

#: After these an answer may still be under way on the connection. What PostgreSQL itself refused, and
#: what the catalog decided inside a transaction that was rolled back, leave it as good as new.
DOUBTFUL = (
    asyncio.CancelledError,
    GeneratorExit,
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    Unavailable,
    CommitStateUnknown,
)
#: How long a request waits for a connection before it is told that the database is busy.
_WAIT_SECONDS = 10.0


class ConnectionPool:
    """At most `size` connections, opened as they are needed."""

    def __init__(self, connect: Callable[[], Awaitable[PgConnection]], size: int) -> None:
        self._connect = connect
        self._size = size
        self._open = 0
        self._closed = False
        self._idle: list[PgConnection] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PgConnection]:
        """A connection for the length of the block."""
        connection = await self.take()
        try:
            yield connection
        except DOUBTFUL:
            connection.terminate()
            raise
        finally:
            self.give_back(connection)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=5)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()

    async def take(self) -> PgConnection:
        while True:
            while self._idle:
                connection = self._idle.pop()
                if not connection.is_closed():
                    return connection
                self._open -= 1
            if self._open < self._size:
                return await self._new()
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await turn
            except BaseException:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                elif not turn.cancelled():
                    # It was our turn, and we go: the connection is for the next in line.
                    self._wake_one()
                raise

    async def _new(self) -> PgConnection:
        self._open += 1
        try:
            return await self._connect()
        except BaseException:
            self._open -= 1
            self._wake_one()
            raise

    def give_back(self, connection: PgConnection) -> None:
        if not connection.is_closed() and (self._closed or connection.is_in_transaction()):
            connection.terminate()
        if connection.is_closed():
            self._open -= 1
        else:
            self._idle.append(connection)
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
