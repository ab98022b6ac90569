"""S3 and what speaks its protocol, through obstore.

obstore reads AWS_* variables of the server's own environment wherever a setting is not given. With a
warehouse's own key nothing of the server's identity may slip in, so the endpoint is always explicit and
a static key comes from a provider function, which no variable overrides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, NotSupportedError
from obstore.store import S3Store

from frazil.catalog.storage.base import READ_LIMIT, WALK_BATCH
from frazil.catalog.storage.credentials import Credential, S3AccessKey
from frazil.catalog.storage.locations import owned_file
from frazil.catalog.storage.profiles import S3Profile
from frazil.catalog.storage.s3_errors import is_not_implemented, is_unreachable, reason
from frazil.core.errors import AlreadyExists, InvalidInput, NotFound, StorageError

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

T = TypeVar("T")

_BULK = 1000
_PARALLEL_DELETES = 16
_CLIENT: ClientConfig = {"timeout": "30s", "connect_timeout": "5s", "pool_idle_timeout": "60s"}
_RETRIES: RetryConfig = {
    "max_retries": 3,
    "retry_timeout": timedelta(seconds=45),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}
# obstore raises the builtins for a missing key and for a key it cannot express.
_FAILURES = (BaseError, OSError, ValueError)


class S3Storage:
    """Objects below one prefix of one bucket."""

    def __init__(self, profile: S3Profile, credential: Credential) -> None:
        self._profile = profile
        self._base = profile.base
        self._bucket_url = f"s3://{profile.bucket}/"
        self._secrets = credential.secrets()
        self._store = _open(profile, credential)
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
        profile = self._profile
        config = {"s3.region": profile.region, "client.region": profile.region, "region": profile.region}
        config["s3.path-style-access"] = "true" if profile.path_style_access else "false"
        if profile.endpoint:
            config["s3.endpoint"] = profile.endpoint
        return config

    async def close(self) -> None:
        """obstore closes its connections with the last reference."""

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
        try:
            await obstore.delete_async(self._store, keys)
        except FileNotFoundError:
            pass
        except _FAILURES as error:
            if is_unreachable(error):
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


def _open(profile: S3Profile, credential: Credential) -> S3Store:
    endpoint = profile.endpoint or f"https://s3.{profile.region}.amazonaws.com"
    if not profile.path_style_access:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{profile.bucket}.{host}"
    config: S3Config = {
        "region": profile.region,
        "endpoint": endpoint,
        "aws_endpoint_url_s3": endpoint,
        "virtual_hosted_style_request": not profile.path_style_access,
        "skip_signature": False,
    }
    if profile.aws_kms_key_arn:
        config["sse_kms_key_id"] = profile.aws_kms_key_arn
        config["server_side_encryption"] = "aws:kms"
    return S3Store(
        profile.bucket,
        config=config,
        client_options={**_CLIENT, "allow_http": endpoint.startswith("http://")},
        retry_config=_RETRIES,
        credential_provider=_provider(credential),
    )


def _provider(credential: Credential) -> Callable[[], S3Credential] | None:
    if not isinstance(credential, S3AccessKey):
        return None
    access_key_id, secret_access_key = credential.access_key_id, credential.secret_access_key

    def provide() -> S3Credential:
        return {
            "access_key_id": access_key_id,
            "secret_access_key": secret_access_key,
            "token": None,
            "expires_at": None,
        }

    return provide
