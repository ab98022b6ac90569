from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.catalog.api.client import Catalog, Json, segment


def names(catalog: Catalog, **query: Any) -> list[list[str]]:
    found: list[list[str]] = catalog.send("GET", "/namespaces", **query).ok()["namespaces"]
    return found


def test_create_load_exists_drop(catalog: Catalog, ns: tuple[str, ...]) -> None:
    name = ns[0] + "_life"
    created = catalog.create_namespace(name, properties={"owner": "me"}).ok()
    assert created == {"namespace": [name], "properties": {"owner": "me"}}
    path = f"/namespaces/{name}"
    assert catalog.send("GET", path).ok() == created
    head = catalog.send("HEAD", path)
    assert (head.status, head.body) == (204, b"")
    assert [name] in names(catalog)
    catalog.send("DELETE", path).ok(204)
    catalog.send("GET", path).refused(404, "NoSuchNamespaceException", name)
    assert catalog.send("HEAD", path).status == 404
    catalog.send("DELETE", path).refused(404, "NoSuchNamespaceException")
    assert [name] not in names(catalog)


def test_properties_may_be_left_out_or_null(catalog: Catalog, ns: tuple[str, ...]) -> None:
    forms: list[Json] = [{}, {"properties": None}, {"properties": {}}]
    for number, more in enumerate(forms):
        levels = [f"{ns[0]}_{number}"]
        answer = catalog.send("POST", "/namespaces", {"namespace": levels, **more}).ok()
        assert answer == {"namespace": levels, "properties": {}}


def test_nested_namespaces_need_their_parent(catalog: Catalog, ns: tuple[str, ...]) -> None:
    (top,) = ns
    catalog.create_namespace(top, "b", "c").refused(404, "NoSuchNamespaceException", f"{top}.b")
    catalog.create_namespace(top, "b").ok()
    catalog.create_namespace(top, "b", "c").ok()
    assert catalog.send("GET", f"/namespaces/{segment(top, 'b', 'c')}").ok()["namespace"] == [top, "b", "c"]
    assert names(catalog, parent=top) == [[top, "b"]]
    assert names(catalog, parent=f"{top}\x1fb") == [[top, "b", "c"]]
    assert names(catalog, parent=f"{top}\x1fb\x1fc") == []
    assert [top, "b"] not in names(catalog)
    catalog.send("GET", "/namespaces", parent=f"{top}\x1fnone").refused(404, "NoSuchNamespaceException")


def test_a_namespace_in_use_is_not_dropped(catalog: Catalog, ns: tuple[str, ...]) -> None:
    (top,) = ns
    catalog.create_namespace(top, "b").ok()
    catalog.send("DELETE", f"/namespaces/{top}").refused(409, "NamespaceNotEmptyException", top)
    catalog.send("DELETE", f"/namespaces/{segment(top, 'b')}").ok(204)
    catalog.create_table(ns, "t").ok()
    catalog.send("DELETE", f"/namespaces/{top}").refused(409, "NamespaceNotEmptyException")
    catalog.send("DELETE", catalog.table_path(ns, "t")).ok(204)
    catalog.create_view(ns, "v").ok()
    catalog.send("DELETE", f"/namespaces/{top}").refused(409, "NamespaceNotEmptyException")
    catalog.send("DELETE", catalog.table_path(ns, "v", "views")).ok(204)
    catalog.send("DELETE", f"/namespaces/{top}").ok(204)


def test_properties_are_set_and_removed(catalog: Catalog, ns: tuple[str, ...]) -> None:
    path = catalog.namespace_path(ns, "properties")
    answer = catalog.send("POST", path, {"updates": {"a": "1", "b": "2"}, "removals": ["none"]}).ok()
    assert (sorted(answer["updated"]), answer["removed"], answer["missing"]) == (["a", "b"], [], ["none"])
    answer = catalog.send("POST", path, {"updates": {"b": "3"}, "removals": ["a", "a"]}).ok()
    assert (answer["updated"], answer["removed"], answer["missing"]) == (["b"], ["a"], [])
    assert catalog.send("GET", catalog.namespace_path(ns)).ok()["properties"] == {"b": "3"}
    catalog.send("POST", path, {"updates": {"b": "4"}, "removals": ["b"]}).refused(
        422, "UnprocessableEntityException", "b"
    )
    assert catalog.send("GET", catalog.namespace_path(ns)).ok()["properties"] == {"b": "3"}
    assert catalog.send("POST", path, {}).ok() == {"updated": [], "removed": [], "missing": []}
    other = catalog.namespace_path((ns[0] + "_none",), "properties")
    catalog.send("POST", other, {"updates": {"a": "1"}}).refused(404, "NoSuchNamespaceException")


def test_case_is_kept_but_does_not_count(catalog: Catalog, ns: tuple[str, ...]) -> None:
    (top,) = ns
    catalog.create_namespace(top, "Sales").ok()
    catalog.create_namespace(top, "SALES").refused(409, "AlreadyExistsException")
    for spelling in ("sales", "SALES", "sAlEs"):
        path = f"/namespaces/{segment(top.upper(), spelling)}"
        assert catalog.send("GET", path).ok()["namespace"] == [top.upper(), spelling]
        assert catalog.send("HEAD", path).status == 204
    assert names(catalog, parent=top) == [[top, "Sales"]]
    catalog.create_namespace(top.upper(), "sALES", "Deep").ok()
    catalog.send("POST", f"/namespaces/{segment(top, 'sales')}/properties", {"updates": {"a": "b"}}).ok()
    assert catalog.send("GET", f"/namespaces/{segment(top, 'Sales')}").ok()["properties"] == {"a": "b"}


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("straße", "STRASSE"),
        ("\u00e9tude", "e\u0301tude"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("İ", "i\u0307"),
        ("ﬁn", "FIN"),
    ],
)
def test_unicode_spellings_of_one_name(catalog: Catalog, ns: tuple[str, ...], one: str, same: str) -> None:
    assert catalog.create_namespace(*ns, one).ok()["namespace"] == [*ns, one]
    catalog.create_namespace(*ns, same).refused(409, "AlreadyExistsException")
    assert catalog.send("GET", f"/namespaces/{segment(*ns, same)}").ok()["namespace"] == [*ns, same]
    catalog.create_table((*ns, one), one).ok()
    catalog.create_table((*ns, same), same).refused(409, "AlreadyExistsException")
    catalog.load((*ns, same), same).ok()


@pytest.mark.parametrize(
    "name",
    [
        "with.dot",
        "with/slash",
        "with space",
        'quo"te',
        "apo'strophe",
        "back\\slash",
        "per%cent",
        "%2F",
        "a+b",
        "a?b#c",
        "a;b=c",
        "{braces}",
        "..",
        ".",
        "-",
        "日本語",
        "🧊❄️",
        "\u202eright to left",
        "e\u0301\u0323",
        "z\u200bero",
        "ns\u00a0nbsp",
        "x" * 200,
        "-- ; DROP TABLE tabular",
        "$1",
        "null",
        "00000000-0000-0000-0000-000000000000",
    ],
)
def test_strange_names_go_all_the_way(catalog: Catalog, ns: tuple[str, ...], name: str) -> None:
    levels = (*ns, name)
    assert catalog.create_namespace(*levels).ok()["namespace"] == list(levels)
    assert names(catalog, parent=ns[0]) == [list(levels)]
    catalog.create_namespace(*levels, name).ok()
    assert (
        catalog.create_table(levels, name, properties={name: name}).ok()["metadata"]["properties"][name]
        == name
    )
    listed = catalog.send("GET", catalog.namespace_path(levels, "tables")).ok()["identifiers"]
    assert listed == [{"namespace": list(levels), "name": name}]
    catalog.commit(levels, name, {"action": "set-properties", "updates": {"k": name}}).ok()
    assert catalog.load(levels, name).ok()["metadata"]["properties"]["k"] == name
    catalog.rename((levels, name), (levels, name + "2")).ok(204)
    assert catalog.send("HEAD", catalog.table_path(levels, name + "2")).status == 204
    assert catalog.send("HEAD", catalog.table_path(levels, name)).status == 404
    catalog.send("DELETE", catalog.table_path(levels, name + "2"), purgeRequested="true").ok(204)


def test_pages_cover_everything_once(catalog: Catalog, ns: tuple[str, ...]) -> None:
    wanted = [[*ns, f"{letter}{number}"] for letter in "aBcÄ" for number in range(6)]
    for levels in wanted:
        catalog.create_namespace(*levels).ok()
    for size in (1, 5, 24, 25, 1000):
        found: list[list[str]] = []
        token = ""
        pages = 0
        while True:
            query: Json = {"parent": ns[0], "pageSize": str(size), "pageToken": token}
            answer = catalog.send("GET", "/namespaces", **query).ok()
            assert len(answer["namespaces"]) <= size
            found += answer["namespaces"]
            pages += 1
            token = answer.get("next-page-token")
            if not token:
                break
        assert sorted(found) == sorted(wanted)
        assert pages <= 24 // size + 1
    assert sorted(names(catalog, parent=ns[0])) == sorted(wanted)


def test_a_page_survives_what_happens_between(catalog: Catalog, ns: tuple[str, ...]) -> None:
    for name in ("a", "b", "c", "d"):
        catalog.create_table(ns, name).ok()
    path = catalog.namespace_path(ns, "tables")
    first = catalog.send("GET", path, pageSize=2, pageToken="").ok()
    assert [entry["name"] for entry in first["identifiers"]] == ["a", "b"]
    catalog.send("DELETE", catalog.table_path(ns, "b")).ok(204)
    catalog.create_table(ns, "bb").ok()
    rest = catalog.send("GET", path, pageSize=10, pageToken=first["next-page-token"]).ok()
    assert [entry["name"] for entry in rest["identifiers"]] == ["bb", "c", "d"]
    assert not rest.get("next-page-token")


def _token(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode()


@pytest.mark.parametrize("token", ["!!!", "x", "ä", _token(b"\xff\xfe"), _token(b"a\x00b"), "=" * 9, "a" * 5])
@pytest.mark.parametrize("what", ["/namespaces", "tables", "views"])
def test_page_tokens_that_nobody_gave(catalog: Catalog, ns: tuple[str, ...], token: str, what: str) -> None:
    path = what if what.startswith("/") else catalog.namespace_path(ns, what)
    catalog.send("GET", path, pageToken=token).refused(400, "InvalidPaginationToken", "pageToken")


@pytest.mark.parametrize("size", ["0", "-1", "x", "1.5", "", str(2**63), str(2**64), str(10**30), "0x10"])
def test_page_sizes_that_are_none(catalog: Catalog, ns: tuple[str, ...], size: str) -> None:
    answer = catalog.send("GET", catalog.namespace_path(ns, "tables"), pageSize=size)
    if size in (str(2**63), str(2**64), str(10**30)):
        assert answer.status in (200, 400)
    else:
        answer.refused(400, "BadRequestException", "pageSize")


def test_a_large_page_size_is_cut(catalog: Catalog, ns: tuple[str, ...]) -> None:
    assert catalog.send("GET", catalog.namespace_path(ns, "tables"), pageSize=10**9).ok()["identifiers"] == []


def test_namespace_location_is_where_its_tables_go(catalog: Catalog, ns: tuple[str, ...]) -> None:
    base = catalog.create_table(ns, "t").ok()["metadata"]["location"].rpartition("/")[0]
    path = catalog.namespace_path(ns, "properties")
    catalog.send("POST", path, {"updates": {"location": "file:///elsewhere"}}).refused(
        400, "BadRequestException", "properties.location"
    )
    catalog.send("POST", path, {"updates": {"location": f"{base}/{ns[0]}"}}).ok()
    placed = catalog.create_table(ns, "u").ok()["metadata"]["location"]
    assert placed.startswith(f"{base}/{ns[0]}/")
