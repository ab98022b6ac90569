from __future__ import annotations

from typing import Any

import pytest

from frazil.catalog.http import Endpoint, Request, Response, Routes
from frazil.catalog.http.routing import Router
from frazil.core.errors import InvalidInput


async def handler(_state: Any, _request: Request) -> Response:
    return Response(200)


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(method, path, handler, "test")


ROUTER = Router(
    [
        endpoint("GET", "/a/{one}/b"),
        endpoint("POST", "/a/{one}/b"),
        endpoint("GET", "/a/{one}/b/{two}"),
        endpoint("GET", "/a/fixed/b"),
        endpoint("GET", "/a"),
    ]
)


@pytest.mark.parametrize(
    ("path", "methods", "params"),
    [
        (b"/a", {"GET"}, {}),
        (b"/a/x/b", {"GET", "POST"}, {"one": "x"}),
        (b"/a/x/b/y", {"GET"}, {"one": "x", "two": "y"}),
        (b"/a/fixed/b", {"GET"}, {}),
        (b"/a/x%2Fy/b", {"GET", "POST"}, {"one": "x/y"}),
        (b"/a/%2F/b/%2e%2e", {"GET"}, {"one": "/", "two": ".."}),
        (b"/a/x%1Fy/b", {"GET", "POST"}, {"one": "x\x1fy"}),
        (b"/a/a+b%20c%2Bd/b", {"GET", "POST"}, {"one": "a b c+d"}),
        (b"/a/%25/b", {"GET", "POST"}, {"one": "%"}),
        (b"/a/%252F/b", {"GET", "POST"}, {"one": "%2F"}),
        (b"/a/%zz/b", {"GET", "POST"}, {"one": "%zz"}),
        ("/a/ü/b".encode(), {"GET", "POST"}, {"one": "ü"}),
        (b"/a/%C3%BC/b", {"GET", "POST"}, {"one": "ü"}),
    ],
)
def test_paths_that_lead_somewhere(path: bytes, methods: set[str], params: dict[str, str]) -> None:
    found, given = ROUTER.find(path)
    assert set(found) == methods
    assert given == params


@pytest.mark.parametrize(
    "path", [b"/", b"/b", b"/a/x", b"/a/x/c", b"/a/x/b/y/z", b"/A", b"/a/x/b/y/", b"//a"]
)
def test_paths_that_lead_nowhere(path: bytes) -> None:
    assert ROUTER.find(path)[0] == {}


@pytest.mark.parametrize("segment", [b"%ff", b"%c3%28", b"%ed%a0%80", b"%00", b"a%00", b"\xff", b""])
def test_segments_that_are_no_text(segment: bytes) -> None:
    with pytest.raises(InvalidInput, match="'one'"):
        ROUTER.find(b"/a/" + segment + b"/b")


def test_two_endpoints_for_one_place() -> None:
    with pytest.raises(ValueError, match="two endpoints"):
        Router([endpoint("GET", "/a/{one}"), endpoint("GET", "/a/{other}")])


def test_routes_collect_what_they_decorate() -> None:
    routes = Routes("/v1", tag="things")
    decorated = routes.add("GET", "/x", status=204, errors=(404,))(handler)
    (found,) = routes.endpoints
    assert decorated is handler
    assert (found.method, found.path, found.status, found.errors, found.tag) == (
        "GET",
        "/v1/x",
        204,
        (404,),
        "things",
    )
