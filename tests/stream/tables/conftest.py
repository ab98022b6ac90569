"""Source tables on a real catalog, written by PyIceberg."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from tests.stream.tables.follower import Follower

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri) as opened:
        opened.namespaces.create("tables", exist_ok=True)
        yield opened


@pytest.fixture(scope="session")
def shelf(frazil_sqlite: FrazilServer, client: Client) -> Catalog:
    """Another engine."""
    return load_catalog("shelf", type="rest", uri=frazil_sqlite.catalog_uri)


class Source:
    """A table that others write to."""

    def __init__(self, shelf: Catalog, name: str, schema: pa.Schema, **options: Any) -> None:
        self.name = name
        self.shelf = shelf
        self.shelf.create_table(("tables", name), schema, **options)

    @property
    def table(self) -> Table:
        return self.shelf.load_table(("tables", self.name))

    @property
    def head(self) -> int:
        found = self.table.current_snapshot()
        assert found is not None
        return found.snapshot_id

    def append(self, *ids: int) -> int:
        self.table.append(rows(*ids))
        return self.head


SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "word": [f"w{number}" for number in ids]}, SCHEMA)


@pytest.fixture
def source(shelf: Catalog) -> Source:
    return Source(shelf, f"t{next(_numbers)}", SCHEMA)


@pytest.fixture
def follow(client: Client, source: Source) -> Callable[..., Follower]:
    return lambda **options: Follower(client, source.name, **options)
