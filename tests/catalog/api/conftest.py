"""Every test here runs on SQLite and on PostgreSQL, against a real server process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.catalog.api.client import Catalog, connect

from frazil.devstack.frazil_server import FrazilServer

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
