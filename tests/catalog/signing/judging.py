"""A profile and a table to judge requests by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.catalog.signing import Allowed, Reach, allowed, understood
from frazil.catalog.signing.address import places
from frazil.catalog.storage import S3Profile

STORE = "http://127.0.0.1:9000"
AWS = "https://s3.eu-central-1.amazonaws.com"
T1 = Reach.of("s3://lake/wh/t1", write=True)
READER = Reach.of("s3://lake/wh/t1", write=False)
HASH = "a" * 64

Headers = Mapping[str, Sequence[str]]


def profile(**fields: Any) -> S3Profile:
    return S3Profile(bucket="lake", region="eu-central-1", **fields)


LOCAL = profile(endpoint=STORE, path_style_access=True, flavor="s3-compat")


def judged(
    method: str,
    url: str,
    headers: Headers | None = None,
    body: str | None = None,
    *,
    reach: Reach = T1,
    of: S3Profile = LOCAL,
) -> Allowed:
    return allowed(understood(method, url, headers or {}, body, places(of)), reach)


def delete(*keys: str) -> str:
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'
