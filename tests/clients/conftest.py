from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from tests.clients.support import duckdb_extensions

from frazil.devstack.frazil_server import FrazilServer

if TYPE_CHECKING:
    import duckdb

_numbers = itertools.count(1)


@pytest.fixture
def fresh() -> Callable[[], str]:
    """A namespace name that no other test uses: the servers are shared."""
    return lambda: f"clients_{next(_numbers)}"


@pytest.fixture(scope="session")
def pyiceberg_sqlite(frazil_sqlite: FrazilServer) -> Iterator[Catalog]:
    with load_catalog("sqlite", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        yield catalog


@pytest.fixture(scope="session")
def pyiceberg_postgres(frazil_postgres: FrazilServer) -> Iterator[Catalog]:
    with load_catalog("postgres", type="rest", uri=frazil_postgres.catalog_uri) as catalog:
        yield catalog


@pytest.fixture
def duck() -> Iterator[Any]:
    """DuckDB with its Iceberg extension from PyPI's wheels; `attach` it to a server yourself."""
    import duckdb

    connection: duckdb.DuckDBPyConnection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in duckdb_extensions():
        connection.execute(f"LOAD '{extension}'")
    yield connection
    connection.close()
