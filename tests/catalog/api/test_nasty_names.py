"""Names, paths, queries, methods and headers that nobody should send: a 4xx each, and nothing changes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.catalog.api.client import (
    Json,
    identifier,
    schema,
    view_version,
)
from tests.catalog.api.nasty import (
    NAMESPACES,
    TABLE,
    TABLES,
    VIEWS,
    Nasty,
    check,
    short,
)
from tests.catalog.api.victim import NS, Victim

# --- Names ---

LONE = "\\ud800"
BAD_NAMES: dict[str, str] = {
    "empty": "",
    "nul": "a\x00b",
    "newline": "a\nb",
    "carriage return": "a\r\nX-Evil: 1",
    "tab": "a\tb",
    "escape": "\x1b[31m",
    "separator": "a\x1fb",
    "delete": "a\x7f",
    "c1 control": "a\x85b",
    "1 KB": "x" * 1024,
    "256": "x" * 256,
    "1 MB": "x" * 1_000_000,
    "10 MB": "é" * 5_000_000,
    "wide and long": "🧊" * 250,
    "lone surrogate": "\ud800",
    "reversed surrogates": "\udc00\ud800",
}


def name_bodies(name: str) -> list[tuple[str, Json, str]]:
    here, view = identifier(NS, "t"), {"schema": schema(), "view-version": view_version()}
    return [
        (NAMESPACES, {"namespace": [name]}, "namespace"),
        (NAMESPACES, {"namespace": ["ns", name]}, "namespace"),
        (TABLES, {"name": name, "schema": schema()}, "name"),
        (VIEWS, {"name": name, **view, "properties": {}}, "name"),
        ("/namespaces/ns/register", {"name": name, "metadata-location": "x"}, "name"),
        ("/namespaces/ns/register-view", {"name": name, "metadata-location": "x"}, "name"),
        ("/tables/rename", {"source": here, "destination": identifier(NS, name)}, "destination"),
        ("/tables/rename", {"source": here, "destination": identifier([name], "x")}, "destination"),
        ("/tables/rename", {"source": identifier([name], "t"), "destination": here}, "source"),
        (
            "/views/rename",
            {"source": identifier(NS, "v"), "destination": identifier(NS, name)},
            "destination",
        ),
        (
            "/transactions/commit",
            {"table-changes": [{"identifier": identifier(NS, name), "requirements": [], "updates": []}]},
            "table-changes[0].identifier",
        ),
    ]


@pytest.mark.parametrize("kind", BAD_NAMES)
def test_names_that_are_none(victim: Victim, kind: str) -> None:
    before = victim.everything()
    for path, body, word in name_bodies(BAD_NAMES[kind]):
        if kind == "wide and long" and '"name"' not in json.dumps(body)[:7] and "namespace" not in word:
            continue
        answer = victim.catalog.send("POST", path, body)
        if kind == "wide and long":
            assert answer.status < 500, answer.body
            continue
        message = answer.refused(400)
        assert word in message or "JSON" in message or "NUL" in message or "surrogate" in message, message
        assert len(message) < 5000
        assert not any(char in message for char in "\n\r\x00\x1b\x85"), message
        message.encode()
    if kind != "wide and long":
        assert victim.everything() == before


@pytest.mark.parametrize(
    "levels",
    [[], [""], ["a", ""], ["", "a"], ["x"] * 33, ["é" * 200] * 3, ["x" * 255] * 4, [["x"]], ["x", None], [1]],
    ids=short,
)
def test_namespaces_that_are_none(victim: Victim, levels: Any) -> None:
    check(victim, Nasty(NAMESPACES, {"namespace": levels}, ("namespace",)))


BAD_SEGMENTS = [
    b"%00",
    b"a%00b",
    b"%ff",
    b"%c3%28",
    b"%ed%a0%80",
    b"%0a",
    b"%0d%0aX-Evil:%201",
    b"%1F",
    b"a%1F",
    b"%1Fa",
    b"a%1F%1Fb",
    b"%7f",
    b"%C2%85",
    b"x" * 1024,
    b"%f0%9f%a7%8a" * 300,
    b"%zz",
    b"%",
    b"%2",
    b"%%",
    b"%u0041",
    b"..",
    b"%2e%2e",
    b"..%2f..%2fetc",
    b"%2F",
    b"a%2Fb",
    b"%5c",
    b"'%20OR%20''='",
    b"%27%3B%20DROP%20TABLE%20tabular%3B--",
    b"$1",
    b"*",
    b"<script>",
]


@pytest.mark.parametrize("part", BAD_SEGMENTS, ids=short)
def test_paths_that_lead_nowhere(victim: Victim, part: bytes) -> None:
    before = victim.everything()
    root = victim.catalog.root.encode()
    targets = [
        (root + b"/namespaces/" + part, (b"GET", b"HEAD", b"DELETE")),
        (root + b"/namespaces/" + part + b"/tables", (b"GET",)),
        (root + b"/namespaces/" + part + b"/tables/t", (b"GET", b"HEAD", b"DELETE")),
        (root + b"/namespaces/ns/tables/" + part, (b"GET", b"HEAD", b"DELETE")),
        (root + b"/namespaces/ns/views/" + part, (b"GET", b"HEAD", b"DELETE")),
        (b"/catalog/v1/" + part + b"/namespaces", (b"GET",)),
        (b"/catalog/" + part, (b"GET",)),
        (b"/" + part, (b"GET", b"POST", b"DELETE")),
        (b"/docs/" + part, (b"GET",)),
    ]
    for target, methods in targets:
        for method in methods:
            answer = victim.catalog.client.raw_get(target, method)
            assert answer.status in (400, 404), (method, target, answer)
            if method != b"HEAD" and answer.headers.get("content-type") == "application/json":
                answer.error()
            assert "x-evil" not in answer.headers
    assert victim.everything() == before


def test_bodies_for_paths_that_lead_nowhere(victim: Victim) -> None:
    before = victim.everything()
    root = victim.catalog.root
    for part in ("%00", "%ff", "%1F", "a%0ab", "x" * 1024, "%ed%a0%80"):
        for path, body in (
            (f"{root}/namespaces/{part}/tables", {"name": "x", "schema": schema()}),
            (f"{root}/namespaces/{part}/properties", {"updates": {"a": "b"}}),
            (f"{root}/namespaces/ns/tables/{part}", {"requirements": [], "updates": []}),
            (
                f"{root}/namespaces/ns/tables/{part}",
                {"requirements": [{"type": "assert-create"}], "updates": []},
            ),
            (f"{root}/namespaces/ns/views/{part}", {"updates": []}),
            (f"{root}/namespaces/ns/tables/{part}/metrics", {"report-type": "x"}),
        ):
            answer = victim.catalog.client.send("POST", path, body)
            assert answer.status in (400, 404), (path, answer)
            answer.error()
    assert victim.everything() == before


BAD_QUERIES = [
    b"/namespaces?parent=%00",
    b"/namespaces?parent=a%1F",
    b"/namespaces?parent=%ff",
    b"/namespaces?parent=" + b"x" * 5000,
    b"/namespaces?parent=%ed%a0%80",
    b"/namespaces?pageToken=%00",
    b"/namespaces?pageToken=%ff%fe",
    b"/namespaces?pageSize=NaN",
    b"/namespaces?pageSize=1&pageSize=x",
    b"/namespaces?pageSize=" + b"9" * 5000,
    b"/namespaces/ns/tables?pageSize=-5",
    b"/namespaces/ns/views?pageToken=*",
    b"/namespaces/ns/tables/t?snapshots=%00",
    b"/namespaces/ns/tables/t?snapshots=ALL",
    b"/namespaces/ns/tables/t?snapshots=",
]


@pytest.mark.parametrize("query", BAD_QUERIES, ids=short)
def test_queries_that_mean_nothing(victim: Victim, query: bytes) -> None:
    before = victim.everything()
    answer = victim.catalog.client.raw_get(victim.catalog.root.encode() + query)
    assert answer.status in (400, 404), answer
    answer.error()
    assert victim.everything() == before


@pytest.mark.parametrize("value", ["maybe", "", "2", "%00", "null"])
def test_purges_that_are_neither(victim: Victim, value: str) -> None:
    check(victim, Nasty(f"{TABLE}?purgeRequested={value}", None, ("purgeRequested",), method="DELETE"))


@pytest.mark.parametrize(
    "target", [b"/\xff\xfe", b"/catalog/v1/config?warehouse=\xff", b"/a b", b"//", b"", b"*"]
)
def test_targets_that_are_not_http(victim: Victim, target: bytes) -> None:
    """Below the level of the API, an answer need not have its shape."""
    answer = victim.catalog.client.raw_get(target)
    assert 400 <= answer.status < 500, answer
    victim.catalog.send("GET", NAMESPACES).ok()


# --- Methods ---


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "QUERY", "POST", "DELETE"])
def test_methods_that_are_not_offered(victim: Victim, method: str) -> None:
    before = victim.everything()
    for path in ("/health", "/metrics", "/catalog/v1/config"):
        answer = victim.catalog.client.send(method, path)
        if method == "QUERY" and answer.status == 400:
            continue  # the HTTP parser does not know it
        answer.refused(405, "MethodNotAllowed", method, path)
        assert answer.headers["allow"] == "GET"
    for path, allowed in (
        (NAMESPACES, "GET, POST"),
        ("/namespaces/ns", "DELETE, GET, HEAD"),
        (TABLE, "DELETE, GET, HEAD, POST"),
        ("/tables/rename", "POST"),
    ):
        if method in allowed:
            continue
        answer = victim.catalog.send(method, path)
        if method == "QUERY" and answer.status == 400:
            continue
        answer.refused(405, "MethodNotAllowed")
        assert answer.headers["allow"] == allowed
    assert victim.everything() == before


def test_a_body_on_get_is_not_read(victim: Victim) -> None:
    before = victim.everything()
    answer = victim.catalog.send("GET", "/namespaces/ns", b'{"updates": {"a": "b"}}' * 1000)
    assert answer.ok()["namespace"] == ["ns"]
    assert victim.catalog.send("HEAD", TABLE, b"\xff" * 10).status == 204
    victim.catalog.send("GET", NAMESPACES).ok()
    assert victim.everything() == before


# --- Headers ---


@pytest.mark.parametrize("given", ["abc", "A-b_c.d:1", "x" * 128, "0"])
def test_a_harmless_request_id_comes_back(victim: Victim, given: str) -> None:
    answer = victim.catalog.send("GET", NAMESPACES, headers={"x-request-id": given})
    assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize(
    "given", [b"", b"x" * 129, b"a b", b'a"b', b"a\\nb", b"\xc3\xa9", b"<x>", b"a;b", b"%0a", b"{}"]
)
def test_other_request_ids_do_not(victim: Victim, given: bytes) -> None:
    root = victim.catalog.root.encode()
    answer = victim.catalog.client.raw_get(root + b"/namespaces", headers=b"x-request-id: " + given + b"\r\n")
    answer.ok()
    assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]+", answer.headers["x-request-id"])
    assert answer.headers["x-request-id"] != given.decode("latin-1")


def test_every_answer_has_an_id_of_its_own(victim: Victim) -> None:
    ids = {
        victim.catalog.client.send("GET", path).headers["x-request-id"] for path in ("/health", "/none", "/x")
    }
    assert len(ids) == 3


@pytest.mark.parametrize(
    "header",
    [
        b"If-None-Match: \xff\xfe",
        b"If-None-Match: " + b'"x",' * 1000,
        b"X-Iceberg-Access-Delegation: \x80\x81",
        b"X-Iceberg-Access-Delegation: " + b"vended-credentials," * 500,
        b"Content-Type: \xff",
        b'Host: evil"<script>',
        b"Host: ",
        b"x-project-id: \xff",
        b"x-project-id: " + b"x" * 5000,
    ],
    ids=short,
)
def test_strange_headers_break_nothing(victim: Victim, header: bytes) -> None:
    before = victim.everything()
    root = victim.catalog.root.encode()
    for target in (root + b"/namespaces/ns/tables/t", b"/catalog/v1/config"):
        answer = victim.catalog.client.raw_get(target, headers=header + b"\r\n")
        assert answer.status < 500, answer
    assert victim.everything() == before


@pytest.mark.parametrize("site", ["cross-site", "same-site", "weird"])
def test_pages_of_other_sites_change_nothing(victim: Victim, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}
    body = {"namespace": ["x"]}
    check(victim, Nasty(NAMESPACES, body, ("sites",), (403,), headers=headers))
    check(victim, Nasty(TABLE, None, ("sites",), (403,), "DELETE", headers))


def test_an_etag_does_not_carry_what_the_caller_sent(victim: Victim) -> None:
    answer = victim.catalog.load(NS, "t", {"X-Iceberg-Access-Delegation": 'x"y'})
    assert answer.headers["etag"].count('"') == 2


def test_a_page_that_was_pointed_at_this_machine_is_refused(victim: Victim) -> None:
    """DNS rebinding: the browser believes that the page and this server are of one origin."""
    path = victim.catalog.root.encode() + b"/namespaces"
    request = b"GET " + path + b" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    victim.catalog.client.raw(request).refused(403, "ForbiddenException", "Host")
