"""Whether a store holds a signature to the body that it was made for.

The body of DeleteObjects says what is deleted. AWS refuses one whose hash is not the signed hash, but not
every store does: there, a signature for one harmless key deletes anything in the bucket. So a store other
than AWS is tried once before a bulk delete is signed for it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from datetime import UTC, datetime
from uuid import uuid4

from frazil.catalog.aws import KeySource, payload_hash, sign
from frazil.catalog.signing.address import Address, places
from frazil.catalog.storage import S3Profile
from frazil.core.errors import NotAllowed, StorageError

_SECONDS = 10


class Binding:
    """What is known about the store of one warehouse."""

    def __init__(self, profile: S3Profile, source: KeySource) -> None:
        self._profile = profile
        self._source = source
        # AWS documents it, and would be asked by every server at every start.
        self._holds: bool | None = True if profile.at_aws else None
        self._turn = asyncio.Lock()

    async def check(self) -> None:
        """NotAllowed when the store takes any body; StorageError when that cannot be found out now."""
        async with self._turn:
            if self._holds is None:
                self._holds = await self._tried()
        if not self._holds:
            raise NotAllowed(
                "DeleteObjects is not signed for this store: it does not compare the body with the signed "
                "hash, so the signature would delete anything. Delete objects one by one, or use vended "
                "credentials"
            )

    async def _tried(self) -> bool:
        """Both bodies delete a key that does not exist; the second one is not the one that was signed."""
        if await self._status(tampered=False) != 200:
            raise StorageError("the store refuses to delete objects in bulk; it was tried with a made-up key")
        return await self._status(tampered=True) != 200

    async def _status(self, *, tampered: bool) -> int:
        # Imported late: most servers never come here.
        import httpx

        from frazil.catalog.outgoing import http_client

        signed, sent = self._body(), self._body()
        if not tampered:
            sent = signed
        md5 = base64.b64encode(hashlib.md5(sent, usedforsecurity=False).digest()).decode()
        headers = {"content-md5": md5, "content-type": "application/xml"}
        url = self._url()
        headers |= sign(
            "POST",
            url,
            headers,
            payload_hash(signed),
            service="s3",
            region=self._profile.region,
            keys=await self._source.keys(),
            now=datetime.now(UTC),
        )
        try:
            async with http_client(url, timeout=_SECONDS) as client:
                answer = await client.post(url, content=sent, headers=headers)
        except httpx.HTTPError as error:
            raise StorageError(f"the store does not answer: {type(error).__name__}") from None
        if answer.status_code >= 500:
            raise StorageError(f"the store answers HTTP {answer.status_code} to a bulk delete")
        return answer.status_code

    def _body(self) -> bytes:
        name = f".frazil-{uuid4()}"
        key = f"{self._profile.key_prefix}/{name}" if self._profile.key_prefix else name
        text = key.replace("&", "&amp;")
        return f"<Delete><Quiet>true</Quiet><Object><Key>{text}</Key></Object></Delete>".encode()

    def _url(self) -> str:
        known = places(self._profile)
        like = [place for place in known if place.path_style == self._profile.path_style_access]
        return Address((like or known)[0], "", {"delete": None}).url
