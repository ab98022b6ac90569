"""Which requests are signed: a table of honest ones, and a longer one of hostile ones."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from frazil.catalog.aws import UNSIGNED_PAYLOAD
from frazil.catalog.signing import Allowed, Reach, allowed, understood
from frazil.catalog.signing.address import places
from frazil.catalog.storage import S3Profile
from frazil.core.errors import NotAllowed

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


@pytest.mark.parametrize(
    "source",
    [
        "lake/wh/t1/a",
        "/lake/wh/t1/a",
        "lake/wh/t1/a%20b?versionId=x.1",
        "lake/wh/t1/p%3Da%252Fb",
        "/lake/wh/t1/❄".replace("❄", "%E2%9D%84"),
    ],
)
def test_a_copy_inside_is_signed_with_its_source(source: str) -> None:
    for url in ("/lake/wh/t1/b", "/lake/wh/t1/b?partNumber=1&uploadId=u"):
        found = judged("PUT", f"{STORE}{url}", {"X-Amz-Copy-Source": [source]})
        assert found.headers == {"x-amz-copy-source": source}


@pytest.mark.parametrize(
    "source",
    [
        "lake/wh/t10/a",
        "lake/wh/a",
        "lake/wh/t1",
        "lake/wh%2Ft1%2F..%2Ft2",
        "lake/wh/t1/../t2/a",
        "lake/wh/t1/%2e%2e/t2/a",
        "lake/wh/t1/%252e%252e/t2/a",
        "lake/wh/t1%2f..%2ft2/a",
        "lake%2Fwh/t1/a",
        "lake/wh%2Ft1%2Fa",
        "lake/wh/t1/%5ca",
        "lake/wh/t1/a/%2e%2e/b",
        "lake/wh/t1/%ff",
        "other/wh/t1/a",
        "//lake/wh/t1/a",
        "/other/lake/wh/t1/a",
        "wh/t1/a",
        "",
        "lake",
        "lake/wh/t1/a?versionId=",
        "lake/wh/t1/a?versionId=1&x=2",
        "lake/wh/t1/a?x=lake/wh/t1",
        " lake/wh/t1/a",
        "lake/wh/t1/a+b",
        "lake/wh/t1/a\\..",
        "lake/wh/t1/a\r\nx-amz-acl: public-read",
        "arn:aws:s3:eu-central-1:1:accesspoint/p/object/wh/t1/a",
    ],
)
def test_a_copy_from_outside_is_refused(source: str) -> None:
    with pytest.raises(NotAllowed):
        judged("PUT", f"{STORE}/lake/wh/t1/b", {"x-amz-copy-source": [source]})


def test_a_copy_source_cannot_hide() -> None:
    url = f"{STORE}/lake/wh/t1/b"
    hidden: list[dict[str, list[str]]] = [
        {"x-amz-copy-source": ["lake/wh/t1/a", "other/a"]},
        {"x-amz-copy-source": ["lake/wh/t1/a"], "X-Amz-Copy-Source": ["other/a"]},
        {"x-amz-copy-source": ["other/a"], "X-Amz-Copy-Source": ["lake/wh/t1/a"]},
        {"x-amz-copy-source ": ["other/a"]},
        {"x-amz-copy-source": []},
        {"x-amz-copy-source-range": ["bytes=0-1"]},
    ]
    for headers in hidden:
        with pytest.raises(NotAllowed):
            judged("PUT", url, headers)
    with pytest.raises(NotAllowed):
        judged("GET", url, {"x-amz-copy-source": ["lake/wh/t1/a"]})


@pytest.mark.parametrize(
    "name",
    [
        *("x-amz-acl", "x-amz-grant-read", "x-amz-grant-full-control", "x-amz-website-redirect-location"),
        *("x-amz-object-lock-mode", "x-amz-object-lock-legal-hold", "x-amz-bypass-governance-retention"),
        *("x-amz-server-side-encryption-customer-key", "x-amz-server-side-encryption-customer-algorithm"),
        *("x-amz-copy-source-server-side-encryption-customer-key", "x-amz-tagging"),
        *("x-amz-security-token", "x-amz-date", "x-amz-mfa", "x-amz-request-payer", "x-amz-rename-source"),
        *("X-AMZ-ACL", " x-amz-acl", "x-amz-write-offset-bytes", "x-amz-tagging-directive", "x-amz-x"),
    ],
)
def test_headers_that_reach_further_are_refused(name: str) -> None:
    with pytest.raises(NotAllowed):
        judged("PUT", f"{STORE}/lake/wh/t1/a", {name: ["x"]})


def test_headers_of_writing_are_not_signed_for_reading() -> None:
    for name in ("x-amz-meta-a", "x-amz-storage-class", "x-amz-server-side-encryption"):
        judged("PUT", f"{STORE}/lake/wh/t1/a", {name: ["x"]})
        with pytest.raises(NotAllowed):
            judged("GET", f"{STORE}/lake/wh/t1/a", {name: ["x"]})


@pytest.mark.parametrize("value", ["a\nx-amz-acl:public-read", "a\r", "\0", "❄", "a\x7f"])
def test_a_header_is_one_line_of_ascii(value: str) -> None:
    with pytest.raises(NotAllowed):
        judged("PUT", f"{STORE}/lake/wh/t1/a", {"x-amz-meta-a": [value]})


def test_what_is_of_the_bucket_is_not_asked_of_an_object() -> None:
    url = f"{STORE}/lake/wh/t1/a"
    for query in ("list-type=2&prefix=wh%2Ft1%2F", "prefix=wh%2Ft1%2F"):
        with pytest.raises(NotAllowed):
            judged("GET", f"{url}?{query}")
    with pytest.raises(NotAllowed):
        judged("POST", f"{url}?delete", body=delete("wh/t1/a"))


def test_the_signature_covers_what_decides_and_nothing_that_varies() -> None:
    headers = {
        "Host": ["127.0.0.1:9000"],
        "User-Agent": ["x"],
        "Range": ["bytes=0-3"],
        "amz-sdk-request": ["attempt=1"],
        "Authorization": ["made up"],
        "x-amz-checksum-mode": ["ENABLED"],
    }
    found = judged("GET", f"{STORE}/lake/wh/t1/a", headers)
    assert found.headers == {"x-amz-checksum-mode": "ENABLED"}
    assert found.body_hash == UNSIGNED_PAYLOAD
    with pytest.raises(NotAllowed, match="Host"):
        judged("GET", f"{STORE}/lake/wh/t1/a", {"host": ["evil.example"]})
    written = judged("PUT", f"{STORE}/lake/wh/t1/a", {"Content-Type": ["x/y"], "x-amz-meta-a": ["b"]})
    assert written.headers == {"content-type": "x/y", "x-amz-meta-a": "b"}


def test_the_payload_is_a_hash_or_not_signed() -> None:
    url = f"{STORE}/lake/wh/t1/a"
    for legal in (HASH, UNSIGNED_PAYLOAD, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"):
        assert judged("PUT", url, {"x-amz-content-sha256": [legal]}).body_hash == legal
    for wrong in ("", "A" * 64, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x", f"{HASH}\n{HASH}"):
        with pytest.raises(NotAllowed):
            judged("PUT", url, {"x-amz-content-sha256": [wrong]})
    with pytest.raises(NotAllowed):
        judged("GET", url, {"x-amz-content-sha256": ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]})


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


def test_a_bulk_delete_is_bound_to_its_body() -> None:
    url, body = f"{STORE}/lake?delete", delete("wh/t1/a", "wh/t1/b&amp;c")
    digest = hashlib.sha256(body.encode()).hexdigest()
    md5 = base64.b64encode(hashlib.md5(body.encode()).digest()).decode()
    assert judged("POST", url, body=body).body_hash == digest
    assert judged("POST", url, {"Content-MD5": [md5]}, body).headers["content-md5"] == md5
    assert judged("POST", url, {"x-amz-content-sha256": [digest]}, body).body_hash == digest
    for headers in (
        {"x-amz-content-sha256": [UNSIGNED_PAYLOAD]},
        {"x-amz-content-sha256": [HASH]},
        {"x-amz-content-sha256": ["STREAMING-UNSIGNED-PAYLOAD-TRAILER"]},
        {"Content-MD5": [base64.b64encode(b"0" * 16).decode()]},
    ):
        with pytest.raises(NotAllowed):
            judged("POST", url, headers, body)


@pytest.mark.parametrize(
    "declaration", ["", '<?xml version="1.0" encoding="UTF-8"?>\n', "<?xml version='1.0'?>"]
)
def test_bulk_deletes_as_clients_write_them(declaration: str) -> None:
    body = delete("wh/t1/a", "wh/t1/p=a%2Fb").replace("</Delete>", "<Quiet>true</Quiet>\n</Delete>")
    digest = hashlib.sha256((declaration + body).encode()).hexdigest()
    assert judged("POST", f"{STORE}/lake?delete", body=declaration + body).body_hash == digest


_ENTITY = '<!DOCTYPE Delete [<!ENTITY x "wh/t2/a">]>'


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "not XML",
        "<Delete/>",
        delete("wh/t1/a", "wh/t10/a"),
        delete("wh/t10/a", "wh/t1/a"),
        delete("wh/t1/../t2/a"),
        delete("wh/t1"),
        delete(""),
        delete(" wh/t2/a"),
        delete("wh/t1/a&#10;b"),
        delete("&x;"),
        _ENTITY + delete("&x;"),
        _ENTITY + delete("wh/t1/a"),
        '<!DOCTYPE Delete SYSTEM "file:///etc/passwd">' + delete("wh/t1/a"),
        delete("wh/t2/a<!-- -->"),
        delete("wh/t1/<!-- -->a"),
        delete("<![CDATA[wh/t1/a]]>"),
        delete("wh/t1/a<?x y?>"),
        delete("wh/t1/a</Key><Key>wh/t2/a"),
        delete("wh/t1/a</Key><VersionId>1</VersionId><Key>"),
        delete("wh/t1/a<b/>"),
        delete("wh/t2/a<b/>wh/t1/a"),
        delete("wh/t1/a").replace("<Object>", "<Evil/><Object>"),
        delete("wh/t1/a").replace("</Object>", "<ETag/></Object>"),
        f"<Other>{delete('wh/t1/a')}</Other>",
        delete("wh/t1/a").replace("<Object>", "<Object><VersionId>1</VersionId>"),
        delete("wh/t1/a").replace("<Object>", "<Object>x"),
        delete("wh/t1/a").replace("<Key>", '<Key encoding="base64">'),
        delete("wh/t1/a").replace("</Delete>", "<Object></Object></Delete>"),
        delete("wh/t1/a").replace("</Delete>", "<s:Object><Key>wh/t2/a</Key></s:Object></Delete>"),
        delete("wh/t1/a") + delete("wh/t2/a"),
        delete("wh/t1/a").replace("2006-03-01", "other"),
        '<?xml version="1.0" encoding="UTF-7"?>' + delete("wh/t1/a"),
        '<?xml version="1.0" encoding="ISO-8859-1"?>' + delete("wh/t1/a"),
        '<?xml version="1.1"?>' + delete("wh/t1/a"),
        delete(*(f"wh/t1/{n}" for n in range(1001))),
    ],
)
def test_a_bulk_delete_that_could_touch_more_is_refused(body: str | None) -> None:
    with pytest.raises(NotAllowed):
        judged("POST", f"{STORE}/lake?delete", body=body)
