from __future__ import annotations

import copy
from typing import Any

import pytest
from pyiceberg.view.metadata import ViewMetadata
from tests.catalog.metadata.support import LOCATION, T0, UUID, field, schema, struct, view_version

from frazil.catalog import metadata as m
from frazil.core.errors import CommitFailed, InvalidInput, NoSuchView

Json = dict[str, Any]
LATEST = {"action": "set-current-view-version", "view-version-id": -1}


def new_view(**changes: Any) -> Json:
    arguments: Json = {
        "uuid": UUID,
        "location": LOCATION + "/",
        "schema": schema(),
        "view_version": view_version(**{"schema-id": 55}),
        "properties": {},
        "now_ms": T0,
    }
    return m.new_view_metadata(**(arguments | changes))


def add(version: Json) -> Json:
    return {"action": "add-view-version", "view-version": version}


def apply(view: Json, *updates: Json, now: int = T0 + 10) -> Json:
    kept = copy.deepcopy((view, updates))
    after = m.apply_view_updates(view, list(updates), now_ms=now)
    assert (view, updates) == kept
    return after


def replaced(view: Json, count: int, start: int = 2) -> Json:
    for number in range(start, start + count):
        view = apply(view, add(view_version(number, f"select {number}")), LATEST)
    return view


def versions(view: Json) -> list[int]:
    return [v["version-id"] for v in view["versions"]]


def test_a_new_view_points_at_its_own_schema() -> None:
    view = new_view()
    assert view["versions"][0]["schema-id"] == 0
    assert (view["current-version-id"], view["location"]) == (1, LOCATION)
    assert view["version-log"] == [{"timestamp-ms": T0, "version-id": 1}]
    assert m.parse_view_metadata(m.encode(view)) == view
    assert ViewMetadata.model_validate(view).current_version_id == 1


def test_replace_adds_a_version_and_history() -> None:
    wider = {"action": "add-schema", "schema": struct(field(1, "a", "int"))}
    view = apply(new_view(), wider, add(view_version(1, "select 2", **{"schema-id": -1})), LATEST)
    assert versions(view) == [1, 2]
    assert view["versions"][1]["schema-id"] == 1
    assert [e["version-id"] for e in view["version-log"]] == [1, 2]


def test_an_identical_version_and_schema_are_reused() -> None:
    view = new_view()
    again = {"action": "add-schema", "schema": schema()}
    assert apply(view, again, add(view_version(9, **{"timestamp-ms": 5, "schema-id": -1})), LATEST) is view


def test_going_back_is_logged_with_the_time_of_the_commit() -> None:
    view = replaced(new_view(), 1)
    back = apply(view, {"action": "set-current-view-version", "view-version-id": 1}, now=T0 + 99)
    assert back["version-log"][-1] == {"timestamp-ms": T0 + 99, "version-id": 1}


def test_history_keeps_ten_versions_and_the_current_one() -> None:
    view = replaced(new_view(), 14)
    assert versions(view) == list(range(6, 16))
    assert [e["version-id"] for e in view["version-log"]] == list(range(6, 16))
    small = apply(view, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}})
    assert versions(small) == [14, 15]
    back = apply(view, {"action": "set-current-view-version", "view-version-id": 6})
    assert versions(replaced(back, 0)) == list(range(6, 16))
    old = apply(back, {"action": "set-properties", "updates": {"version.history.num-entries": "2"}})
    assert versions(old) == [6, 15]
    assert [e["version-id"] for e in old["version-log"]] == [15, 6]


def test_a_commit_never_expires_what_it_added() -> None:
    view = new_view(properties={"version.history.num-entries": "1"})
    view = apply(view, *(add(view_version(n, f"select {n}")) for n in (2, 3, 4)), LATEST)
    assert versions(view) == [2, 3, 4]


def test_a_dialect_may_only_be_lost_when_allowed() -> None:
    update = [add(view_version(2, dialect="trino")), LATEST]
    with pytest.raises(InvalidInput, match="loses the dialect spark"):
        apply(new_view(), *update)
    view = new_view(properties={"replace.drop-dialect.allowed": "true"})
    assert apply(view, *update)["current-version-id"] == 2


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (LATEST, r"updates\[0\] \(set-current-view-version\).*adds none"),
        ({"action": "set-current-view-version", "view-version-id": 9}, "no view version 9"),
        (add(view_version(2, "x", **{"schema-id": -1})), "adds none"),
        (add(view_version(2, "x", **{"schema-id": 9})), "no schema 9"),
        (add(view_version(2, "x", representations=[])), "at least one"),
        (add(view_version(-2, "x")), "negative"),
        ({"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, "cannot become"),
        ({"action": "upgrade-format-version", "format-version": 2}, "format version 1"),
        ({"action": "set-location", "location": ""}, "empty"),
        ({"action": "set-properties", "updates": {"version.history.num-entries": "0"}}, "1 or more"),
        (
            {"action": "add-schema", "schema": struct(field(1, "a", "int"), field(1, "b", "int"))},
            "id of another",
        ),
        ({"action": "set-snapshot-ref"}, "not an update of a view"),
    ],
)
def test_updates_that_are_refused(update: Json, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        apply(new_view(), update)


def test_two_queries_for_a_dialect() -> None:
    twice = [{"type": "sql", "sql": "a", "dialect": "Trino"}, {"type": "sql", "sql": "b", "dialect": "trino"}]
    with pytest.raises(InvalidInput, match="multiple queries for dialect trino") as caught:
        new_view(view_version=view_version(representations=twice))
    assert caught.value.kind == "IllegalArgumentException"
    with pytest.raises(InvalidInput) as caught:
        apply(new_view(), add(view_version(representations=twice)))
    assert caught.value.kind == "IllegalArgumentException"


def test_properties_and_location() -> None:
    view = apply(
        new_view(properties={"a": "1"}),
        {"action": "set-properties", "updates": {"b": "2"}},
        {"action": "remove-properties", "removals": ["a", "none"]},
        {"action": "set-location", "location": "s3://b/other/"},
        {"action": "assign-uuid", "uuid": UUID},
        {"action": "upgrade-format-version", "format-version": 1},
    )
    assert (view["properties"], view["location"]) == ({"b": "2"}, "s3://b/other")


def test_requirements() -> None:
    view = new_view()
    m.check_view_requirements([{"type": "assert-view-uuid", "uuid": UUID.upper()}], view)
    m.check_view_requirements(None, view)
    with pytest.raises(CommitFailed, match="view UUID does not match"):
        m.check_view_requirements([{"type": "assert-view-uuid", "uuid": "x"}], view)
    with pytest.raises(InvalidInput, match="assert-create"):
        m.check_view_requirements([{"type": "assert-create"}], view)
    with pytest.raises(NoSuchView):
        m.check_view_requirements([], None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"current-version-id": 9}, "current-version-id 9"),
        ({"versions": []}, "current-version-id 1"),
        ({"schemas": []}, "schema-id 0, which is missing"),
        ({"format-version": 2}, "format-version"),
        ({"view-uuid": "x"}, "UUID"),
    ],
)
def test_view_documents_that_are_refused(change: Json, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"^the metadata file.*{words}"):
        m.parse_view_metadata(m.encode(new_view() | change))
