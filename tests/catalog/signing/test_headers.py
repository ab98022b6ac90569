"""Headers and bodies of signed requests: copies, payloads, bulk deletes."""

from __future__ import annotations

import base64
import hashlib

import pytest
from tests.catalog.signing.judging import HASH, STORE, delete, judged

from frazil.catalog.aws import UNSIGNED_PAYLOAD
from frazil.core.errors import NotAllowed


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
