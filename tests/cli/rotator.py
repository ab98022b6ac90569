"""`frazil` that dies by SIGKILL at a step of `frazil key rotate`, named by FRAZIL_TRAP."""

from __future__ import annotations

import os
import signal
from typing import Any

from frazil.catalog import rotation, secrets
from frazil.catalog.db.postgres import PostgresDatabase
from frazil.catalog.db.sqlite import SqliteDatabase
from frazil.cli import main

STEPS = ("start", "drafted", "pending", "resealed", "committed", "replaced")


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: Any, name: str) -> None:
    setattr(owner, name, _die)


def _after(owner: Any, name: str) -> None:
    real = getattr(owner, name)

    def run(*args: Any, **named: Any) -> Any:
        result = real(*args, **named)
        _die()
        return result

    setattr(owner, name, run)


def _set(step: str) -> None:
    if step == "start":
        _before(secrets, "load_or_create_key")
    elif step == "drafted":
        # The new key is written, but not yet under its name.
        _before(os, "link")
    elif step == "pending":
        _before(rotation, "reseal")
    elif step == "resealed":
        _die_before_commit()
    elif step == "committed":
        _before(secrets, "replace_key")
    elif step == "replaced":
        _after(secrets, "replace_key")
    else:
        raise ValueError(step)


def _die_before_commit() -> None:
    """All rows are written, and the transaction is open."""
    for kind in (SqliteDatabase, PostgresDatabase):
        real = kind.transaction

        def transaction(self: Any, real: Any = real) -> Any:
            return _Doomed(real(self))

        kind.transaction = transaction  # type: ignore[method-assign]


class _Doomed:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(self, *_: Any) -> None:
        _die()


if __name__ == "__main__":
    _set(os.environ["FRAZIL_TRAP"])
    main()
