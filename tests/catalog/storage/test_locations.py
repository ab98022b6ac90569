"""Locations: what is inside a warehouse, what is above a place, where a table goes."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.storage import (
    DefaultLayout,
    FullHierarchy,
    TabularOnly,
    ancestors,
    inside,
    table_location,
)
from frazil.catalog.storage.locations import escape, owned_file
from frazil.core.errors import InvalidInput

S3 = "s3://lake/wh"
LOCAL = "file:///data/wh"
SOME = UUID("01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize(
    ("base", "location", "canonical"),
    [
        (S3, "s3://lake/wh/t", "s3://lake/wh/t"),
        (S3, "s3://lake/wh/t/", "s3://lake/wh/t"),
        (S3, "s3://lake/wh/a b/ü/x=1%20", "s3://lake/wh/a b/ü/x=1%20"),
        (S3, "s3://lake/wh/..a/b..", "s3://lake/wh/..a/b.."),
        ("s3://lake", "s3://lake/t", "s3://lake/t"),
        (LOCAL, "file:///data/wh/t", "file:///data/wh/t"),
        (LOCAL, "file:/data/wh/t/", "file:///data/wh/t"),
        (LOCAL, "/data/wh/t", "file:///data/wh/t"),
    ],
)
def test_inside_accepts_and_spells_alike(base: str, location: str, canonical: str) -> None:
    assert inside(base, location) == canonical


NASTY = [
    "",
    "/",
    "t",
    "s3:lake/wh/t",
    "s3:/lake/wh/t",
    "s3://",
    "s3://lake",
    "s3://lake/wh",
    "s3://lake/wh/",
    "s3://lake/",
    "s3://lake/w",
    "s3://lake/wh2/t",
    "s3://lake/whatever/t",
    "s3://other/wh/t",
    "s3://user@lake/wh/t",
    "s3://lake:80/wh/t",
    "S3://lake/wh/t",
    "s3a://lake/wh/t",
    "s3n://lake/wh/t",
    "gs://lake/wh/t",
    "file:///lake/wh/t",
    "http://lake/wh/t",
    "s3://lake/wh/../t",
    "s3://lake/wh/a/../../../t",
    "s3://lake/wh/..",
    "s3://lake/wh/./t",
    "s3://lake/wh//t",
    "s3://lake/wh/t//",
    "s3://lake//wh/t",
    "s3://lake/wh/%2e%2e/t",
    "s3://lake/wh/%2E./t",
    "s3://lake/wh/%252e%252e/t",
    "s3://lake/wh/%25252e%25252e/t",
    "s3://lake/wh/a%2fb",
    "s3://lake/wh/a%5Cb",
    "s3://lake/wh/a%00b",
    "s3://lake/wh/a%0ab",
    "s3://lake/wh/a%FFb",
    "s3://lake/wh/a\\b",
    "s3://lake/wh/t?versionId=1",
    "s3://lake/wh/t#part",
    "s3://lake/wh/a\nb",
    "s3://lake/wh/a\x00b",
    "s3://lake/wh/a\x7fb",
    "s3://lake/wh/a\x85b",
    "s3://lake/wh/a\ud800b",
    "s3://lake/wh/" + "x" * 2000,
]


@pytest.mark.parametrize("location", NASTY)
def test_inside_refuses(location: str) -> None:
    with pytest.raises(InvalidInput, match=r"^location: "):
        inside(S3, location)


@pytest.mark.parametrize(
    "location",
    [
        "data/wh/t",
        "//data/wh/t",
        "file://data/wh/t",
        "file:////data/wh/t",
        "file://localhost/data/wh/t",
        "file:data/wh/t",
        "/data/wh",
        "file:///data/wh/",
        "/data/wh/../t",
        "/data/wh/%2e%2e/t",
        "/data/wh//t",
        "/data/wh2/t",
        "s3://data/wh/t",
    ],
)
def test_inside_refuses_local(location: str) -> None:
    with pytest.raises(InvalidInput, match=r"^where: "):
        inside(LOCAL, location, field="where")


@pytest.mark.parametrize("scheme", ["s3a", "s3n"])
def test_alternative_schemes_need_permission(scheme: str) -> None:
    assert inside(S3, f"{scheme}://lake/wh/t", alternatives=True) == "s3://lake/wh/t"
    with pytest.raises(InvalidInput, match="allow-alternative-protocols"):
        inside(S3, f"{scheme}://lake/wh/t")


@given(st.text(max_size=40))
def test_whatever_inside_accepts_is_below_the_base(text: str) -> None:
    try:
        accepted = inside(S3, f"s3://lake/wh/{text}")
    except InvalidInput:
        return
    assert accepted.startswith(S3 + "/")
    segments = accepted[len(S3) + 1 :].split("/")
    assert not {"", ".", ".."} & set(segments)
    assert inside(S3, accepted) == accepted
    assert owned_file(S3, accepted) == accepted


@pytest.mark.parametrize(
    ("base", "location", "canonical"),
    [
        (S3, "s3://lake/wh/t/data/ts=2020%3A01/x.parquet", "s3://lake/wh/t/data/ts=2020%3A01/x.parquet"),
        (S3, "s3a://lake/wh/t/x", "s3://lake/wh/t/x"),
        (S3, "s3://lake/wh/t//x", None),
        (S3, "s3://lake/wh/../t/x", None),
        (S3, "s3://lake/wh", None),
        (S3, "s3://lake/wh2/x", None),
        (S3, "s3://other/wh/x", None),
        (S3, "/lake/wh/x", None),
        (LOCAL, "file:/data/wh/t//x", "file:///data/wh/t/x"),
        (LOCAL, "/data/wh/t/x", "file:///data/wh/t/x"),
        (LOCAL, "file:///data/wh/t/../../../etc/passwd", None),
        (LOCAL, "file:///etc/passwd", None),
    ],
)
def test_owned_file(base: str, location: str, canonical: str | None) -> None:
    assert owned_file(base, location) == canonical


def test_ancestors() -> None:
    assert ancestors("s3://lake/wh/a/b/c", S3) == ["s3://lake/wh/a", "s3://lake/wh/a/b"]
    assert ancestors("s3://lake/wh/a", S3) == []
    with pytest.raises(InvalidInput):
        ancestors("s3://lake/other", S3)


def test_default_layout_is_flat_by_uuid() -> None:
    for layout in (None, DefaultLayout()):
        assert table_location(S3, layout, [("ns", SOME)], "../t", SOME) == f"{S3}/{SOME}"


def test_templates() -> None:
    full = FullHierarchy(namespace="{name}", tabular="{name}-{uuid}")
    assert table_location(S3, full, [("a", SOME), ("b/c", SOME)], "t", SOME) == f"{S3}/a/b~2Fc/t-{SOME}"
    assert table_location(S3, TabularOnly(tabular="{name}"), [("a", SOME)], "..", SOME) == f"{S3}/~2E."


@pytest.mark.parametrize(
    "template", ["", "x", "{nope}", "a/{name}", ".{name}", "{name}{", "{name} ", "../{uuid}"]
)
def test_bad_templates(template: str) -> None:
    with pytest.raises(InvalidInput, match=r"storage-layout\.tabular"):
        TabularOnly(tabular=template)


def test_a_layout_that_gives_too_long_a_location_is_refused() -> None:
    full = FullHierarchy(namespace="{name}", tabular="{name}")
    with pytest.raises(InvalidInput, match="longer than"):
        table_location(S3, full, [("n" * 190, SOME)] * 6, "t", SOME)


names = st.one_of(
    st.text(max_size=30), st.text(alphabet="./~%2Fa", max_size=8), st.text(min_size=200, max_size=600)
)


@given(names, names)
def test_escape_is_injective_and_safe(one: str, two: str) -> None:
    assert (escape(one) == escape(two)) == (one == two)
    location = f"{S3}/{escape(one)}"
    assert inside(S3, location) == location
    assert len(escape(one)) <= 255


@given(names, st.sampled_from(["{name}", "{uuid}", "x-{name}", "{uuid}.{name}"]))
def test_derived_locations_pass_the_check_for_callers(name: str, template: str) -> None:
    location = table_location(S3, TabularOnly(tabular=template), [], name, uuid4())
    assert inside(S3, location) == location
