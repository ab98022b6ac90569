"""Plain requests to Azure with a vended signature, to see what it really lets its holder do.

obstore deletes by batch, which asks for rights on the whole container, and httpx writes the address of each
request, with the signature in it, to the log. So these are sent with the standard library.
"""

from __future__ import annotations

import asyncio
import http.client
from contextlib import closing
from urllib.parse import quote, urlencode, urlsplit

from frazil.catalog.storage import AdlsProfile
from frazil.catalog.vending.sas import VERSION
from frazil.core.errors import NotAllowed, StorageError

_SECONDS = 15
_READ_LIMIT = 64 * 1024
_REFUSED = (401, 403)


class AdlsTrial:
    """The file system as the holder of a signature sees it; NotAllowed is what it says to what is outside."""

    def __init__(self, profile: AdlsProfile, token: str) -> None:
        self._profile = profile
        self._token = token
        self._root = f"abfss://{profile.filesystem}@{profile.account_name}.{profile.host}"

    async def write(self, location: str, data: bytes) -> None:
        await self._send("PUT", location, data)

    async def read(self, location: str) -> bytes:
        return await self._send("GET", location)

    async def delete(self, location: str) -> None:
        await self._send("DELETE", location)

    async def list(self, location: str) -> None:
        """List what lies below a location: at the `dfs` service, which knows directories."""
        profile, folder = self._profile, self._path(location)
        if profile.endpoint:
            service, query = (
                profile.endpoint,
                {"restype": "container", "comp": "list", "prefix": f"{folder}/"},
            )
        else:
            service = f"https://{profile.account_name}.{profile.host}"
            query = {"resource": "filesystem", "recursive": "false", "maxResults": "1", "directory": folder}
        url = f"{service}/{profile.filesystem}?{urlencode(query, quote_via=quote)}&{self._token}"
        await asyncio.to_thread(_request, "GET", url, f"list {location}", b"")

    async def _send(self, method: str, location: str, data: bytes = b"") -> bytes:
        path = quote(self._path(location))
        url = f"{self._profile.blob_endpoint}/{self._profile.filesystem}/{path}?{self._token}"
        return await asyncio.to_thread(_request, method, url, f"{method} {location}", data)

    def _path(self, location: str) -> str:
        return location.removeprefix(self._root).strip("/")


def _request(method: str, url: str, what: str, data: bytes) -> bytes:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    headers = {"x-ms-version": VERSION}
    if method == "PUT":
        headers["x-ms-blob-type"] = "BlockBlob"
    try:
        with closing(kind(parts.hostname or "", parts.port, timeout=_SECONDS)) as connection:
            connection.request(method, f"{parts.path}?{parts.query}", data or None, headers)
            answer = connection.getresponse()
            status, body = answer.status, answer.read(_READ_LIMIT)
            code = answer.getheader("x-ms-error-code", "")
    except (OSError, http.client.HTTPException) as error:
        raise StorageError(f"{what}: no answer: {type(error).__name__}") from None
    if status in _REFUSED:
        raise NotAllowed(f"{what}: HTTP {status} {code}".strip())
    if not 200 <= status < 300:
        raise StorageError(f"{what}: HTTP {status} {code}".strip())
    return body
