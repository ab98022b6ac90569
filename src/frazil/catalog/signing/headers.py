"""The headers of a request to sign: which of them are allowed, and which the signature covers.

A store takes only those `x-amz-*` headers into account that are signed, and they decide what a request
does: so the ones that are known to be harmless are allowed, and no others. What has no such name is
neither judged nor signed, except for what describes the body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from frazil.catalog.aws import UNSIGNED_PAYLOAD
from frazil.catalog.signing.address import decoded
from frazil.catalog.signing.operations import Operation
from frazil.catalog.signing.reach import Reach, shown
from frazil.core.errors import NotAllowed

CONTENT_HASH = "x-amz-content-sha256"
COPY_SOURCE = "x-amz-copy-source"

_ANY = frozenset(
    {CONTENT_HASH, "x-amz-checksum-mode", "x-amz-expected-bucket-owner", "x-amz-te", "x-amz-user-agent"}
)
_WRITE = frozenset(
    {
        "x-amz-checksum-algorithm",
        "x-amz-checksum-crc32",
        "x-amz-checksum-crc32c",
        "x-amz-checksum-crc64nvme",
        "x-amz-checksum-sha1",
        "x-amz-checksum-sha256",
        "x-amz-checksum-type",
        "x-amz-decoded-content-length",
        "x-amz-mp-object-size",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-bucket-key-enabled",
        "x-amz-storage-class",
        "x-amz-trailer",
    }
)
_COPY = frozenset(
    {
        COPY_SOURCE,
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-unmodified-since",
        "x-amz-copy-source-range",
        "x-amz-metadata-directive",
    }
)
_COPIES = frozenset({"PutObject", "UploadPart"})
_BODY = frozenset({"content-md5", "content-type"})
_VALUE = re.compile(r"[\x20-\x7e]*")
_HASH = re.compile(r"[0-9a-f]{64}")
_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_SOURCE = re.compile(r"/?([^/?]+)/([^?]+)(?:\?versionId=[A-Za-z0-9._~-]+)?")


def checked_headers(given: Mapping[str, Sequence[str]], operation: Operation, reach: Reach) -> dict[str, str]:
    """The headers that the signature must cover, names in lower case, or NotAllowed."""
    covered: dict[str, str] = {}
    for name, values in given.items():
        lower = name.lower().strip()
        if not lower.startswith("x-amz-") and lower not in _BODY:
            continue
        if not _allowed(lower, operation):
            raise NotAllowed(f"headers: {lower[:100]!a} is not signed for {operation.name}")
        if lower in covered or len(values) != 1 or not _VALUE.fullmatch(values[0]):
            raise NotAllowed(f"headers: {lower} must have one value of printable ASCII characters")
        covered[lower] = values[0]
    if COPY_SOURCE in covered:
        check_copy_source(covered[COPY_SOURCE], reach)
    elif covered.keys() & _COPY:
        raise NotAllowed(f"headers: x-amz-copy-source-* and x-amz-metadata-directive need {COPY_SOURCE}")
    return covered


def check_copy_source(value: str, reach: Reach) -> None:
    """What is copied must lie inside as well, to a reader that decodes the value and to one that does not."""
    match = _SOURCE.fullmatch(value)
    if match is None or value != value.strip() or "+" in value:
        raise NotAllowed(
            f"headers: {COPY_SOURCE} {shown(value)} is not bucket/key, percent-encoded, optionally with "
            "?versionId="
        )
    if match[1] != reach.bucket:
        raise NotAllowed(f"headers: {COPY_SOURCE} {shown(value)} is not in the bucket {reach.bucket}")
    reach.check(match[2], f"headers: {COPY_SOURCE}")
    reach.check(decoded(match[2], f"headers: {COPY_SOURCE}"), f"headers: {COPY_SOURCE}")


def payload(covered: Mapping[str, str], operation: Operation) -> str:
    """How the body is signed: by its hash if the caller gave it, else not at all."""
    given = covered.get(CONTENT_HASH, UNSIGNED_PAYLOAD)
    streams = given == _TRAILER and operation.name in _COPIES
    if given != UNSIGNED_PAYLOAD and not streams and not _HASH.fullmatch(given):
        raise NotAllowed(
            f"headers: {CONTENT_HASH} {shown(given)} is not legal for {operation.name}. Legal: "
            f"{UNSIGNED_PAYLOAD}, a SHA-256 in lower-case hex and, to write, {_TRAILER}"
        )
    return given


def _allowed(name: str, operation: Operation) -> bool:
    if name in _ANY or name in _BODY:
        return True
    if name in _COPY:
        return operation.name in _COPIES
    return operation.write and (name in _WRITE or name.startswith("x-amz-meta-"))
