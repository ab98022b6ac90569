"""No table outside its warehouse, and none inside another."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.catalog.api.client import Answer, Catalog, Json

Levels = tuple[str, ...]

OUTSIDE = [
    "{base}",
    "{base}/",
    "{base}/..",
    "{base}/../x",
    "{base}/x/../../../x",
    "{base}/./x",
    "{base}/x/.",
    "{base}/%2e%2e/x",
    "{base}/%2E%2e/x",
    "{base}/%252e%252e/x",
    "{base}/x%2fy",
    "{base}/x\\..\\y",
    "{base}//x",
    "{base}x",
    "{base}2/x",
    "{base}/x?y",
    "{base}/x#y",
    "{base}/x\ty",
    "{base}/x\x7fy",
    "file:///tmp/elsewhere",
    "file:///",
    "file://",
    "file:",
    "file://host/tmp/x",
    "/tmp/elsewhere",
    "/",
    "relative/path",
    "s3://bucket/x",
    "s3a://bucket/x",
    "hdfs://name/x",
    "http://example.org/x",
    "javascript:alert(1)",
    "",
    " ",
    "\u202efile:///x",
    "{base}/" + "x" * 5000,
]


@pytest.fixture
def base(catalog: Catalog, ns: Levels) -> str:
    """The location of the warehouse."""
    location: str = catalog.create_table(ns, "probe").ok()["metadata"]["location"]
    return location.rpartition("/")[0]


def refused(answer: Answer, field: str) -> None:
    assert 400 <= answer.status < 500, answer.body
    assert field in answer.error()["message"], answer.body


@pytest.mark.parametrize("location", OUTSIDE)
def test_locations_outside_the_warehouse(catalog: Catalog, ns: Levels, base: str, location: str) -> None:
    location = location.format(base=base)
    files = set(Path(base.removeprefix("file://")).parent.rglob("*"))
    refused(catalog.create_table(ns, "t", location=location), "location")
    refused(catalog.create_view(ns, "t", location=location), "location")
    move: Json = {"action": "set-location", "location": location}
    refused(catalog.commit(ns, "probe", move), "location")
    refused(
        catalog.send("POST", catalog.namespace_path(ns, "properties"), {"updates": {"location": location}}),
        "location",
    )
    refused(
        catalog.send("POST", "/namespaces", {"namespace": [*ns, "x"], "properties": {"location": location}}),
        "location",
    )
    catalog.load(ns, "t").refused(404)
    catalog.load(ns, "probe").ok()
    assert set(Path(base.removeprefix("file://")).parent.rglob("*")) == files


@pytest.mark.parametrize("kind", ["table", "view"])
@pytest.mark.parametrize("relation", ["equal", "equal/", "inside", "deep inside", "above", "far above"])
def test_tables_do_not_nest(catalog: Catalog, ns: Levels, base: str, relation: str, kind: str) -> None:
    root = f"{base}/{ns[0]}"
    there = f"{root}/a/b"
    catalog.create_table(ns, "t", location=there).ok()
    wanted = {
        "equal": there,
        "equal/": there + "/",
        "inside": f"{there}/c",
        "deep inside": f"{there}/data/c/d/e",
        "above": f"{root}/a",
        "far above": root,
    }[relation]
    create = catalog.create_table if kind == "table" else catalog.create_view
    create(ns, "u", location=wanted).refused(409, "LocationAlreadyTaken", wanted.rstrip("/"))
    move: Json = {"action": "set-location", "location": wanted}
    if kind == "table":
        catalog.commit(ns, "probe", move).refused(409, "LocationAlreadyTaken")
    catalog.load(ns, "u").refused(404)


def test_neighbours_are_no_relatives(catalog: Catalog, ns: Levels, base: str) -> None:
    root = f"{base}/{ns[0]}"
    for number, name in enumerate(("a", "ab", "a0", "a-b", "a.b", "a_", "b/a", "B/ab", "é", "É")):
        catalog.create_table(ns, f"t{number}", location=f"{root}/{name}").ok()


def test_case_alone_does_not_keep_tables_apart(catalog: Catalog, ns: Levels, base: str) -> None:
    """Some stores take a session for one of them for a session for the other."""
    root = f"{base}/{ns[0]}"
    catalog.create_table(ns, "t", location=f"{root}/Some/Place").ok()
    for name in ("some/place", "SOME/place/below", "sOME"):
        answer = catalog.create_table(ns, "u", location=f"{root}/{name}")
        answer.refused(409, "LocationAlreadyTaken", "case does not count")


def test_a_freed_location_can_be_used_again(catalog: Catalog, ns: Levels, base: str) -> None:
    where = f"{base}/{ns[0]}/again"
    catalog.create_table(ns, "t", location=where).ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    catalog.create_table(ns, "u", location=where).ok()


def test_a_table_may_move_within_the_warehouse(catalog: Catalog, ns: Levels, base: str) -> None:
    where = f"{base}/{ns[0]}/moved"
    moved = catalog.commit(ns, "probe", {"action": "set-location", "location": where + "/"}).ok()
    assert moved["metadata"]["location"] == where
    assert moved["metadata-location"].startswith(where + "/metadata/00001-")
    catalog.create_table(ns, "t", location=where).refused(409)


def test_where_a_table_was_stays_taken(catalog: Catalog, ns: Levels, base: str) -> None:
    """Its older files lie there: whoever got the place could read them, and delete them with a purge."""
    old, new = f"{base}/{ns[0]}/old", f"{base}/{ns[0]}/new"
    catalog.create_table(ns, "t", location=old).ok()
    move: Json = {"action": "set-location", "location": new}
    catalog.commit(ns, "t", move).ok()
    generic = f"/lakekeeper/v1/{catalog.prefix}/namespaces/{ns[0]}/generic-tables"
    for place in (old, f"{old}/data"):
        catalog.create_table(ns, "u", location=place).refused(409, "LocationAlreadyTaken")
        body = {"name": "u", "format": "lance", "base-location": place}
        catalog.client.send("POST", generic, body).refused(409, "LocationAlreadyTaken")
    catalog.commit(ns, "t", {"action": "set-location", "location": old}).ok()
    catalog.commit(ns, "t", move).ok()
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    catalog.create_table(ns, "u", location=old).ok()
    catalog.create_table(ns, "v", location=new).ok()


def test_spellings_of_one_place(catalog: Catalog, ns: Levels, base: str) -> None:
    path = base.removeprefix("file://")
    catalog.create_table(ns, "t", location=f"{path}/{ns[0]}/spelt").ok()
    for spelling in (f"file://{path}", f"file:{path}", path):
        answer = catalog.create_table(ns, "u", location=f"{spelling}/{ns[0]}/spelt")
        answer.refused(409, "LocationAlreadyTaken")
