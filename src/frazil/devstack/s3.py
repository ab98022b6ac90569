"""The few S3 calls that setting up a store needs, signed with the standard library."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import http.client
import urllib.parse
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Keys:
    """A pair of S3 keys."""

    access: str
    secret: str = field(repr=False)


def signed_headers(
    method: str, url: str, keys: Keys, region: str, body: bytes = b"", now: dt.datetime | None = None
) -> dict[str, str]:
    """The headers of an S3 request, signed by AWS Signature Version 4."""
    moment = (now or dt.datetime.now(dt.UTC)).strftime("%Y%m%dT%H%M%SZ")
    parts = urllib.parse.urlsplit(url)
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": digest, "x-amz-date": moment}
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    request = "\n".join([method, parts.path or "/", parts.query, *lines, "", names, digest])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{keys.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def send(method: str, url: str, keys: Keys, region: str, body: bytes = b"") -> tuple[int, str]:
    """Send a signed request; returns status and answer."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        headers = signed_headers(method, url, keys, region, body)
        connection.request(method, parts.path or "/", body=body or None, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()
