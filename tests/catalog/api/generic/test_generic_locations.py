"""No two tabulars of any kind share or nest locations, also while one of them waits for its purge."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from tests.catalog.api.client import Answer, Catalog, Json
from tests.catalog.api.generic.support import Generic, Levels, local_warehouse, wait_until
from tests.catalog.api.test_locations import OUTSIDE

from frazil.devstack.frazil_server import FrazilServer

SOFT = {"type": "soft", "expiration-seconds": 3600}
RELATIONS = ["equal", "equal/", "inside", "deep inside", "above", "far above"]
KINDS = ["generic", "table", "view", "moved table"]


def related(root: str, relation: str) -> str:
    """A place in relation to `<root>/a/b`."""
    return {
        "equal": f"{root}/a/b",
        "equal/": f"{root}/a/b/",
        "inside": f"{root}/a/b/c",
        "deep inside": f"{root}/a/b/data/c/d/e",
        "above": f"{root}/a",
        "far above": root,
    }[relation]


def place(catalog: Catalog, ns: Levels, kind: str, name: str, location: str) -> Answer:
    """Try to bring a tabular to a location."""
    if kind == "generic":
        return Generic(catalog.client, catalog.prefix).create(ns, name, base_location=location)
    if kind == "table":
        return catalog.create_table(ns, name, location=location)
    if kind == "view":
        return catalog.create_view(ns, name, location=location)
    catalog.create_table(ns, name).ok()
    move: Json = {"action": "set-location", "location": location}
    return catalog.commit(ns, name, move)


@pytest.fixture
def base(generic: Generic, ns: Levels) -> str:
    location: str = generic.create(ns, "probe").ok()["table"]["base-location"]
    return location.rpartition("/")[0]


@pytest.mark.parametrize("location", OUTSIDE)
def test_outside_the_warehouse(generic: Generic, ns: Levels, base: str, location: str) -> None:
    generic.create(ns, "t", base_location=location.format(base=base)).refused(400, None, "base-location")
    assert generic.names(ns) == ["probe"]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("second", KINDS)
def test_nothing_nests_with_a_generic_table(
    catalog: Catalog, ns: Levels, base: str, second: str, relation: str
) -> None:
    root = f"{base}/{ns[0]}"
    place(catalog, ns, "generic", "first", f"{root}/a/b").ok()
    answer = place(catalog, ns, second, "second", related(root, relation))
    answer.refused(409, "LocationAlreadyTaken", related(root, relation).rstrip("/"))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("first", ["table", "view", "moved table"])
def test_a_generic_table_nests_with_nothing(
    catalog: Catalog, ns: Levels, base: str, first: str, relation: str
) -> None:
    root = f"{base}/{ns[0]}"
    place(catalog, ns, first, "first", f"{root}/a/b").ok()
    answer = place(catalog, ns, "generic", "second", related(root, relation))
    answer.refused(409, "LocationAlreadyTaken")
    Generic(catalog.client, catalog.prefix).load(ns, "second").refused(404)


def test_neighbours_are_no_relatives(generic: Generic, ns: Levels, base: str) -> None:
    root = f"{base}/{ns[0]}"
    for number, name in enumerate(("a", "ab", "a0", "a-b", "a.b", "a_", "b/a", "B/ab")):
        table = generic.create(ns, f"t{number}", base_location=f"{root}/{name}/").ok()["table"]
        assert table["base-location"] == f"{root}/{name}"


def test_a_derived_location_cannot_be_taken_over(catalog: Catalog, generic: Generic, ns: Levels) -> None:
    derived = generic.create(ns, "first").ok()["table"]["base-location"]
    UUID(derived.rpartition("/")[2])
    for kind in KINDS:
        place(catalog, ns, kind, f"second {kind}", derived + "/x").refused(409, "LocationAlreadyTaken")


def test_spellings_of_one_place(generic: Generic, ns: Levels, base: str) -> None:
    path = f"{base.removeprefix('file://')}/{ns[0]}"
    table = generic.create(ns, "t", base_location=path).ok()["table"]
    assert table["base-location"] == f"file://{path}", "the canonical spelling"
    for spelling in (f"file://{path}", f"file:{path}", path):
        generic.create(ns, "u", base_location=spelling).refused(409, "LocationAlreadyTaken")


def test_below_the_namespaces_location(catalog: Catalog, generic: Generic, ns: Levels, base: str) -> None:
    where = f"{base}/{ns[0]}-own"
    catalog.create_namespace(*ns, "own", properties={"location": where + "/"}).ok()
    found = generic.create((*ns, "own"), "t").ok()["table"]["base-location"]
    parent, _, leaf = found.rpartition("/")
    assert parent == where
    UUID(leaf)


def test_storage_layouts(server: FrazilServer, catalog: Catalog) -> None:
    layout = {"type": "full-hierarchy", "namespace": "{name}", "tabular": "{name}"}
    catalog, folder = local_warehouse(server, catalog.client, profile={"storage-layout": layout})
    generic = Generic(catalog.client, catalog.prefix)
    catalog.create_namespace("ns", "in ner").ok()
    location = generic.create(("ns", "in ner"), "a/b").ok()["table"]["base-location"]
    assert location == f"file://{folder}/ns/in~20ner/a~2Fb"
    generic.create(("ns",), "in ner").refused(409, "LocationAlreadyTaken")
    generic.create(("ns",), "t").ok()
    generic.rename((("ns",), "t"), (("ns",), "u")).ok(204)
    catalog.create_table(("ns",), "t").refused(409, "LocationAlreadyTaken")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("second", KINDS)
def test_a_location_that_waits_for_its_purge_is_taken(
    server: FrazilServer, catalog: Catalog, second: str, relation: str
) -> None:
    catalog, folder = local_warehouse(server, catalog.client, **{"delete-profile": SOFT})
    generic = Generic(catalog.client, catalog.prefix)
    ns, root = ("ns",), f"file://{folder}/r"
    generic.create(ns, "first", base_location=f"{root}/a/b").ok()
    generic.drop(ns, "first").ok(204)
    answer = place(catalog, ns, second, "second", related(root, relation))
    answer.refused(409, "LocationAlreadyTaken", "ns.first", "still to be deleted")
    # Its name is free, and so is every other place.
    place(catalog, ns, second, "First", f"{root}/a/b2").ok()


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_generic_table_keeps_away_from_a_table_that_is_purged(
    server: FrazilServer, catalog: Catalog, relation: str
) -> None:
    catalog, folder = local_warehouse(server, catalog.client, **{"delete-profile": SOFT})
    ns, root = ("ns",), f"file://{folder}/r"
    catalog.create_table(ns, "first", location=f"{root}/a/b").ok()
    catalog.send("DELETE", catalog.table_path(ns, "first"), purgeRequested="true").ok(204)
    answer = place(catalog, ns, "generic", "second", related(root, relation))
    answer.refused(409, "LocationAlreadyTaken", "ns.first")


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda generic: generic.drop(("ns",), "t", "?purgeRequested=false"), id="kept files"),
        pytest.param(lambda generic: generic.drop(("ns",), "t", "?force=true"), id="purged at once"),
    ],
)
def test_a_freed_location_can_be_used_again(
    server: FrazilServer, catalog: Catalog, end: Callable[[Generic], Answer]
) -> None:
    catalog, folder = local_warehouse(server, catalog.client, **{"delete-profile": SOFT})
    generic = Generic(catalog.client, catalog.prefix)
    generic.create(("ns",), "t", base_location=f"file://{folder}/x").ok()
    end(generic).ok(204)
    wait_until(
        lambda: generic.create(("ns",), "u", base_location=f"file://{folder}/x").status == 200,
        "the location to be free",
    )
