"""One broker, one catalog, one store for all crash tests; each has its own topic and table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.stream.crash.records import Feed
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import NAMESPACE, Line, fresh

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore

MakeLine = Callable[..., Line]


@pytest.fixture(scope="session")
def local_shelf(frazil_sqlite: FrazilServer) -> Shelf:
    with Client(frazil_sqlite.uri) as client:
        client.namespaces.create(NAMESPACE, exist_ok=True)
    return Shelf(frazil_sqlite)


@pytest.fixture(scope="session")
def s3_shelf(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Shelf:
    return bucket_shelf(frazil_sqlite, object_store)


@pytest.fixture
def shelf(request: pytest.FixtureRequest) -> Shelf:
    """The storage that the test's parameter names: `local` or `s3`."""
    found: Shelf = request.getfixturevalue(f"{request.param}_shelf")
    return found


@pytest.fixture(scope="session")
def make_line(kafka: Kafka) -> MakeLine:
    """A new pipeline with its own topic: `make_line(shelf, "stem", partitions=2, …)`."""

    def make(shelf: Shelf, stem: str, *, partitions: int = 2, **options: Any) -> Line:
        name = fresh(stem)
        feed = Feed(kafka.bootstrap_servers, kafka.create_topic(name, partitions=partitions), partitions)
        return Line(name, shelf, feed, **options)

    return make


def bucket_shelf(server: FrazilServer, store: ObjectStore, **profile: Any) -> Shelf:
    """A warehouse that vends keys for a prefix of its own."""
    name = fresh("crash")
    place, credential = store.warehouse_storage("crash", name, **profile)
    with Client(server.uri) as client:
        client.warehouses.create(name, place, credential)
        client.at(name).namespaces.create(NAMESPACE, exist_ok=True)
    return Shelf(server, name, store)
