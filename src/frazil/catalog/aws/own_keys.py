"""The keys with which the server itself uses the bucket of a warehouse."""

from __future__ import annotations

import asyncio
import time

from frazil.catalog.aws.identity import KeySource, StaticKeys, SystemKeys
from frazil.catalog.aws.partitions import partition_of
from frazil.catalog.aws.sigv4 import Keys
from frazil.catalog.aws.sts import AssumeRole, Session, Sts
from frazil.catalog.storage.credentials import S3AccessKey, S3SystemIdentity
from frazil.catalog.storage.profiles import S3Profile

_SESSION_NAME = "frazil-server"
_SECONDS = 3600
#: A session is replaced when it has this much left: longer than any request takes.
_MARGIN_SECONDS = 600


class AssumedKeys:
    """The keys of a role that the server takes on, renewed before they expire."""

    def __init__(self, sts: Sts, request: AssumeRole) -> None:
        self._sts = sts
        self._request = request
        self._session: Session | None = None
        self._turn = asyncio.Lock()

    async def keys(self) -> Keys:
        return (await self.session()).keys

    async def session(self) -> Session:
        """A session with some life left; whoever comes meanwhile waits for the one that is being made."""
        async with self._turn:
            now = time.time()
            if self._session is None or now > self._session.expires_at_ms / 1000 - _MARGIN_SECONDS:
                try:
                    self._session = await self._sts.assume_role(self._request)
                finally:
                    # It is needed once an hour.
                    await self._sts.close()
            return self._session


def own_keys(profile: S3Profile, credential: S3AccessKey | S3SystemIdentity) -> KeySource:
    """The stored credential, or the role `assume-role-arn` that it takes on."""
    source = key_source(credential)
    if profile.assume_role_arn is None:
        return source
    sts = Sts(sts_endpoint(profile), profile.region, source, credential.secrets())
    request = AssumeRole(
        role_arn=profile.assume_role_arn,
        session_name=_SESSION_NAME,
        seconds=_SECONDS,
        external_id=credential.external_id,
        tags=profile.sts_session_tags,
    )
    return AssumedKeys(sts, request)


def key_source(credential: S3AccessKey | S3SystemIdentity) -> KeySource:
    """The keys that a stored credential stands for."""
    if isinstance(credential, S3AccessKey):
        return StaticKeys(Keys(credential.access_key_id, credential.secret_access_key))
    return SystemKeys()


def sts_endpoint(profile: S3Profile) -> str:
    """Where sessions of a profile come from: other stores mostly serve STS beside S3."""
    if profile.sts_endpoint:
        return profile.sts_endpoint
    if profile.flavor == "s3-compat" and profile.endpoint:
        return profile.endpoint
    return f"https://sts.{profile.region}.{partition_of(profile.region).domain}"
