"""At every place of every body, a value of every other JSON type: a 400 that names the place."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.catalog.api.client import Json, add_snapshot, column, identifier, schema, set_ref, view_version
from tests.catalog.api.victim import NS, Victim

Place = tuple[str | int, ...]

WRONG: dict[str, list[Any]] = {
    "text": [5, True, 1.5, [], {}],
    "integer": ["1", True, 1.5, 1.0, 1e300, [], {}, 2**63, -(2**63) - 1, 2**200],
    "boolean": ["true", 1, 0, [], {}],
    "list": ["x", 5, True, {}],
    "object": ["x", 5, True, []],
}
# What the spec leaves open: any value is legal there.
OPEN = {"initial-default", "write-default", "filter", "metrics", "x-open"}
# Either text (a primitive) or an object (a nested type).
EITHER = {"type", "element", "key", "value"}
# Maps from text to text: a wrong value in one is reported as the map's.
MAPS = {"properties", "summary", "metadata", "updates"}

NESTED = schema(
    column(1, "id", required=True, doc="the key"),
    column(2, "s", {"type": "struct", "fields": [column(3, "x", "int")]}),
    column(4, "l", {"type": "list", "element-id": 5, "element": "string", "element-required": False}),
    column(
        6,
        "m",
        {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "int", "value-required": True},
    ),
    **{"identifier-field-ids": [1]},
)
SPEC: Json = {
    "spec-id": 0,
    "fields": [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "p"}],
}
ORDER: Json = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}
FULL_SNAPSHOT = add_snapshot(
    9, **{"parent-snapshot-id": 1, "first-row-id": 0, "added-rows": 1, "key-id": "k"}
)
STATISTICS: Json = {
    "snapshot-id": 1,
    "statistics-path": "x",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "key-metadata": "x",
    "blob-metadata": [
        {"type": "x", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"a": "b"}}
    ],
}
UPDATES: list[Json] = [
    {"action": "assign-uuid", "uuid": "x"},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": NESTED, "last-column-id": 8},
    {"action": "set-current-schema", "schema-id": 0},
    {"action": "add-spec", "spec": SPEC},
    {"action": "set-default-spec", "spec-id": 0},
    {"action": "add-sort-order", "sort-order": ORDER},
    {"action": "set-default-sort-order", "sort-order-id": 0},
    FULL_SNAPSHOT,
    set_ref(1, **Json({"max-ref-age-ms": 1, "max-snapshot-age-ms": 1, "min-snapshots-to-keep": 1})),
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "x"},
    {"action": "set-location", "location": "x"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "snapshot-id": 1, "statistics": STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 1},
    {
        "action": "set-partition-statistics",
        "partition-statistics": {"snapshot-id": 1, "statistics-path": "x", "file-size-in-bytes": 1},
    },
    {"action": "remove-partition-statistics", "snapshot-id": 1},
    {"action": "remove-partition-specs", "spec-ids": [5]},
    {"action": "remove-schemas", "schema-ids": [5]},
    {
        "action": "add-encryption-key",
        "encryption-key": {
            "key-id": "k",
            "encrypted-key-metadata": "x",
            "encrypted-by-id": "y",
            "properties": {"a": "b"},
        },
    },
    {"action": "remove-encryption-key", "key-id": "k"},
]
REQUIREMENTS: list[Json] = [
    {"type": "assert-table-uuid", "uuid": "x"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
]
TABLE = "/namespaces/ns/tables/t"
VIEW_VERSION = view_version(2, "SELECT 2", **{"default-catalog": "c"})
BODIES: dict[str, tuple[str, Json]] = {
    "create-namespace": ("/namespaces", {"namespace": ["x"], "properties": {"a": "b"}}),
    "properties": ("/namespaces/ns/properties", {"removals": ["owner"], "updates": {"a": "b"}}),
    "create-table": (
        "/namespaces/ns/tables",
        {
            "name": "new",
            "location": "x",
            "schema": NESTED,
            "partition-spec": SPEC,
            "write-order": ORDER,
            "stage-create": False,
            "properties": {"a": "b"},
        },
    ),
    "register": ("/namespaces/ns/register", {"name": "x", "metadata-location": "x", "overwrite": True}),
    "rename": ("/tables/rename", {"source": identifier(NS, "t"), "destination": identifier(NS, "x")}),
    "commit": (TABLE, {"identifier": identifier(NS, "t"), "requirements": [], "updates": []}),
    **{f"update-{u['action']}": (TABLE, {"requirements": [], "updates": [u]}) for u in UPDATES},
    **{f"require-{r['type']}": (TABLE, {"requirements": [r], "updates": []}) for r in REQUIREMENTS},
    "transaction": (
        "/transactions/commit",
        {
            "table-changes": [
                {
                    "identifier": identifier(NS, "t"),
                    "requirements": [REQUIREMENTS[0]],
                    "updates": [{"action": "set-properties", "updates": {"a": "b"}}],
                }
            ]
        },
    ),
    "create-view": (
        "/namespaces/ns/views",
        {
            "name": "x",
            "location": "x",
            "schema": NESTED,
            "view-version": VIEW_VERSION,
            "properties": {"a": "b"},
        },
    ),
    "replace-view": (
        "/namespaces/ns/views/v",
        {
            "identifier": identifier(NS, "v"),
            "requirements": [{"type": "assert-view-uuid", "uuid": "x"}],
            "updates": [
                {"action": "add-view-version", "view-version": VIEW_VERSION},
                {"action": "set-current-view-version", "view-version-id": -1},
            ],
        },
    ),
    "rename-view": ("/views/rename", {"source": identifier(NS, "v"), "destination": identifier(NS, "x")}),
    "register-view": ("/namespaces/ns/register-view", {"name": "x", "metadata-location": "x"}),
    "metrics": (
        TABLE + "/metrics",
        {
            "report-type": "scan-report",
            "table-name": "t",
            "snapshot-id": 1,
            "schema-id": 0,
            "projected-field-ids": [1],
            "projected-field-names": ["id"],
            "metadata": {"a": "b"},
        },
    ),
}


def places(node: Any, at: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Every value inside a body and where it is."""
    if at:
        yield at, node
    if isinstance(node, dict):
        for name, value in node.items():
            if name not in OPEN:
                yield from places(value, (*at, name))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from places(value, (*at, index))


def replaced(body: Json, at: Place, value: Any) -> Json:
    result = copy.deepcopy(body)
    node: Any = result
    for step in at[:-1]:
        node = node[step]
    node[at[-1]] = value
    return result


def kind_of(value: Any) -> str:
    kinds = {str: "text", bool: "boolean", int: "integer", list: "list", dict: "object"}
    return kinds[type(value)]


def wrong_values(at: Place, value: Any) -> list[Any]:
    values = WRONG[kind_of(value)]
    if at[-1] in EITHER and kind_of(value) in ("text", "object"):
        values = [v for v in values if not isinstance(v, (str, dict))] + [{}]
        values += [] if "blob-metadata" in at else ["nonsense"]
    return values


@pytest.mark.parametrize("name", BODIES)
def test_wrong_types(victim: Victim, name: str) -> None:
    path, body = BODIES[name]
    before, rows = victim.everything(), victim.rows()
    for at, value in places(body):
        for wrong in wrong_values(at, value):
            answer = victim.catalog.send("POST", path, replaced(body, at, wrong))
            where = f"{'.'.join(map(str, at))} = {wrong!r}"
            assert answer.status == 400, f"{where}: {answer.status} {answer.body[:500]!r}"
            message = answer.error()["message"]
            steps = [step for step in at if isinstance(step, str)]
            named = steps[-2] if steps[-2:-1] and steps[-2] in MAPS else steps[-1]
            assert named in message, (where, message)
            assert victim.rows() == rows, where
    assert victim.everything() == before


@pytest.mark.parametrize("name", BODIES)
def test_missing_and_null(victim: Victim, name: str) -> None:
    """Without a value, or with null, it is either 400 or the field may be left out: never a 5xx."""
    path, body = BODIES[name]
    rows = victim.rows()
    for at, _ in places(body):
        bodies = [replaced(body, at, None)]
        if isinstance(at[-1], str):
            without = replaced(body, at, None)
            node: Any = without
            for step in at[:-1]:
                node = node[step]
            del node[at[-1]]
            bodies.append(without)
        for sent in bodies:
            answer = victim.catalog.send("POST", path, sent)
            assert answer.status < 500, (at, sent, answer.body)
            if answer.status >= 400:
                answer.error()
                assert victim.rows() == rows, (at, sent)
            elif victim.rows() != rows:
                rows = _undo(victim)


def _undo(victim: Victim) -> list[list[Any]]:
    """Some bodies are legal with less in them; what they made is taken as it is, up to names in use."""
    catalog = victim.catalog
    for kind in ("tables", "views"):
        for entry in catalog.send("GET", f"/namespaces/ns/{kind}").ok()["identifiers"]:
            if entry["name"] in ("new", "x"):
                catalog.send("DELETE", f"/namespaces/ns/{kind}/{entry['name']}").ok(204)
    catalog.send("DELETE", "/namespaces/x")
    return victim.rows()
