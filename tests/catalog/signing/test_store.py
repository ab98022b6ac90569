"""Signed requests against the real store: all that a table needs works, and nothing reaches beyond it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.catalog.signing.conftest import BUCKET, SCHEMA, SIGNING, Answer, Signed, Table, raw, storage
from tests.clients.support import call

SECRET = b"of another table"


@pytest.fixture
def t1(signed: Signed) -> Table:
    return signed.table("t1")


@pytest.fixture
def others(signed: Signed) -> Iterator[list[str]]:
    """Keys that t1 must not reach; they are all there, unchanged, after the test."""
    signed.table("t10")
    keys = ["wh/t10/x", "wh/x", "wh/t1", "outside", "wh/t2/x"]
    for key in keys:
        assert signed.as_admin("PUT", signed.url(key), SECRET)[0] == 200
    yield keys
    for key in keys:
        assert signed.as_admin("GET", signed.url(key)) == (200, SECRET.decode())


def refused(answer: Answer, kind: str = "ForbiddenException") -> str:
    assert answer.status == 403, answer
    assert answer.body["error"]["type"] == kind
    message: str = answer.body["error"]["message"]
    return message


def delete(*keys: str) -> str:
    return f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>"


def test_objects_are_written_read_listed_copied_and_deleted(signed: Signed, t1: Table) -> None:
    url = signed.url("wh/t1/data/a%20b")
    headers = {"content-type": "text/x-ice", "x-amz-meta-a": "b"}
    assert signed.run(t1, "PUT", url, headers, "hello").status == 200
    assert signed.run(t1, "GET", url).body == "hello"
    assert signed.run(t1, "GET", url, {"range": "bytes=1-2"}).body == "el"
    assert signed.run(t1, "HEAD", url).status == 200
    for query in ("list-type=2&prefix=wh%2Ft1%2Fdata%2F&delimiter=%2F", "prefix=wh%2Ft1%2F"):
        assert "<Key>wh/t1/data/a b</Key>" in signed.run(t1, "GET", signed.url("", query)).body
    copy = signed.url("wh/t1/data/copy")
    source = {"x-amz-copy-source": f"{BUCKET}/wh/t1/data/a%20b"}
    assert signed.run(t1, "PUT", copy, source).status == 200
    assert signed.run(t1, "GET", copy).body == "hello"
    assert signed.run(t1, "DELETE", url).status == 204
    assert signed.as_admin("GET", url)[0] == 404


def test_an_upload_in_parts(signed: Signed, t1: Table) -> None:
    url = signed.url("wh/t1/data/parts")
    created = signed.run(t1, "POST", f"{url}?uploads").body
    upload = re.findall("<UploadId>([^<]+)</UploadId>", created)[0]
    part = f"{url}?partNumber=1&uploadId={upload}"
    etag = hashlib.md5(b"part").hexdigest()
    assert signed.run(t1, "PUT", part, None, "part").status == 200
    assert "<PartNumber>1</PartNumber>" in signed.run(t1, "GET", f"{url}?uploadId={upload}").body
    parts = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
    whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
    assert signed.run(t1, "POST", f"{url}?uploadId={upload}", None, whole).status == 200
    assert signed.run(t1, "GET", url).body == "part"
    given_up = re.findall("<UploadId>([^<]+)<", signed.run(t1, "POST", f"{url}?uploads").body)[0]
    assert signed.run(t1, "DELETE", f"{url}?uploadId={given_up}").status == 204


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_no_other_key_is_reached(signed: Signed, t1: Table, others: list[str], method: str) -> None:
    for key in (*others, "wh/t1/../t10/x", "wh/t1/%2e%2e/t10/x", "wh/t1/%252e%252e/t10/x"):
        refused(signed.sign(t1, method, signed.url(key)))
    another = f"{signed.store.endpoint}/examples/wh/t1/data/x"
    assert "bucket" in refused(signed.sign(t1, method, another))
    refused(signed.sign(t1, method, "https://evil.example/signed/wh/t1/x"))


def test_no_upload_copy_list_or_bulk_delete_reaches_out(signed: Signed, t1: Table, others: list[str]) -> None:
    mine = signed.url("wh/t1/data/x")
    for key in others:
        refused(signed.sign(t1, "POST", f"{signed.url(key)}?uploads"))
        refused(signed.sign(t1, "PUT", f"{signed.url(key)}?partNumber=1&uploadId=u"))
        for source in (f"{BUCKET}/{key}", f"/{BUCKET}/{key}", f"{BUCKET}/wh/t1/%2e%2e/%2e%2e/{key}"):
            refused(signed.sign(t1, "PUT", mine, {"x-amz-copy-source": source}))
            refused(signed.sign(t1, "PUT", f"{mine}?partNumber=1&uploadId=u", {"X-Amz-Copy-Source": source}))
        refused(signed.sign(t1, "POST", signed.url("", "delete"), None, delete("wh/t1/data/x", key)))
    refused(signed.sign(t1, "POST", signed.url("", "delete")))
    for prefix in ("", "wh%2F", "wh%2Ft1", "wh%2Ft10%2F"):
        refused(signed.sign(t1, "GET", signed.url("", f"list-type=2&prefix={prefix}")))
    refused(signed.sign(t1, "GET", signed.url("", "list-type=2")))
    refused(signed.sign(t1, "GET", f"{mine}?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=604800"))
    refused(signed.sign(t1, "PUT", f"{mine}?acl", {"x-amz-acl": "public-read"}))


def test_a_signature_is_good_for_nothing_else(signed: Signed, t1: Table, others: list[str]) -> None:
    url = signed.url("wh/t1/data/x")
    source = {"x-amz-copy-source": f"{BUCKET}/{others[0]}"}
    assert signed.run(t1, "PUT", url, None, unsigned=source).status == 403
    signed.run(t1, "PUT", url, None, "mine")
    added = signed.sign(t1, "GET", url).body["headers"]
    headers = {name: values[0] for name, values in added.items()}
    assert raw("GET", url, headers, "").status == 200
    assert raw("DELETE", url, headers, "").status == 403
    assert raw("GET", signed.url(others[0]), headers, "").status == 403
    assert raw("GET", f"{url}?acl", headers, "").status == 403


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_forwarded_prefix_does_not_move_a_signature(
    signed: Signed, t1: Table, others: list[str], method: str
) -> None:
    """This store checks the signature for the path that a proxy is said to have shortened."""
    inside = signed.url(f"wh/t1/{BUCKET}/{others[0]}")
    added = signed.sign(t1, method, inside).body["headers"]
    headers = {name: values[0] for name, values in added.items()}
    unmoved = {name: value for name, value in headers.items() if name != "x-forwarded-prefix"}
    lie = {"X-Forwarded-Prefix": f"/{BUCKET}/wh/t1"}
    for tampered in (headers, unmoved, headers | lie, unmoved | lie):
        assert raw(method, signed.url(others[0]), tampered, "").status == 403
    assert raw(method, inside, headers, "").status in (200, 204, 404)


def test_a_bulk_delete_is_not_signed_for_a_store_that_takes_any_body(
    signed: Signed, t1: Table, others: list[str]
) -> None:
    """This store does not compare the body of DeleteObjects with the signed hash."""
    answer = signed.sign(t1, "POST", signed.url("", "delete"), None, delete("wh/t1/data/x"))
    assert "does not compare the body" in refused(answer)


def test_read_only_access_cannot_write(signed: Signed, t1: Table) -> None:
    url = signed.url("wh/t1/data/read")
    assert signed.run(t1, "PUT", url, None, "x").status == 200
    reader = signed.table("t1", {"x-frazil-access": "read"})
    assert signed.run(reader, "GET", url).body == "x"
    assert signed.run(reader, "GET", signed.url("", "list-type=2&prefix=wh%2Ft1%2F")).status == 200
    for method, query in (("PUT", ""), ("DELETE", ""), ("POST", "?uploads"), ("GET", "?uploadId=u")):
        assert "read-only" in refused(signed.sign(reader, method, url + query))
    assert "read-only" in refused(
        signed.sign(reader, "POST", signed.url("", "delete"), None, delete("wh/t1/data/read"))
    )
    # A client that sends the header to the signer itself is held to it as well.
    asked = {"region": "us-east-1", "uri": url, "method": "DELETE", "headers": {}}
    assert signed.ask("POST", t1.signer, asked, {"x-frazil-access": "read"}).status == 403


def test_the_spec_path_and_the_path_without_a_table(signed: Signed, t1: Table) -> None:
    def ask(path: str, method: str, key: str, body: str | None = None) -> Answer:
        url = signed.url(key) if key else signed.url("", "delete")
        wanted: dict[str, Any] = {"region": "x", "uri": url, "method": method, "headers": {}}
        return signed.ask("POST", f"{signed.uri}{path}", wanted | ({"body": body} if body else {}))

    for path in ("/namespaces/a/tables/t1/sign", "/v1/aws/s3/sign"):
        assert ask(path, "PUT", "wh/t1/data/x").status == 200
        for key in ("wh/t2/x", "wh/x", "outside", "wh/t1/../t10/x", "wh/t1"):
            refused(ask(path, "PUT", key))
    signed.table("t10")
    assert ask("/v1/aws/s3/sign", "GET", "wh/t10/x").status == 200
    refused(ask("/namespaces/a/tables/t1/sign", "GET", "wh/t10/x"))
    refused(ask("/v1/aws/s3/sign", "POST", "", delete("wh/t1/x", "wh/t10/x")))
    assert ask("/namespaces/a/tables/none/sign", "GET", "wh/none/x").status == 404


def test_a_staged_table_can_be_written_before_it_is_there(signed: Signed, t1: Table) -> None:
    location = f"s3://{BUCKET}/wh/staged"
    body = {"name": "staged", "schema": SCHEMA, "location": location, "stage-create": True}
    answer = signed.ask("POST", f"{signed.uri}/namespaces/a/tables", body, SIGNING)
    staged = Table("staged", answer.body["config"])
    assert signed.run(staged, "PUT", signed.url("wh/staged/data/x"), None, "early").status == 200
    refused(signed.sign(staged, "PUT", signed.url("wh/t1/data/x")))
    forged = Table(
        "forged",
        {
            **staged.config,
            "signer.endpoint": staged.config["signer.endpoint"][:-30] + "A" * 5 + "/v1/aws/s3/sign",
        },
    )
    assert signed.sign(forged, "PUT", signed.url("wh/staged/data/x")).status in (403, 404)
    # Somebody else's table lies there by now: above or below it nothing is signed.
    body = {"name": "above", "schema": SCHEMA, "location": f"{location}/below"}
    assert call("POST", f"{signed.uri}/namespaces/a/tables", body)[0] == 200
    assert signed.sign(staged, "PUT", signed.url("wh/staged/below/x")).status == 409
    assert call("DELETE", f"{signed.uri}/namespaces/a/tables/above")[0] == 204
    created = signed.table("staged")
    assert signed.run(created, "GET", signed.url("wh/staged/data/x")).body == "early"
    assert signed.run(staged, "GET", signed.url("wh/staged/data/x")).body == "early"


def test_a_warehouse_that_does_not_sign(signed: Signed, t1: Table) -> None:
    body = {"warehouse-name": "unsigned", **storage(signed.store, **{"key-prefix": "unsigned"})}
    body["storage-profile"]["remote-signing-enabled"] = False
    status, answer = call("POST", f"{signed.server.management_uri}/warehouse", body)
    assert status == 201, answer
    other = Signed(signed.server, signed.store, "unsigned", answer["id"])
    call("POST", f"{other.uri}/namespaces", {"namespace": ["a"]})
    call("POST", f"{other.uri}/namespaces/a/tables", {"name": "t", "schema": SCHEMA})
    loaded = other.ask("GET", f"{other.uri}/namespaces/a/tables/t", None, SIGNING)
    assert not any("sign" in name for name in loaded.body["config"])
    wanted = {"region": "x", "uri": signed.url("unsigned/x"), "method": "GET", "headers": {}}
    refused(other.ask("POST", f"{other.uri}/namespaces/a/tables/t/sign", wanted), "RemoteSigningDisabled")
    # The id of one warehouse's table says nothing in another.
    path = t1.signer.replace(signed.warehouse_id, other.warehouse_id)
    assert other.ask("POST", path, wanted).status == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"region": "x", "uri": "u", "method": "GET"},
        {"region": "x", "uri": "u", "method": "GET", "headers": {"a": "b"}},
        {"region": "x", "uri": 1, "method": "GET", "headers": {}},
        {"region": "x", "uri": "u", "method": "POST", "headers": {}, "body": "\ud800"},
    ],
)
def test_a_body_that_is_no_sign_request(signed: Signed, t1: Table, body: dict[str, Any]) -> None:
    assert signed.ask("POST", t1.signer, body).status == 400


@pytest.mark.parametrize("delegation", [None, "client-managed", "vended-credentials"])
def test_signing_is_for_those_who_ask(signed: Signed, t1: Table, delegation: str | None) -> None:
    """A client that has keys of its own would use signing in their place."""
    headers = {"x-iceberg-access-delegation": delegation} if delegation else {}
    answer = signed.ask("GET", f"{signed.uri}/namespaces/a/tables/t1", None, headers)
    assert not any("sign" in name for name in answer.body["config"])
    both = {"x-iceberg-access-delegation": "vended-credentials,remote-signing"}
    answer = signed.ask("GET", f"{signed.uri}/namespaces/a/tables/t1", None, both)
    assert answer.body["config"]["s3.remote-signing-enabled"] == "true"
