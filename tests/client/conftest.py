"""Clients of real servers. Environment variables of whoever runs the tests are left out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.client.faulty import FaultyNetwork

from frazil.client import Client, Retry
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

#: Retries that do not make a test wait.
QUICK = Retry(attempts=4, first=0.001, longest=0.002)
_VARIABLES = (
    "LAKEKEEPER",
    "FRAZIL_URI",
    "FRAZIL_WAREHOUSE",
    "TOKEN",
    "OAUTH_TOKEN_URL",
    "OAUTH_CLIENT_ID",
    "OAUTH_CLIENT_SECRET",
    "OAUTH_SCOPE",
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    """A client of the default warehouse."""
    with Client(frazil_sqlite.uri) as found:
        yield found


@pytest.fixture
def namespace(client: Client) -> str:
    """A namespace of this test alone."""
    name = f"ns_{uuid.uuid4().hex[:12]}"
    client.namespaces.create(name)
    return name


@pytest.fixture
def network(frazil_sqlite: FrazilServer) -> Iterator[FaultyNetwork]:
    """A bad line to the shared server."""
    with FaultyNetwork(frazil_sqlite.port) as found:
        yield found


@pytest.fixture
def faulty(network: FaultyNetwork) -> Iterator[Client]:
    """A client at the end of the bad line."""
    with Client(network.uri, retry=QUICK, timeout=60) as found:
        yield found


@pytest.fixture(scope="session")
def lake(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> str:
    """A warehouse on the object store that vends keys."""
    name = f"client-lake-{uuid.uuid4().hex[:8]}"
    profile, credential = object_store.warehouse_storage("client-lake", name)
    with Client(frazil_sqlite.uri) as client:
        client.warehouses.create(name, profile, credential)
        client.at(name).namespaces.create("sensors")
    return name
