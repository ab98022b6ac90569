"""Objects in a cloud, through obstore: everything but how a store of one cloud is opened.

obstore reads AWS_*, GOOGLE_* and AZURE_* variables of the server's own environment wherever a setting is
not given. Nothing of the server's identity may slip into a warehouse, so whoever opens a store gives the
endpoint and every switch explicitly, and the credential by a provider function, which no variable
overrides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError

from frazil.catalog.storage.base import READ_LIMIT, WALK_BATCH
from frazil.catalog.storage.locations import owned_file
from frazil.catalog.storage.object_errors import is_not_implemented, is_unreachable, reason
from frazil.core.errors import AlreadyExists, InvalidInput, NotFound, StorageError

if TYPE_CHECKING:
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Store

_BULK = 1000
_PARALLEL_DELETES = 16
RETRIES: RetryConfig = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=45),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}
# obstore raises the builtins for a missing key and for a key it cannot express.
_FAILURES = (BaseError, OSError, ValueError)


def client_options(endpoint: str) -> ClientConfig:
    """How long to wait; plain HTTP only where the endpoint says so."""
    return {
        "timeout": "30s",
        "connect_timeout": "5s",
        "pool_idle_timeout": "60s",
        "allow_http": endpoint.startswith("http://"),
    }


@dataclass(frozen=True)
class Opened:
    """A bucket or container that was opened for one warehouse."""

    store: S3Store | GCSStore | AzureStore
    #: The location of the whole bucket, with a trailing slash.
    root: str
    base: str
    secrets: tuple[str, ...] = field(repr=False)
    client_config: Mapping[str, str]
    #: Lets go of what the credential provider holds.
    close: Callable[[], Awaitable[None]] | None = None


class ObjectStorage:
    """Objects below one prefix of one bucket."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._base = opened.base
        self._bucket_url = opened.root
        self._secrets = opened.secrets
        self._store = opened.store
        # Cleared for a store that answers "not implemented" to a conditional put.
        self._conditional = True

    @property
    def base(self) -> str:
        return self._base

    async def read(self, location: str, *, limit: int = READ_LIMIT) -> bytes:
        key = self._key(location)
        try:
            result = await obstore.get_async(self._store, key)
            size = result.meta["size"]
            if size > limit:
                what = f"{self._bucket_url}{key} has {size} bytes"
                raise InvalidInput(f"location: {what}, over the limit of {limit}")
            return bytes(await result.bytes_async())
        except FileNotFoundError as error:
            why = reason(error, self._secrets)
            raise NotFound(f"no object at {self._bucket_url}{key} ({why})", kind="NoSuchFile") from None
        except _FAILURES as error:
            raise self._failure("read", key, error) from None

    async def write_new(self, location: str, data: bytes) -> None:
        key = self._key(location)
        try:
            await self._put(key, data)
        except AlreadyExistsError:
            # A put whose answer was lost is sent again and then meets itself.
            if await self.read(location) != data:
                raise AlreadyExists(
                    f"an object exists at {self._bucket_url}{key}", kind="FileAlreadyExists"
                ) from None
        except _FAILURES as error:
            raise self._failure("write", key, error) from None

    async def delete(self, locations: Sequence[str]) -> list[tuple[str, str]]:
        failed: list[tuple[str, str]] = []
        keys: dict[str, str] = {}
        for location in locations:
            try:
                keys[self._key(location)] = location
            except InvalidInput as error:
                failed.append((location, error.message))
        names = list(keys)
        for start in range(0, len(names), _BULK):
            bad = await self._delete_bulk(names[start : start + _BULK])
            failed += [(keys[key], why) for key, why in bad]
        return failed

    async def walk(self, location: str) -> AsyncIterator[list[str]]:
        key = self._key(location)
        try:
            # obstore lists whole path segments: `t1` does not find `t10`.
            async for found in obstore.list(self._store, key, chunk_size=WALK_BATCH):
                yield [f"{self._bucket_url}{entry['path']}" for entry in found]
        except _FAILURES as error:
            raise self._failure("list", key, error) from None

    def is_missing(self, location: str) -> bool:
        return False

    def client_config(self) -> dict[str, str]:
        return dict(self._opened.client_config)

    async def close(self) -> None:
        # obstore closes its connections with the last reference.
        if self._opened.close is not None:
            await self._opened.close()

    def _key(self, location: str) -> str:
        owned = owned_file(self._base, location)
        if owned is None:
            raise InvalidInput(f"location: {location[:200]!a} is not below {self._base}")
        return owned[len(self._bucket_url) :]

    async def _put(self, key: str, data: bytes) -> None:
        if self._conditional:
            try:
                await obstore.put_async(self._store, key, data, mode="create", use_multipart=False)
                return
            except (NotSupportedError, BaseError) as error:
                if not is_not_implemented(error):
                    raise
                self._conditional = False
        await obstore.put_async(self._store, key, data, mode="overwrite", use_multipart=False)

    async def _delete_bulk(self, keys: list[str]) -> list[tuple[str, str]]:
        # Some clouds delete many by POST, which obstore does not repeat when a connection breaks.
        for last in (False, True):
            try:
                await obstore.delete_async(self._store, keys)
            except FileNotFoundError:
                break
            except _FAILURES as error:
                if not is_unreachable(error):
                    break
                if last:
                    return [(key, reason(error, self._secrets)) for key in keys]
            else:
                return []
        # One refused object fails the whole answer, so ask for each by itself to learn which.
        slots = asyncio.Semaphore(_PARALLEL_DELETES)
        results = await asyncio.gather(*(self._delete_one(key, slots) for key in keys))
        return [(key, why) for key, why in zip(keys, results, strict=True) if why is not None]

    async def _delete_one(self, key: str, slots: asyncio.Semaphore) -> str | None:
        async with slots:
            try:
                await obstore.delete_async(self._store, key)
            except FileNotFoundError:
                return None
            except _FAILURES as error:
                return reason(error, self._secrets)
        return None

    def _failure(self, operation: str, key: str, error: Exception) -> StorageError:
        return StorageError(f"{operation} {self._bucket_url}{key}: {reason(error, self._secrets)}")
