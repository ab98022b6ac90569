"""Signs requests for the bucket of one warehouse."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from frazil.catalog.aws import KeySource, sign
from frazil.catalog.signing.address import Place, places
from frazil.catalog.signing.binding import Binding
from frazil.catalog.signing.headers import CONTENT_HASH
from frazil.catalog.signing.request import Allowed
from frazil.catalog.storage import Credential, Profile, S3Profile
from frazil.catalog.storage.credentials import S3AccessKey, S3SystemIdentity

#: SeaweedFS takes a signature for one path also for a shorter one, if this header has the difference: one
#: for `t1/lake/t2/x` would open `lake/t2/x`. So the signature covers the header, where it says nothing new.
_FORWARDED_PREFIX = "x-forwarded-prefix"


class S3Signer:
    """Holds the warehouse's keys; what it signs must have been judged before."""

    def __init__(self, profile: S3Profile, source: KeySource) -> None:
        self.bucket = profile.bucket
        self.places: tuple[Place, ...] = places(profile)
        self._region = profile.region
        self._source = source
        self._binding = Binding(profile, source)
        self._fixed = {}
        if not profile.at_aws:
            self._fixed[_FORWARDED_PREFIX] = urlsplit(profile.endpoint or "").path or "/"

    async def sign(self, request: Allowed) -> dict[str, str]:
        """The headers to add to `request`.

        The signature is for the region of the warehouse, whatever the client takes it to be.
        """
        if request.bound:
            await self._binding.check()
        added = sign(
            request.method,
            request.url,
            request.headers | self._fixed,
            request.body_hash,
            service="s3",
            region=self._region,
            keys=await self._source.keys(),
            now=datetime.now(UTC),
        )
        if CONTENT_HASH in request.headers:
            # Clients add what they are given: the same header twice is another request.
            del added[CONTENT_HASH]
        return added | self._fixed


def open_signer(profile: Profile, credential: Credential | None) -> S3Signer | None:
    """The signer of a warehouse; None where remote signing is off or has no meaning."""
    if not isinstance(profile, S3Profile) or not profile.remote_signing_enabled:
        return None
    if not isinstance(credential, S3AccessKey | S3SystemIdentity):
        return None
    # Imported late: a server with local warehouses only never loads an HTTP client.
    from frazil.catalog.aws.own_keys import own_keys

    return S3Signer(profile, own_keys(profile, credential))
