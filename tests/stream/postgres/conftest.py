"""A PostgreSQL whose changes can be decoded, and processes that follow it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from tests.stream.postgres.remote import Remote, Shop

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres


@pytest.fixture(scope="session")
def logical() -> Iterator[Postgres]:
    with Postgres(fsync=False, logical=True) as server:
        yield server


_numbers = itertools.count(1)


@pytest.fixture
def shop(logical: Postgres) -> Shop:
    return Shop(logical, f"shop{next(_numbers)}")


@pytest.fixture(scope="session")
def shared() -> Iterator[Remote]:
    """One process for all tests that kill none."""
    remote = Remote()
    yield remote
    remote.end()


@pytest.fixture
def remote(shared: Remote) -> Iterator[Remote]:
    yield shared
    shared.ask("close")


@pytest.fixture
def remotes() -> Iterator[Callable[[], Remote]]:
    started: list[Remote] = []

    def start() -> Remote:
        started.append(Remote())
        return started[-1]

    yield start
    for remote in started:
        if remote.process.poll() is None:
            remote.kill()


@pytest.fixture
def catalog(frazil_sqlite: FrazilServer) -> Iterator[Catalog]:
    with load_catalog("shop", type="rest", uri=frazil_sqlite.catalog_uri) as found:
        yield found
