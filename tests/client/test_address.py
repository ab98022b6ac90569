"""Addresses of servers, as people give them."""

from __future__ import annotations

import pytest

from frazil.client import Client, ClientCredentials
from frazil.client.address import server_uri
from frazil.core.errors import InvalidConfig

LONG = "a" * 70


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("http://lake:8181", "http://lake:8181"),
        ("http://lake:8181/", "http://lake:8181"),
        ("http://lake:8181/catalog", "http://lake:8181"),
        ("http://lake:8181/catalog/v1/", "http://lake:8181"),
        ("http://lake:8181/management/v1", "http://lake:8181"),
        ("http://lake:8181/lakekeeper/v1", "http://lake:8181"),
        ("https://example.org/behind/a/proxy/catalog", "https://example.org/behind/a/proxy"),
        ("http://[::1]:8181", "http://[::1]:8181"),
    ],
)
def test_what_people_paste(given: str, meant: str) -> None:
    assert server_uri(given) == meant


@pytest.mark.parametrize(
    "given",
    [
        "lake:8181",
        "ftp://lake",
        "http://",
        "http://a b",
        "http://[::1",
        "http://lake:port",
        f"http://{LONG}",
        "http://ä..b",
        "http://lake/?a=b",
        "http://ann:secret@lake",
        "http://ann:secret@la ke:port",
    ],
)
def test_what_is_no_address(given: str) -> None:
    with pytest.raises(InvalidConfig, match="the server's URI") as refusal:
        server_uri(given)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("given", ["keycloak/token", f"http://{LONG}/token", "https://ann:secret@id/token"])
def test_what_is_no_token_url(given: str) -> None:
    with pytest.raises(InvalidConfig, match="the token URL") as refusal:
        ClientCredentials("etl", "hidden", given)
    assert "secret" not in str(refusal.value)


def test_a_project_is_a_header() -> None:
    with pytest.raises(InvalidConfig, match="project 'ä'"):
        Client("http://lake", project="ä")
