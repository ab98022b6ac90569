"""The signer against botocore's, which every S3 store is known to accept."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest import mock
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.aws import UNSIGNED_PAYLOAD, Keys, payload_hash, sign

_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20)
# A slash separates; a store reads an encoded one as another separator.
_SEGMENT = _TEXT.map(lambda text: text.replace("/", ""))
_TOKEN = st.text("ABCxyz019+/=", min_size=1, max_size=40)
_HEADER_NAME = st.from_regex(r"x-(amz|test)-[a-z]{1,8}", fullmatch=True).filter(
    lambda name: name not in ("x-amz-date", "x-amz-security-token", "x-amz-content-sha")
)
_HEADER_VALUE = st.text("abc XYZ-09;,=", max_size=20)
_MOMENTS = st.datetimes(datetime(2013, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def _encoded(text: str) -> str:
    return quote(text, safe="-_.~")


@st.composite
def _urls(draw: st.DrawFn) -> str:
    host = draw(st.sampled_from(["http://127.0.0.1:8333", "https://b.s3.eu-west-1.amazonaws.com:443"]))
    path = "/".join(_encoded(s) for s in draw(st.lists(_SEGMENT, max_size=5)))
    pairs = draw(st.lists(st.tuples(_TEXT.filter(bool), _TEXT), max_size=4, unique_by=lambda p: p[0]))
    query = "&".join(f"{_encoded(name)}={_encoded(value)}" for name, value in pairs)
    return f"{host}/{path}" + (f"?{query}" if query else "")


def _botocore(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    service: str,
    keys: Keys,
    now: datetime,
    *,
    unsigned: bool = False,
) -> dict[str, str]:
    credentials = Credentials(keys.access_key_id, keys.secret_access_key, keys.session_token)
    request = AWSRequest(method, url, headers=headers, data=body)
    if unsigned:
        request.context["payload_signing_enabled"] = False
        request.context["client_config"] = mock.Mock(s3={"payload_signing_enabled": False})
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(credentials, service, "eu-west-1")
    with mock.patch("botocore.auth.get_current_datetime", return_value=now):
        auth.add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@given(
    method=st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    url=_urls(),
    headers=st.dictionaries(_HEADER_NAME, _HEADER_VALUE, max_size=4),
    body=st.binary(max_size=50),
    service=st.sampled_from(["s3", "sts", "execute-api"]),
    access=_TOKEN,
    secret=_TOKEN,
    token=st.none() | _TOKEN,
    now=_MOMENTS,
)
def test_signs_as_botocore_does(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    service: str,
    access: str,
    secret: str,
    token: str | None,
    now: datetime,
) -> None:
    keys = Keys(access, secret, token)
    expected = _botocore(method, url, headers, body, service, keys, now)
    added = sign(
        method, url, headers, payload_hash(body), service=service, region="eu-west-1", keys=keys, now=now
    )
    assert added == {name: expected[name] for name in added}
    assert set(expected) - set(headers) == set(added)


def test_an_unsigned_payload_is_signed_as_botocore_does() -> None:
    keys = Keys("AK", "SK", "T")
    now = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    url = "https://bucket.s3.eu-west-1.amazonaws.com/a/b"
    expected = _botocore("PUT", url, {}, b"data", "s3", keys, now, unsigned=True)
    added = sign("PUT", url, {}, UNSIGNED_PAYLOAD, service="s3", region="eu-west-1", keys=keys, now=now)
    assert expected["x-amz-content-sha256"] == UNSIGNED_PAYLOAD
    assert added == {name: expected[name] for name in added}


@pytest.mark.parametrize(
    ("spelled", "encoded"),
    [
        ("/b/k=v/x", "/b/k%3Dv/x"),
        ("/b/%7e%2f", "/b/~/"),
        ("/b/a%2Fb", "/b/a/b"),
        ("/b/a//../c", "/b/a//../c"),
        ("/b/x?a=b+c", "/b/x?a=b%20c"),
        ("/b/x?acl", "/b/x?acl="),
        ("/b/x?b=1&a=2", "/b/x?a=2&b=1"),
    ],
)
def test_a_url_is_signed_as_the_store_reads_it(spelled: str, encoded: str) -> None:
    keys = Keys("AK", "SK")
    now = datetime(2026, 3, 4, tzinfo=UTC)
    answers = [
        sign("GET", f"http://h:1{url}", {}, UNSIGNED_PAYLOAD, service="s3", region="r", keys=keys, now=now)
        for url in (spelled, encoded)
    ]
    assert answers[0] == answers[1]


def test_headers_that_change_on_the_way_are_not_covered() -> None:
    keys = Keys("AK", "SK")
    now = datetime(2026, 3, 4, tzinfo=UTC)
    headers = {"User-Agent": "x", "Expect": "100-continue", "Range": "bytes=0-1", "Host": "h"}
    added = sign(
        "GET", "http://h/b/k", headers, UNSIGNED_PAYLOAD, service="s3", region="r", keys=keys, now=now
    )
    assert "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date," in added["authorization"]


def test_keys_print_no_secret() -> None:
    assert "SECRET" not in repr(Keys("AK", "SECRET1", "SECRET2"))
