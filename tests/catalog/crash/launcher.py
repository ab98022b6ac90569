"""`frazil serve` with a trap in it: the process kills itself at a chosen step.

A request says with the header `X-Crash-At` where it wants its server to die. The traps are put around
the server's functions from here, so nothing of this is in the server itself.

    python launcher.py serve --port …       FRAZIL_TRAP_* set what the janitor does
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import asyncpg.transaction

from frazil.catalog import commits, purging
from frazil.catalog.db.postgres import PostgresDatabase
from frazil.catalog.db.sqlite import SqliteDatabase
from frazil.catalog.http import app, bodies
from frazil.catalog.storage.local import LocalStorage
from frazil.catalog.store import purges
from frazil.cli import main

#: Where a request may ask its server to die.
POINTS = ("before-file", "after-file", "before-commit", "after-commit", "before-answer")
_wanted: ContextVar[str] = ContextVar("wanted", default="")


def die_at(point: str) -> None:
    if _wanted.get() == point:
        die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def around(owner: Any, name: str, *, before: str = "", after: str = "") -> None:
    """Put traps before and after an async function."""
    original: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def trapped(*args: Any, **kwargs: Any) -> Any:
        die_at(before or "-")
        result = await original(*args, **kwargs)
        die_at(after or "-")
        return result

    setattr(owner, name, trapped)


def set_traps() -> None:
    around(commits, "_write_files", before="before-file")
    around(commits, "_swap", before="after-file")
    around(asyncpg.transaction.Transaction, "commit", before="before-commit", after="after-commit")
    around(SqliteDatabase, "_commit", before="before-commit", after="after-commit")
    # A single statement commits on its own.
    around(PostgresDatabase, "execute", after="after-commit")
    around(app, "_send", before="before-answer")
    original = app.HttpApp.__call__

    async def listening(self: app.HttpApp, scope: app.Scope, receive: bodies.Receive, send: app.Send) -> None:
        headers = dict(scope.get("headers", ()))
        _wanted.set(headers.get(b"x-crash-at", b"").decode())
        await original(self, scope, receive, send)

    app.HttpApp.__call__ = listening  # type: ignore[method-assign]


def count_requests() -> Callable[[], Awaitable[None]]:
    """What waits until an answer was given and no other request is under way.

    Whoever starts the server learns that it is up before it dies over its work, and whoever asks for that
    work has the answer: both would otherwise depend on who is quicker.
    """
    original = app.HttpApp.__call__
    under_way, quiet = 0, asyncio.Event()

    async def counted(self: app.HttpApp, scope: app.Scope, receive: bodies.Receive, send: app.Send) -> None:
        nonlocal under_way
        under_way += 1
        quiet.clear()
        try:
            await original(self, scope, receive, send)
        finally:
            under_way -= 1
            if not under_way:
                quiet.set()

    async def answered() -> None:
        while True:
            await quiet.wait()
            # The event loop sends what was written at the end of its turn.
            await asyncio.sleep(0)
            if quiet.is_set():
                return

    app.HttpApp.__call__ = counted  # type: ignore[method-assign]
    return answered


def is_there(location: str) -> bool:
    return Path(location.removeprefix("file://")).exists()


def refuse_deletes(times: int) -> None:
    """The storage does not delete the first of each of so many batches."""
    original = LocalStorage.delete

    async def refusing(self: LocalStorage, locations: Sequence[str]) -> list[tuple[str, str]]:
        nonlocal times
        if times <= 0 or not locations:
            return await original(self, locations)
        times -= 1
        return [(locations[0], "not today"), *await original(self, locations[1:])]

    LocalStorage.delete = refusing  # type: ignore[method-assign]


def set_janitor() -> None:
    """Short leases; deletes one file at a time, slowly, and dies after some of them."""
    lease = int(os.environ.get("FRAZIL_TRAP_LEASE_MS", "30000"))
    purges.LEASE_MS = lease
    purging._RENEW_SECONDS = lease / 3000
    purging._POLL_SECONDS = float(os.environ.get("FRAZIL_TRAP_POLL", "5"))
    hesitate = float(os.environ.get("FRAZIL_TRAP_CLAIM_PAUSE", "0"))
    if hesitate:
        claim = purges.claim

        async def late(*args: Any) -> int | None:
            await asyncio.sleep(hesitate)
            return await claim(*args)

        purges.claim = late  # type: ignore[assignment]
    refuse_deletes(int(os.environ.get("FRAZIL_TRAP_REFUSALS", "0")))
    pause = float(os.environ.get("FRAZIL_TRAP_DELETE_PAUSE", "0"))
    allowed = int(os.environ.get("FRAZIL_TRAP_DELETES", "-1"))
    if not pause and allowed < 0:
        return
    original = LocalStorage.delete
    answered = count_requests()
    deleted = 0

    async def one_by_one(self: LocalStorage, locations: Sequence[str]) -> list[tuple[str, str]]:
        nonlocal deleted
        failures: list[tuple[str, str]] = []
        for location in locations:
            there = is_there(location)
            if there and deleted == allowed:
                await answered()
                die()
            failures += await original(self, [location])
            deleted += there
            if pause and there:
                await asyncio.sleep(pause)
        return failures

    LocalStorage.delete = one_by_one  # type: ignore[method-assign]


if __name__ == "__main__":
    set_traps()
    set_janitor()
    main()
