"""Whatever is accepted means the same to others: to AWS's SDK, and to every reader of URLs at hand."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

import boto3
import httpx
import pytest
import urllib3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.catalog.signing.judging import LOCAL, STORE, T1

from frazil.catalog.signing import Allowed, allowed, understood
from frazil.catalog.signing.address import places
from frazil.core.errors import NotAllowed

_PIECES = [
    *("wh", "t1", "t10", "t2", "lake", "other", "a", "p=1", "❄", " ", "+", "&", "=", ";", ":", "@", ",", "~"),
    *("/", "/", "//", ".", "..", "../", "/..", "\\", "%2f", "%2F", "%5c", "%2e", "%2E%2e", "%25", "%252e"),
    *("%252f", "%25252f", "%00", "%0a", "%ff", "%", "%4", "%c0%af", "%20", "%2B", "?", "#", "\t", "\n", "\0"),
]
_INSIDE = "/lake/wh/t1/"
_TAILS = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=8).map("".join)
_PATHS = st.one_of(_TAILS.map(lambda tail: _INSIDE + tail), _TAILS.map(lambda tail: "/" + tail))


@pytest.fixture(scope="module")
def sdk_url() -> Callable[[str], str]:
    """The URL that AWS's SDK makes for an object of the bucket."""
    client: Any = boto3.client(
        "s3",
        endpoint_url=STORE,
        region_name="eu-central-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}, signature_version="s3v4"),
    )

    def url(key: str) -> str:
        return str(client.generate_presigned_url("get_object", {"Bucket": "lake", "Key": key})).partition(
            "?"
        )[0]

    return url


def accepted(path: str) -> Allowed | None:
    try:
        return allowed(understood("GET", STORE + path, {}, None, places(LOCAL)), T1)
    except NotAllowed:
        return None


@given(path=_PATHS)
@example(path="/lake/wh/t1/data/p%3Da%252Fb/❄")
@example(path="/lake/wh/t1/a%20b+c")
@settings(max_examples=400, deadline=None)
def test_what_is_accepted_is_what_the_sdk_would_ask_for(sdk_url: Callable[[str], str], path: str) -> None:
    found = accepted(path)
    if found is None:
        return
    key = unquote(urlsplit(found.url).path, errors="strict").removeprefix("/lake/")
    assert key.startswith(T1.prefix)
    try:
        asked = sdk_url(key)
    except BotoCoreError:
        pytest.fail(f"the SDK does not know the key {key!r}")
    assert found.url == asked


@given(path=_PATHS)
@settings(max_examples=400, deadline=None)
def test_no_reader_of_urls_sees_something_else(path: str) -> None:
    """Of the caller's spelling as well as of ours; also if it resolves dots or decodes twice."""
    found = accepted(path)
    if found is None:
        return
    for url in (found.url, STORE + path):
        for seen in (urlsplit(url).path, httpx.URL(url).path, urllib3.util.parse_url(url).path or ""):
            for _ in range(5):
                resolved = posixpath.normpath(seen.replace("\\", "/")) + "/"
                assert resolved.startswith(_INSIDE), (url, seen)
                seen = unquote(seen)


def test_honest_keys_are_accepted(sdk_url: Callable[[str], str]) -> None:
    """The properties above would hold for a signer that refuses everything."""
    for key in ("a", "data/p=a%2Fb/00000-0.parquet", "❄ +&=;:@,~!*'()[]{}^|<>\"`", "a.b/..c/d..", "%"):
        url = sdk_url(f"wh/t1/{key}")
        found = accepted(url.removeprefix(STORE))
        assert found is not None, url
        assert found.url == url
