"""Requests that nobody should send: each gets a 4xx in the spec's shape, and changes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.catalog.api.client import (
    Answer,
    Json,
    add_snapshot,
    column,
    identifier,
    schema,
    set_properties,
    set_ref,
    view_version,
)
from tests.catalog.api.victim import NS, Victim

NAMESPACES = "/namespaces"
TABLES = "/namespaces/ns/tables"
TABLE = "/namespaces/ns/tables/t"
VIEWS = "/namespaces/ns/views"
VIEW = "/namespaces/ns/views/v"
PROPERTIES = "/namespaces/ns/properties"
POSTS = [
    NAMESPACES,
    PROPERTIES,
    TABLES,
    TABLE,
    TABLE + "/metrics",
    "/namespaces/ns/register",
    "/namespaces/ns/register-view",
    "/tables/rename",
    "/transactions/commit",
    VIEWS,
    VIEW,
    "/views/rename",
]


@dataclass
class Nasty:
    """One bad request and what the answer must say."""

    path: str
    body: Any = None
    words: tuple[str, ...] = ()
    status: tuple[int, ...] = (400,)
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)


def check(victim: Victim, nasty: Nasty) -> Answer:
    before = victim.everything()
    answer = victim.catalog.send(nasty.method, nasty.path, nasty.body, nasty.headers)
    assert answer.status in nasty.status, f"{answer.status}: {answer.body[:500]!r}"
    if nasty.method != "HEAD":
        message = answer.error()["message"]
        for word in nasty.words:
            assert word in message, message
        assert len(message) < 5000, "an error must not throw a large body back"
    assert victim.everything() == before
    return answer


def short(value: Any) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
    return ascii(text[:40])


# --- Bodies that are no JSON object, at every endpoint that takes one ---

NOT_JSON: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \r\n",
    "null": b"null",
    "list": b"[]",
    "text": b'"x"',
    "number": b"1",
    "open": b"{",
    "crossed": b"{]",
    "two": b"{}{}",
    "trailing": b"{},",
    "comment": b"{/* */}",
    "single quotes": b"{'namespace': ['a']}",
    "bare key": b"{namespace: 1}",
    "bom": b"\xef\xbb\xbf{}",
    "utf-16": '{"namespace": ["a"]}'.encode("utf-16"),
    "invalid utf-8": b'{"name": "\xff\xfe", "namespace": ["\xff"]}',
    "cut utf-8": b'{"name": "\xe2\x82"}',
    "raw control": b'{"name": "a\nb"}',
    "bad escape": b'{"name": "\\x"}',
    "cut escape": b'{"name": "\\u12"}',
    "NaN": b'{"name": NaN}',
    "Infinity": b'{"name": Infinity}',
    "-Infinity": b'{"name": -Infinity}',
    "huge exponent": b'{"name": 1e999999999}',
    "leading zero": b'{"name": 01}',
    "deep lists": b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep objects": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "only brackets": b"[" * 1_000_000,
    "form": b"name=x&namespace=y",
    "xml": b"<name>x</name>",
    "nul bytes": b"\x00" * 100,
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_bodies_that_are_no_json_object(victim: Victim, name: str) -> None:
    before = victim.everything()
    for path in POSTS:
        answer = victim.catalog.send("POST", path, NOT_JSON[name])
        answer.refused(400, "BadRequestException")
        assert len(answer.body) < 5000
    assert victim.everything() == before


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/json",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "json",
        "*/*",
    ],
)
def test_other_content_types(victim: Victim, media_type: str) -> None:
    """A browser can send some of these to another site without asking, so they must do nothing."""
    before = victim.everything()
    for path in POSTS:
        headers = {"Content-Type": media_type}
        answer = victim.catalog.send("POST", path, b'{"namespace":["x"],"name":"x"}', headers)
        answer.refused(400, None, "Content-Type")
    assert victim.everything() == before


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


# --- Numbers ---

NUMBERS = [
    "1.0",
    "1.5",
    "1e2",
    "1e400",
    "-1e400",
    "2147483648",
    "-2147483649",
    "9" * 30,
    "9" * 5000,
    '"1"',
    "true",
    "-0.0",
]


@pytest.mark.parametrize("number", NUMBERS, ids=short)
def test_numbers_that_do_not_fit(victim: Victim, number: str) -> None:
    text = json.dumps({"name": "x", "schema": schema(column(12345, "id"))}).replace("12345", number)
    check(victim, Nasty(TABLES, text.encode()))
    large = number if number != "2147483648" else str(2**63)
    large = large if number != "-2147483649" else str(-(2**63) - 1)
    commit = {"requirements": [], "updates": [add_snapshot(12345, **{"sequence-number": 2})]}
    check(victim, Nasty(TABLE, json.dumps(commit).replace("12345", large).encode()))


def test_field_ids_at_the_edge(victim: Victim) -> None:
    """Legal in a create request, where ids are counted afresh, but not in add-schema."""
    for number in (2**31 - 1, 2**31 - 200):
        update = {"action": "add-schema", "schema": schema(column(number, "x"))}
        check(victim, Nasty(TABLE, {"requirements": [], "updates": [update]}, ("updates[0]", str(number))))


# --- Contents that contradict themselves ---

CREATES: dict[str, tuple[Json, str]] = {
    "two fields with one id": ({"schema": schema(column(1, "a"), column(1, "b"))}, "id"),
    "two fields with one name": ({"schema": schema(column(1, "a"), column(2, "a"))}, "name"),
    "dotted twin": (
        {"schema": schema(column(1, "a.b"), column(2, "a", {"type": "struct", "fields": [column(3, "b")]}))},
        "name",
    ),
    "no such type": ({"schema": schema(column(1, "a", "varchar(3)"))}, "type"),
    "type in capitals": ({"schema": schema(column(1, "a", "LONG"))}, "type"),
    "decimal too wide": ({"schema": schema(column(1, "a", "decimal(39,2)"))}, "decimal"),
    "decimal scale": ({"schema": schema(column(1, "a", "decimal(9,10)"))}, "decimal"),
    "fixed 0": ({"schema": schema(column(1, "a", "fixed[0]"))}, "fixed"),
    "fixed huge": ({"schema": schema(column(1, "a", "fixed[99999999999]"))}, "type"),
    "no such nested type": ({"schema": schema(column(1, "a", {"type": "set", "element": "int"}))}, "type"),
    "schema is a list": ({"schema": {"type": "list", "fields": []}}, "type"),
    "identifier not there": ({"schema": schema(column(1, "a"), **{"identifier-field-ids": [7]})}, "7"),
    "identifier optional": ({"schema": schema(column(1, "a"), **{"identifier-field-ids": [1]})}, "required"),
    "identifier double": (
        {"schema": schema(column(1, "a", "double", required=True), **{"identifier-field-ids": [1]})},
        "double",
    ),
    "partition source not there": (
        {"partition-spec": {"fields": [{"source-id": 9, "transform": "identity", "name": "p"}]}},
        "p",
    ),
    "partition name empty": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "identity", "name": ""}]}},
        "name",
    ),
    "partition without source": (
        {"partition-spec": {"fields": [{"transform": "identity", "name": "p"}]}},
        "source",
    ),
    "partition twice": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "identity", "name": "p"}] * 2}},
        "p",
    ),
    "transform of the wrong type": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "day", "name": "p"}]}},
        "day",
    ),
    "bucket 0": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "bucket[0]", "name": "p"}]}},
        "bucket",
    ),
    "bucket negative": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": "bucket[-1]", "name": "p"}]}},
        "bucket",
    ),
    "bucket huge": (
        {"partition-spec": {"fields": [{"source-id": 1, "transform": f"bucket[{10**30}]", "name": "p"}]}},
        "bucket",
    ),
    "sort source not there": (
        {
            "write-order": {
                "fields": [
                    {"source-id": 9, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
                ]
            }
        },
        "sort",
    ),
    "sort direction": (
        {
            "write-order": {
                "fields": [
                    {"source-id": 1, "transform": "identity", "direction": "up", "null-order": "nulls-first"}
                ]
            }
        },
        "direction",
    ),
    "previous versions": (
        {"properties": {"write.metadata.previous-versions-max": "many"}},
        "previous-versions-max",
    ),
    "retries": ({"properties": {"commit.retry.num-retries": "-1"}}, "commit.retry.num-retries"),
    "codec": ({"properties": {"write.metadata.compression-codec": "brotli"}}, "compression-codec"),
    "nul in a property": ({"properties": {"a": "b\x00c"}}, "NUL"),
    "nul in a key": ({"properties": {"a\x00": "b"}}, "NUL"),
    "nul in a column": ({"schema": schema(column(1, "a\x00b"))}, "NUL"),
}


@pytest.mark.parametrize("name", CREATES)
def test_tables_that_cannot_be(victim: Victim, name: str) -> None:
    more, word = CREATES[name]
    body = {"name": "new", "schema": schema(), **more}
    check(victim, Nasty(TABLES, body, (word,)))
    check(victim, Nasty(TABLES, {**body, "stage-create": True}, (word,)))


UPDATES: dict[str, tuple[Json, str]] = {
    "no action": ({}, "action"),
    "unknown action": ({"action": "explode"}, "explode"),
    "action in capitals": ({"action": "SET-PROPERTIES", "updates": {}}, "SET-PROPERTIES"),
    "action null": ({"action": None}, "action"),
    "action list": ({"action": ["set-properties"]}, "action"),
    "a view's action": (
        {"action": "set-current-view-version", "view-version-id": 1},
        "set-current-view-version",
    ),
    "other uuid": ({"action": "assign-uuid", "uuid": "11111111-2222-3333-4444-555555555555"}, "UUID"),
    "no uuid": ({"action": "assign-uuid", "uuid": "x"}, "UUID"),
    "format version 0": ({"action": "upgrade-format-version", "format-version": 0}, "0"),
    "format version 9": ({"action": "upgrade-format-version", "format-version": 9}, "9"),
    "schema not there": ({"action": "set-current-schema", "schema-id": 77}, "77"),
    "schema none added": ({"action": "set-current-schema", "schema-id": -1}, "-1"),
    "spec not there": ({"action": "set-default-spec", "spec-id": 77}, "77"),
    "spec none added": ({"action": "set-default-spec", "spec-id": -1}, "-1"),
    "order not there": ({"action": "set-default-sort-order", "sort-order-id": 77}, "77"),
    "current schema removed": ({"action": "remove-schemas", "schema-ids": [0]}, "current"),
    "default spec removed": ({"action": "remove-partition-specs", "spec-ids": [0]}, "default"),
    "snapshot twice": (add_snapshot(1), "snapshot 1"),
    "snapshot without list": (add_snapshot(2, **{"manifest-list": None}), "manifest-list"),
    "snapshot from the future": (add_snapshot(2, **{"timestamp-ms": 9 * 10**12}), "timestamp-ms"),
    "ref to nothing": (set_ref(99), "99"),
    "tag called main": (set_ref(1, "main", "tag"), "main"),
    "ref of no kind": (set_ref(1, "x", "twig"), "type"),
    "ref without name": (set_ref(1, ""), "ref-name"),
    "ref with age 0": (set_ref(1, "x", **Json({"max-ref-age-ms": 0})), "max-ref-age-ms"),
    "tag with snapshots": (set_ref(1, "x", "tag", **{"min-snapshots-to-keep": 1}), "min-snapshots-to-keep"),
    "reserved property": (set_properties(uuid="x"), "uuid"),
    "location empty": ({"action": "set-location", "location": ""}, "location"),
    "row lineage": ({"action": "enable-row-lineage"}, "row lineage"),
}


@pytest.mark.parametrize("name", UPDATES)
def test_updates_that_cannot_be(victim: Victim, name: str) -> None:
    update, word = UPDATES[name]
    updates = [set_properties(before="x"), update]
    if name == "snapshot from the future":
        updates.append(set_ref(2))
    check(victim, Nasty(TABLE, {"requirements": [], "updates": updates}, (word,)))
    change = {"identifier": identifier(NS, "t"), "requirements": [], "updates": updates}
    other = {"identifier": identifier(("ns", "Sub Ünter"), "v3"), "requirements": [], "updates": updates[:1]}
    check(victim, Nasty("/transactions/commit", {"table-changes": [other, change]}, (word,)))


@pytest.mark.parametrize(
    "requirement",
    [
        {},
        {"type": None},
        {"type": "assert-nothing"},
        {"type": "ASSERT-CREATE"},
        {"type": "assert-view-uuid", "uuid": "x"},
        {"type": ["assert-create"]},
        {"type": "assert-table-uuid"},
        {"type": "assert-current-schema-id"},
        "assert-create",
        None,
    ],
    ids=short,
)
def test_requirements_that_are_none(victim: Victim, requirement: Any) -> None:
    body = {"requirements": [requirement], "updates": [set_properties(x="y")]}
    check(victim, Nasty(TABLE, body, ("requirements[0]",)))
    change = {"identifier": identifier(NS, "t"), **body}
    check(
        victim,
        Nasty("/transactions/commit", {"table-changes": [change]}, ("table-changes[0]", "requirements[0]")),
    )
    check(
        victim, Nasty(VIEW, {"requirements": [requirement], "updates": []}, ("requirements",))
    ) if requirement != {
        "type": "assert-view-uuid",
        "uuid": "x",
    } else None


def test_assert_create_goes_alone(victim: Victim) -> None:
    both = [{"type": "assert-create"}, {"type": "assert-current-schema-id", "current-schema-id": 0}]
    body = {"requirements": both, "updates": []}
    check(victim, Nasty("/namespaces/ns/tables/new", body, ("assert-create",)))


# --- Size ---


def test_ten_megabytes_of_nonsense(victim: Victim) -> None:
    text = "x" * 10_000_000
    for path, body in (
        (NAMESPACES, {"namespace": [text]}),
        (NAMESPACES, {"namespace": ["a"] * 2_000_000}),
        (TABLES, {"name": text, "schema": schema()}),
        (TABLES, {"name": "x", "schema": {"type": text, "fields": []}}),
        (TABLES, {"name": "x", "schema": schema(column(1, "a", text))}),
        (TABLE, {"requirements": [], "updates": [{"action": text}]}),
        (TABLE, {"requirements": [], "updates": [{"action": "explode"}] * 400_000}),
        (TABLE, {"requirements": [{"type": "assert-table-uuid", "uuid": 5}] * 200_000, "updates": []}),
        ("/transactions/commit", {"table-changes": [{}] * 2_000_000}),
        (TABLE, {"requirements": [], "updates": [{"action": "set-location", "location": text}]}),
        (TABLE, {"requirements": [], "updates": [{"action": "assign-uuid", "uuid": text}]}),
        (VIEWS, {"name": "x", "schema": schema(), "view-version": text}),
    ):
        check(victim, Nasty(path, body))


@pytest.mark.parametrize("chunked", [False, True])
def test_thirty_three_megabytes(victim: Victim, chunked: bool) -> None:
    before = victim.everything()
    size = 33 * 1024 * 1024
    head = (
        f"POST {victim.catalog.root}{NAMESPACES} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\n"
    ).encode()
    if chunked:
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        request = head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 33 + b"0\r\n\r\n"
    else:
        request = head + f"Content-Length: {size}\r\n\r\n".encode() + b" " * size
    victim.catalog.client.raw(request).refused(413, "PayloadTooLarge", str(32 * 1024 * 1024))
    assert victim.everything() == before


def test_just_under_the_limit_is_read(victim: Victim) -> None:
    body = b'{"namespace": 5}' + b" " * (32 * 1024 * 1024 - 20)
    check(victim, Nasty(NAMESPACES, body, ("namespace",)))


def test_wide_schemas_with_a_fault(victim: Victim) -> None:
    fields = [column(number, f"c{number}") for number in range(5000)]
    for fault in (column(7, "twin"), column(9999, "c7"), column(9999, "x", "nonsense")):
        check(victim, Nasty(TABLES, {"name": "wide", "schema": schema(*fields, fault)}))


def nested(depth: int) -> Any:
    kind: Any = "long"
    for number in range(depth):
        kind = {"type": "struct", "fields": [column(number + 2, "f", kind)]}
    return kind


@pytest.mark.parametrize("depth", [400, 2000, 50_000])
def test_deep_schemas(victim: Victim, depth: int) -> None:
    opening = b'{"type":"struct","fields":[{"id":1,"name":"f","required":false,"type":'
    deep = opening * depth + b'"long"' + b"}]}" * depth
    check(victim, Nasty(TABLES, b'{"name":"x","schema":' + deep + b"}"))
    update = b'{"requirements":[],"updates":[{"action":"add-schema","schema":' + deep + b"}]}"
    check(victim, Nasty(TABLE, update))


def test_deep_things_that_nobody_looks_at(victim: Victim) -> None:
    """Unknown fields are kept, so their depth counts too."""
    deep = b"[" * 5000 + b"]" * 5000
    check(victim, Nasty(NAMESPACES, b'{"namespace":["x"],"unknown":' + deep + b"}", ("nested",)))


# --- Keys given twice ---


@pytest.mark.parametrize(
    "body", [b'{"namespace":["x"],"namespace":5}', b'{"namespace":["x"],"namespace":[]}']
)
def test_the_last_of_two_keys_counts(victim: Victim, body: bytes) -> None:
    check(victim, Nasty(NAMESPACES, body, ("namespace",)))


def test_twin_keys_mean_one_thing_to_all(victim: Victim) -> None:
    """A checker that reads the first and a writer that reads the last would let anything through."""
    for first, last in (("file:///tmp/x", "%"), ("x", "file:///etc")):
        body = f'{{"name":"x","location":"{first}","location":"{last}","schema":{json.dumps(schema())}}}'
        check(victim, Nasty(TABLES, body.encode(), ("location",)))
    update = b'{"requirements":[],"updates":[{"action":"set-properties","updates":{},"action":"explode"}]}'
    check(victim, Nasty(TABLE, update, ("explode",)))


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
    assert len(answer.headers["x-request-id"]) == 16
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


# --- Accepted, though large ---


def test_five_thousand_columns_are_no_problem(victim: Victim) -> None:
    import time

    fields = [column(number, f"c{number}", "string") for number in range(5000)]
    started = time.monotonic()
    catalog = victim.catalog
    created = catalog.create_table(NS, "wide", schema=schema(*fields)).ok()["metadata"]
    assert created["last-column-id"] == 5000
    more = [*created["schemas"][0]["fields"], column(5001, "more")]
    changed = catalog.commit(
        NS,
        "wide",
        {"action": "add-schema", "schema": schema(*more)},
        {"action": "set-current-schema", "schema-id": -1},
    ).ok()["metadata"]
    assert len(changed["schemas"][1]["fields"]) == 5001
    assert catalog.load(NS, "wide").ok()["metadata"] == changed
    seconds = time.monotonic() - started
    print(f"5,000 columns: create, commit and load in {seconds:.2f} s")
    assert seconds < 10
    catalog.send("DELETE", "/namespaces/ns/tables/wide").ok(204)


def test_nesting_that_is_legal_is_accepted(victim: Victim) -> None:
    catalog = victim.catalog
    created = catalog.create_table(NS, "deep", schema=schema(column(1, "top", nested(60)))).ok()["metadata"]
    assert created["last-column-id"] == 61
    assert catalog.load(NS, "deep").ok()["metadata"] == created
    catalog.send("DELETE", "/namespaces/ns/tables/deep").ok(204)


def test_ten_megabytes_that_are_legal(victim: Victim) -> None:
    catalog = victim.catalog
    text = "é🧊" * 1_500_000
    created = catalog.create_table(NS, "large", properties={"text": text}).ok()["metadata"]
    assert created["properties"]["text"] == text
    assert catalog.load(NS, "large").ok()["metadata"] == created
    catalog.send("DELETE", "/namespaces/ns/tables/large").ok(204)
