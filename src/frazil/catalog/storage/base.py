"""The one small interface that every kind of storage implements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

READ_LIMIT = 512 * 1024 * 1024
WALK_BATCH = 1000


class Storage(Protocol):
    """Where the files of one warehouse are. Locations are checked to lie below `base` in every call."""

    @property
    def base(self) -> str:
        """The location that everything lies below, without a trailing slash."""

    async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
        """The whole file. NotFound if it is not there, InvalidInput if it is larger than `limit`."""

    async def write_new(self, location: str, data: bytes) -> None:
        """Write a file that survives a power cut. AlreadyExists, and nothing written, if one is there."""

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        """Delete files; one that is gone counts as deleted. Returns (location, reason) of each failure."""

    def walk(self, location: str) -> AsyncIterator[list[str]]:
        """Every file below a location, in batches; nothing beside it (`t1` does not find `t10`)."""

    def is_missing(self, location: str) -> bool:
        """Whether a file is known to be gone. Only where asking costs nothing; elsewhere False."""

    def client_config(self) -> dict[str, str]:
        """What a client needs to find the storage. Never a key."""

    async def close(self) -> None:
        """Let go of connections."""
