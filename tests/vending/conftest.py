from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients.support import duckdb_extensions
from tests.vending.support import BUCKET, NAMESPACE, OTHER_BUCKET, PREFIX, Lake, location

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.seaweed import ObjectStore

if TYPE_CHECKING:
    import duckdb

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def lake(object_store: ObjectStore, frazil_sqlite: FrazilServer) -> Iterator[Lake]:
    """A warehouse that vends; beside `t1`: `t10`, a sibling, the parent, and another bucket."""
    profile, credential = object_store.warehouse_storage(BUCKET, PREFIX)
    with Client(frazil_sqlite.uri) as client:
        warehouse = client.warehouses.create("engines", profile, credential).name
        lake = Lake(object_store, frazil_sqlite, client.at(warehouse), warehouse)
        lake.client.namespaces.create(NAMESPACE)
        for name in ("g10", "t10", "sibling"):
            lake.generic(name)
            lake.foreign[name] = lake.plant(f"{location(name)}/secret.json")
        lake.foreign["parent"] = lake.plant(f"s3://{BUCKET}/{PREFIX}/{NAMESPACE}/secret.json")
        lake.foreign["bucket"] = lake.plant(f"s3://{OTHER_BUCKET}/{PREFIX}/{NAMESPACE}/t1/secret.json")
        yield lake


@pytest.fixture
def untouched(lake: Lake) -> Iterator[None]:
    """Whatever the test tries, what is outside is afterwards as it was before."""
    before = lake.foreign_objects()
    yield
    assert lake.foreign_objects() == before


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """A table name that no other test uses."""
    return lambda stem: f"{stem}_{next(_numbers)}"


@pytest.fixture
def duck() -> Iterator[Any]:
    import duckdb

    connection: duckdb.DuckDBPyConnection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in duckdb_extensions():
        connection.execute(f"LOAD '{extension}'")
    yield connection
    connection.close()
