"""Does the storage really work? Write, read and delete one object and say which step failed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import uuid4

from frazil.catalog.storage.base import Storage
from frazil.catalog.storage.locations import join
from frazil.core.errors import FrazilError, InvalidInput, NotFound, StorageError


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Check:
    """One step of a validation."""

    name: str
    status: Status
    duration_ms: int | None = None
    error: str | None = None
    reason: str | None = None


async def probe(storage: Storage) -> list[Check]:
    """The steps `write`, `read` and `delete`, each really done."""
    location = join(storage.base, f"frazil-probe-{uuid4()}")
    content = b"frazil storage probe"
    write = await _step("write", lambda: storage.write_new(location, content))
    if write.status is Status.FAILED:
        skipped = [Check(name, Status.SKIPPED, reason="the write step failed") for name in ("read", "delete")]
        return [write, *skipped]
    read = await _step("read", lambda: _read_back(storage, location, content))
    delete = await _step("delete", lambda: _delete(storage, location))
    return [write, read, delete]


def require_passed(checks: Sequence[Check]) -> None:
    """Raise for the first failed check, naming the step."""
    for check in checks:
        if check.status is Status.FAILED:
            raise InvalidInput(
                f"storage-profile: the storage was tried and the {check.name} step failed: {check.error}",
                kind="StorageValidationFailed",
            )


async def _step(name: str, work: Callable[[], Awaitable[None]]) -> Check:
    start = time.perf_counter()
    error: str | None = None
    try:
        await work()
    except FrazilError as failure:
        error = failure.message
    duration = round((time.perf_counter() - start) * 1000)
    return Check(name, Status.FAILED if error else Status.PASSED, duration, error)


async def _read_back(storage: Storage, location: str, content: bytes) -> None:
    if await storage.read(location) != content:
        raise StorageError(f"read {location}: the bytes are not those that were written")


async def _delete(storage: Storage, location: str) -> None:
    for _, why in await storage.delete([location]):
        raise StorageError(f"delete {location}: {why}")
    try:
        await storage.read(location)
    except NotFound:
        return
    raise StorageError(f"delete {location}: the store said yes, but the object is still there")
