"""Plain S3 requests with a vended session, to see what the store really lets it do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

import httpx

from frazil.catalog.aws import Keys, partition_of, payload_hash, sign
from frazil.catalog.outgoing import http_client
from frazil.catalog.storage import S3Profile
from frazil.catalog.vending.base import Vended
from frazil.core.errors import NotAllowed, StorageError

_TIMEOUT = httpx.Timeout(15, connect=5)
_REFUSED = (401, 403)
_READ_LIMIT = 64 * 1024


class S3Trial:
    """A session's own view of the store; NotAllowed is what the store says to what it must not do."""

    def __init__(self, profile: S3Profile, vended: Vended) -> None:
        config = vended.config
        self._profile = profile
        self._keys = Keys(
            config["s3.access-key-id"], config["s3.secret-access-key"], config["s3.session-token"]
        )

    async def write(self, location: str, data: bytes) -> None:
        headers = {}
        if self._profile.aws_kms_key_arn:
            headers["x-amz-server-side-encryption"] = "aws:kms"
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = self._profile.aws_kms_key_arn
        await self._send("PUT", location, data, headers)

    async def read(self, location: str) -> bytes:
        return await self._send("GET", location)

    async def delete(self, location: str) -> None:
        await self._send("DELETE", location)

    async def list(self, location: str) -> None:
        """List what lies below a location."""
        prefix = location.removeprefix(f"s3://{self._profile.bucket}").strip("/")
        query = urlencode({"list-type": "2", "max-keys": "1", "prefix": f"{prefix}/" if prefix else ""})
        await self._send("GET", f"s3://{self._profile.bucket}", query=query)

    async def _send(
        self,
        method: str,
        location: str,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
        query: str = "",
    ) -> bytes:
        url = _url(self._profile, location.removeprefix(f"s3://{self._profile.bucket}").lstrip("/"))
        if query:
            url = f"{url}?{query}"
        sent = dict(headers or {})
        sent |= sign(
            method,
            url,
            sent,
            payload_hash(data),
            service="s3",
            region=self._profile.region,
            keys=self._keys,
            now=datetime.now(UTC),
        )
        try:
            async with http_client(url, timeout=_TIMEOUT) as client:
                response = await client.request(method, url, content=data, headers=sent)
        except httpx.HTTPError as error:
            raise StorageError(f"{method} {location}: no answer: {type(error).__name__}") from None
        if response.status_code in _REFUSED:
            raise NotAllowed(f"{method} {location}: HTTP {response.status_code}")
        if not response.is_success:
            raise StorageError(f"{method} {location}: HTTP {response.status_code}")
        return response.content[:_READ_LIMIT]


def _url(profile: S3Profile, key: str) -> str:
    endpoint = profile.endpoint or f"https://s3.{profile.region}.{partition_of(profile.region).domain}"
    path = quote(key, safe="/-_.~")
    if profile.path_style_access:
        return f"{endpoint}/{profile.bucket}/{path}" if path else f"{endpoint}/{profile.bucket}"
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{profile.bucket}.{host}/{path}"
