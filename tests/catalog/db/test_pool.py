"""Whose turn it is to have a connection. The connections are stand-ins: no word goes to a database."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from frazil.catalog.db.pool import ConnectionPool, PgConnection


class Idle:
    def is_closed(self) -> bool:
        return False

    def is_in_transaction(self) -> bool:
        return False


async def test_who_goes_when_it_is_his_turn_passes_it_on() -> None:
    async def connect() -> PgConnection:
        return cast("PgConnection", Idle())

    pool = ConnectionPool(connect, 1)
    connection = await pool.take()
    first, second = asyncio.create_task(pool.take()), asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    pool.give_back(connection)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.wait_for(second, 5) is connection
