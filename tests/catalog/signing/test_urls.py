"""Which URLs are signed: a table of honest ones, and a longer one of hostile ones."""

from __future__ import annotations

import pytest
from tests.catalog.signing.judging import AWS, READER, STORE, delete, judged, profile

from frazil.core.errors import NotAllowed

HONEST = [
    ("GET", "/wh/t1/data/a.parquet"),
    ("HEAD", "/wh/t1/data/a.parquet"),
    ("GET", "/wh/t1/data/a.parquet?versionId=3"),
    ("GET", "/wh/t1/data/a.parquet?x-id=GetObject"),
    ("PUT", "/wh/t1/data/a.parquet"),
    ("DELETE", "/wh/t1/data/a.parquet"),
    ("PUT", "/wh/t1/"),
    ("POST", "/wh/t1/data/a.parquet?uploads"),
    ("POST", "/wh/t1/data/a.parquet?uploads="),
    ("PUT", "/wh/t1/data/a.parquet?partNumber=1&uploadId=abc"),
    ("POST", "/wh/t1/data/a.parquet?uploadId=abc"),
    ("GET", "/wh/t1/data/a.parquet?uploadId=abc&max-parts=10"),
    ("DELETE", "/wh/t1/data/a.parquet?uploadId=abc"),
    ("GET", "?list-type=2&prefix=wh%2Ft1%2F"),
    ("GET", "?list-type=2&prefix=wh/t1/data/&delimiter=%2F&max-keys=1&encoding-type=url&start-after=x"),
    ("GET", "/?prefix=wh%2Ft1%2Fdata&marker=wh"),
    ("GET", "/wh/t1/data/p%3Da%20b/a.parquet"),
    ("GET", "/wh/t1/data/p=a/a.parquet"),
    # Iceberg percent-encodes partition values: these keys hold a literal "%2F", "%2E%2E" and "%5C".
    ("GET", "/wh/t1/data/p%3Da%252Fb/a.parquet"),
    ("GET", "/wh/t1/data/p%3D%252E%252E/a.parquet"),
    ("GET", "/wh/t1/data/p%3Da%252F..%252Fb/a.parquet"),
    ("GET", "/wh/t1/data/p%3Da%255Cb/a.parquet"),
    ("GET", "/wh/t1/data/%E2%9D%84/a.parquet"),
    ("GET", "/wh/t1/data/a%2Bb"),
    ("GET", "/wh/t1/data/...parquet"),
]


@pytest.mark.parametrize(("method", "path"), HONEST)
def test_what_engines_do_inside_their_table_is_signed(method: str, path: str) -> None:
    assert judged(method, f"{STORE}/lake{path}").method == method


OUTSIDE = [
    # Not this table.
    "/lake/wh/t10/a",
    "/lake/wh/t1",
    "/lake/wh/t2/a",
    "/lake/wh/a",
    "/lake/wh/",
    "/lake/wht1/a",
    "/lake/WH/t1/a",
    "/lake//wh/t1/a",
    "/lake/x/wh/t1/a",
    "/other/wh/t1/a",
    "/lake2/wh/t1/a",
    "/lake2wh/t1/a",
    "/lak/wh/t1/a",
    "/wh/t1/a",
    "/",
    "",
    # Ways out of it.
    "/lake/wh/t1/../t2/a",
    "/lake/wh/t1/..",
    "/lake/wh/t1/./a",
    "/lake/wh/t1/%2e%2e/t2/a",
    "/lake/wh/t1/%2E./t2/a",
    "/lake/wh/t1/..%2ft2/a",
    "/lake/wh/t1/a%2Fb",
    "/lake/wh%2ft1/a",
    "/lake/wh/t1/%252e%252e%252f%252e%252e%252ft2/a",
    "/lake/wh/t1/%25252e%25252e%25252ft2/a",
    "/lake/wh/t1/%252e%252e/t2/a",
    "/lake/wh/t1/%252e%252e%255ct2/a",
    "/lake/wh/t1/%25252525252541",
    "/lake/wh/t1/..%5ct2",
    "/lake/wh/t1/%5c..%5ct2",
    "/lake/wh/t1//a",
    "/lake/../other/wh/t1/a",
    "/lake/%2e%2e/other/wh/t1/a",
    "/%6Cake/wh/t1/a",
    "/lake%2Fwh/t1/a",
    # No single meaning.
    "/lake/wh/t1/a\\..\\..\\t2",
    "/lake/wh/t1/a b",
    "/lake/wh/t1/a+b",
    "/lake/wh/t1/a;b",
    "/lake/wh/t1/a\tb",
    "/lake/wh/t1/a\n",
    "/lake/wh/t1/❄",
    "/lake/wh/t1/%",
    "/lake/wh/t1/%4",
    "/lake/wh/t1/%zz",
    "/lake/wh/t1/%00",
    "/lake/wh/t1/%0a",
    "/lake/wh/t1/%ff",
    "/lake/wh/t1/%ed%a0%80",
    "/lake/wh/t1/%c0%af..%c0%af",
    "/lake/wh/t1/a#b",
    "/lake/wh/t1/a?x-id=1#b",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_key_that_is_not_plainly_inside_is_refused(method: str, path: str) -> None:
    with pytest.raises(NotAllowed):
        judged(method, f"{STORE}{path}")


@pytest.mark.parametrize("name", ["uploadId", "versionId"])
@pytest.mark.parametrize("value", ["..%2F..%2Ft2", "a/../t2", "..%5Ct2"])
def test_an_id_that_reads_like_a_path_is_refused(name: str, value: str) -> None:
    assert judged("GET", f"{STORE}/lake/wh/t1/a?{name}=2~a.B_c-d").method == "GET"
    with pytest.raises(NotAllowed, match="slash"):
        judged("GET", f"{STORE}/lake/wh/t1/a?{name}={value}")


@pytest.mark.parametrize(
    "origin",
    [
        "https://127.0.0.1:9000",
        "http://127.0.0.1",
        "http://127.0.0.1:9001",
        "http://127.0.0.1:90000",
        "http://127.0.0.1:",
        "http://127.0.0.1.:9000",
        "http://127.0.0.1:9000:9000",
        "http://localhost:9000",
        "http://lake.other:9000",
        "http://user@127.0.0.1:9000",
        "http://user:word@127.0.0.1:9000",
        "http://127.0.0.1:9000@evil.example",
        "http://evil.example#@127.0.0.1:9000",
        "http://evil.example/http://127.0.0.1:9000",
        "HTTP://127.0.0.1:9000",
        "ftp://127.0.0.1:9000",
        "//127.0.0.1:9000",
        " http://127.0.0.1:9000",
        "s3://lake",
        "http://[::1]:9000",
    ],
)
def test_another_place_is_refused(origin: str) -> None:
    with pytest.raises(NotAllowed):
        judged("GET", f"{origin}/lake/wh/t1/a")


QUERIES = [
    *("acl", "policy", "tagging", "torrent", "restore", "retention", "legal-hold", "attributes", "select"),
    *("select&select-type=2", "renameObject", "versionId", "versionId=1&versionId=2", "%61cl", "Acl", "acl="),
    *("uploads&acl", "uploadId=1&partNumber=1&acl", "partNumber=1", "response-content-type=text%2Fhtml"),
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=k&X-Amz-Expires=604800&X-Amz-SignedHeaders=host",
    *("X-Amz-Security-Token=t", "x-amz-acl=public-read", "x-amz-copy-source=other%2Fkey", "&", "=", "a", "?"),
    *("uploadId=1&uploadId=2", "uploads&uploads", "delete", "list-type=2&prefix=wh%2Ft1%2F", "uploads&"),
    "x+id",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "put", ""])
def test_a_query_that_is_not_known_is_refused(method: str, query: str) -> None:
    with pytest.raises(NotAllowed):
        judged(method, f"{STORE}/lake/wh/t1/a?{query}")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "list-type=2",
        "list-type=2&prefix=",
        "list-type=2&prefix",
        "list-type=2&prefix=wh%2Ft1",
        "list-type=2&prefix=wh%2Ft10%2F",
        "list-type=2&prefix=wh%2F",
        "list-type=2&prefix=%2Fwh%2Ft1%2F",
        "list-type=2&prefix=wh%2Ft1%2F..%2Ft2%2F",
        "list-type=2&prefix=wh%2Ft1%2F%252e%252e%2Ft2%2F",
        "list-type=2&prefix=wh%252Ft1%252F",
        "list-type=2&prefix=wh%2Ft1%2F&prefix=",
        "list-type=2&prefix=wh%2Ft1%2F&Prefix=",
        "list-type=2&prefix=wh%2Ft1%2F&fetch-owner=true",
        "list-type=1&prefix=wh%2Ft1%2F",
        "list-type&prefix=wh%2Ft1%2F",
        "prefix=wh",
        "versions&prefix=wh%2Ft1%2F",
        "uploads&prefix=wh%2Ft1%2F",
        "location",
        "acl",
        "policy",
        "lifecycle",
        "delete",
    ],
)
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_list_without_a_prefix_inside_is_refused(query: str, slash: str) -> None:
    for method in ("GET", "HEAD", "PUT", "DELETE"):
        with pytest.raises(NotAllowed):
            judged(method, f"{STORE}/lake{slash}?{query}")


@pytest.mark.parametrize(("method", "path"), HONEST)
def test_read_only_access_reads_and_lists_and_nothing_else(method: str, path: str) -> None:
    if method in ("GET", "HEAD") and "uploadId" not in path:
        judged(method, f"{STORE}/lake{path}", reach=READER)
    else:
        with pytest.raises(NotAllowed, match="read-only"):
            judged(method, f"{STORE}/lake{path}", reach=READER)
    with pytest.raises(NotAllowed, match="read-only"):
        judged("POST", f"{STORE}/lake?delete", body=delete("wh/t1/a"), reach=READER)


def test_what_is_signed_is_our_own_spelling() -> None:
    found = judged("GET", f"{STORE}/lake/wh/t1/%61=%7e%2a?versionId=%41")
    assert found.url == f"{STORE}/lake/wh/t1/a%3D~%2A?versionId=A"


def test_virtual_hosts_and_paths() -> None:
    aws = profile()
    for url in (
        f"{AWS}/lake/wh/t1/a",
        f"{AWS}:443/lake/wh/t1/a",
        "https://lake.s3.eu-central-1.amazonaws.com/wh/t1/a",
        "https://LAKE.s3.eu-central-1.amazonaws.com/wh/t1/a",
        "https://lake.s3.dualstack.eu-central-1.amazonaws.com/wh/t1/a",
    ):
        assert judged("GET", url, of=aws).url.endswith("/wh/t1/a")
    for url in (
        "http://lake.s3.eu-central-1.amazonaws.com/wh/t1/a",
        "https://lake.s3.eu-west-1.amazonaws.com/wh/t1/a",
        "https://other.s3.eu-central-1.amazonaws.com/wh/t1/a",
        "https://lake.s3.eu-central-1.amazonaws.com.evil.example/wh/t1/a",
        "https://lake.s3.amazonaws.com/wh/t1/a",
        "https://x.lake.s3.eu-central-1.amazonaws.com/wh/t1/a",
        "https://lake.s3.eu-central-1.amazonaws.com/lake/wh/t1/a",
        f"{AWS}/wh/t1/a",
    ):
        with pytest.raises(NotAllowed):
            judged("GET", url, of=aws)
    only_path = profile(remote_signing_url_style="path")
    with pytest.raises(NotAllowed):
        judged("GET", "https://lake.s3.eu-central-1.amazonaws.com/wh/t1/a", of=only_path)
    only_host = profile(remote_signing_url_style="virtual_host")
    with pytest.raises(NotAllowed):
        judged("GET", f"{AWS}/lake/wh/t1/a", of=only_host)
    listed = judged("GET", "https://lake.s3.eu-central-1.amazonaws.com/?list-type=2&prefix=wh/t1/", of=aws)
    assert listed.url == "https://lake.s3.eu-central-1.amazonaws.com/?list-type=2&prefix=wh%2Ft1%2F"


def test_an_endpoint_below_a_path() -> None:
    below = profile(endpoint="http://gate.example/store", flavor="s3-compat")
    for url in ("http://gate.example/store/lake/wh/t1/a", "http://lake.gate.example/store/wh/t1/a"):
        assert judged("GET", url, of=below).url == url
    for path in ("/lake/wh/t1/a", "/store/wh/t1/a", "/storelake/wh/t1/a", "/store/../lake/wh/t1/a"):
        with pytest.raises(NotAllowed):
            judged("GET", f"http://gate.example{path}", of=below)
