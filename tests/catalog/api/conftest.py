"""Every test here runs on SQLite and on PostgreSQL, against a real server process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.catalog.api.client import Catalog, connect
from tests.catalog.api.victim import Victim, victim_of

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

_numbers = itertools.count(1)


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("frazil_sqlite", marks=pytest.mark.services, id="sqlite"),
        pytest.param("frazil_postgres", marks=pytest.mark.services, id="postgres"),
    ],
)
def server(request: pytest.FixtureRequest) -> FrazilServer:
    """The shared server on each database."""
    found: FrazilServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def catalog(server: FrazilServer) -> Iterator[Catalog]:
    """A client of the default warehouse."""
    found = connect(server.port)
    yield found
    found.client.close()


@pytest.fixture
def ns(catalog: Catalog) -> tuple[str, ...]:
    """A namespace of the test's own."""
    name = f"ns{next(_numbers)}"
    catalog.create_namespace(name).ok()
    return (name,)


@pytest.fixture(
    scope="session",
    params=[pytest.param(kind, marks=pytest.mark.services, id=kind) for kind in ("sqlite", "postgres")],
)
def victim(request: pytest.FixtureRequest) -> Iterator[Victim]:
    """A server that only bad input is sent to, so that whatever changes there is a fault."""
    url: str | None = None
    if request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.create_database("frazil_victim")
    with victim_of(FrazilServer(database_url=url), url) as found:
        yield found
