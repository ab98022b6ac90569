"""Bootstrap, info, whoami."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.catalog.api.management.conftest import Client

from frazil.devstack.frazil_server import FrazilServer

pytestmark = pytest.mark.services


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_bootstrap_happens_once(database: str, request: pytest.FixtureRequest) -> None:
    url = None
    if database == "postgresql":
        make: Callable[[], str] = request.getfixturevalue("postgres_url")
        url = make()
    with FrazilServer(database_url=url) as server:
        client = Client(server)
        before = client.get("/info").body
        assert before["bootstrapped"] is False
        assert client.post("/bootstrap", {"accept-terms-of-use": False}).error == (
            400,
            "TermsOfUseNotAccepted",
        )
        assert client.get("/info").body["bootstrapped"] is False
        accept = {"accept-terms-of-use": True, "is-operator": True, "user-name": "x", "user-type": "human"}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.post("/bootstrap", accept), range(8)))
        assert sorted(a.status for a in answers) == [204] + [400] * 7
        assert {a.error for a in answers if a.status == 400} == {(400, "CatalogAlreadyBootstrapped")}
        after = client.get("/info").body
        assert after["bootstrapped"] is True
        assert after["server-id"] == before["server-id"]


def test_info_has_every_required_field(client: Client) -> None:
    info = client.get("/info").body
    assert info["default-project-id"] == "00000000-0000-0000-0000-000000000000"
    assert info["license-status"] == {"valid": True, "license-type": "Apache-2.0"}
    assert {
        "authz-backend",
        "aws-system-identities-enabled",
        "azure-system-identities-enabled",
        "gcp-system-identities-enabled",
        "lakekeeper-version",
        "queues",
        "version",
    } <= set(info)


def test_whoami_is_anonymous(client: Client) -> None:
    me = client.get("/whoami").body
    assert me["id"] == "anonymous"
    assert {"created-at", "last-updated-with", "name", "user-type", "is-instance-admin"} <= set(me)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"accept-terms-of-use": "yes"}', b"{}", b'{"accept-terms-of-use":1}'],
)
def test_bad_bootstrap_bodies(client: Client, body: bytes) -> None:
    assert client.post("/bootstrap", body).status == 400
