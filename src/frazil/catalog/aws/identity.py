"""Whose keys the server signs with: a warehouse's own, or the AWS identity of the server itself."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from frazil.catalog.aws.sigv4 import Keys
from frazil.core.errors import InvalidConfig, StorageError

_TIMEOUT_SECONDS = 20


class KeySource(Protocol):
    """Where keys come from; they may change between two calls."""

    async def keys(self) -> Keys:
        """The keys to use now."""


class StaticKeys:
    """A key pair that was given once."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def keys(self) -> Keys:
        return self._keys


class SystemKeys:
    """The identity that the process has from its environment, as AWS's own SDK finds it."""

    def __init__(self) -> None:
        self._found: Any = None

    async def keys(self) -> Keys:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                # The SDK asks the instance's metadata service, and blocks while it does.
                frozen = await asyncio.to_thread(self._frozen)
        except TimeoutError:
            raise StorageError("the AWS identity of the server could not be found in time") from None
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    def _frozen(self) -> Any:
        if self._found is None:
            self._found = _system_credentials()
        return self._found.get_frozen_credentials()


def _system_credentials() -> Any:
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError:
        raise InvalidConfig(
            "storage-credential: the AWS identity of the server needs the AWS SDK, which is not installed. "
            "Install it with: pip install 'frazil[aws]'"
        ) from None
    try:
        found = get_session().get_credentials()
    except BotoCoreError as error:
        raise StorageError(f"the AWS identity of the server was not found: {type(error).__name__}") from None
    if found is None:
        raise StorageError("the server has no AWS identity: no variables, no profile, no instance role")
    return found
