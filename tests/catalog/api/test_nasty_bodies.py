"""Bodies that are no JSON, too large, too deep, or with keys given twice: a 4xx each, and nothing changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.api.client import (
    column,
    schema,
)
from tests.catalog.api.nasty import (
    NAMESPACES,
    POSTS,
    TABLE,
    TABLES,
    VIEWS,
    Nasty,
    check,
)
from tests.catalog.api.victim import NS, Victim

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
        f"POST {victim.catalog.root}{NAMESPACES} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nConnection: close\r\n"
    ).encode()
    if chunked:
        piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        request = head + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 33 + b"0\r\n\r\n"
    else:
        request = head + f"Content-Length: {size}\r\n\r\n".encode() + b" " * size
    victim.catalog.client.raw(request).refused(413, "PayloadTooLarge", str(32 * 1024 * 1024))
    assert victim.everything() == before


def test_who_still_sends_sees_the_answer(victim: Victim) -> None:
    """A connection that is closed while something comes in is reset, and the answer may be lost."""
    size = 33 * 1024 * 1024
    head = (
        f"POST {victim.catalog.root}{NAMESPACES} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
    rest = b" " * 0x40000
    answer = victim.catalog.client.raw(head + b" " * (size - 2 * len(rest)), rest, rest)
    answer.refused(413, "PayloadTooLarge", str(32 * 1024 * 1024))


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


# --- Accepted, though large ---


def computed(pid: int) -> float:
    """For how many seconds a process has computed, in user and in system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_five_thousand_columns_are_no_problem(victim: Victim) -> None:
    fields = [column(number, f"c{number}", "string") for number in range(5000)]
    # The time that it computes: the time on the clock is also that of all others on this machine.
    before = computed(victim.server.pid)
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
    seconds = computed(victim.server.pid) - before
    print(f"5,000 columns: create, commit and load in {seconds:.2f} s of computing")
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
