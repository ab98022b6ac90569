"""Requests to Google with a vended token, to see what it really lets its holder do."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import BaseError

from frazil.catalog.storage.object_errors import is_refused, reason
from frazil.core.errors import NotAllowed, StorageError

if TYPE_CHECKING:
    from obstore.store import GCSStore

T = TypeVar("T")


class GcsTrial:
    """The bucket as the holder of a token sees it; NotAllowed is what it says to what is outside."""

    def __init__(self, store: GCSStore, root: str) -> None:
        """`root` is the location of the whole bucket, with a trailing slash."""
        self._store = store
        self._root = root

    async def write(self, location: str, data: bytes) -> None:
        work = obstore.put_async(
            self._store, self._key(location), data, mode="overwrite", use_multipart=False
        )
        await _tried("write", location, work)

    async def read(self, location: str) -> bytes:
        result = await _tried("read", location, obstore.get_async(self._store, self._key(location)))
        return bytes(await _tried("read", location, result.bytes_async()))

    async def delete(self, location: str) -> None:
        await _tried("delete", location, obstore.delete_async(self._store, self._key(location)))

    async def list(self, location: str) -> None:
        """List what lies below a location."""
        work = obstore.list_with_delimiter_async(self._store, self._key(location) or None)
        await _tried("list", location, work)

    def _key(self, location: str) -> str:
        return f"{location}/".removeprefix(self._root).strip("/")


async def _tried(what: str, location: str, work: Awaitable[T]) -> T:
    try:
        return await work
    except (BaseError, OSError, ValueError) as error:
        kind = NotAllowed if is_refused(error) else StorageError
        raise kind(f"{what} {location}: {reason(error)}") from None
