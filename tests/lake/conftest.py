"""Tables and pipelines on a real catalog, written through Spark's JVM, checked without it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients.support import duckdb_extensions
from tests.lake.network import CommitNetwork
from tests.lake.pairs import Pair
from tests.lake.support import Reader

from frazil.client import Client
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
SCHEMA = Schema((Field("id", "long", required=True), Field("word", "string")))

MakeTable = Callable[[], LakeTable]


@pytest.fixture(scope="session")
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri) as opened:
        yield opened


@pytest.fixture(scope="session")
def lake(spark: SparkSession, client: Client) -> Iterator[Lake]:
    opened = Lake(spark, client)
    yield opened
    opened.close()


@pytest.fixture
def network(frazil_sqlite: FrazilServer) -> Iterator[CommitNetwork]:
    with CommitNetwork(frazil_sqlite.port) as between:
        yield between


@pytest.fixture
def answer_ms() -> int:
    """How long an answer of the catalog is waited for: where all cores are busy, one that is given up is an
    accident that nobody asked for. Tests in which nobody answers say less."""
    return 60_000


@pytest.fixture
def far_lake(spark: SparkSession, network: CommitNetwork, answer_ms: int) -> Iterator[Lake]:
    """The catalog as seen through the network."""
    with Client(network.uri) as client:
        opened = Lake(spark, client, settings={"rest.client.socket-timeout-ms": str(answer_ms)})
        yield opened
        opened.close()


@pytest.fixture
def make_table(lake: Lake) -> MakeTable:
    """A new table of two columns at each call."""
    return lambda: lake.create(("lake",), f"t{next(_numbers)}", SCHEMA)


@pytest.fixture
def table(make_table: MakeTable) -> LakeTable:
    return make_table()


@pytest.fixture
def reader(client: Client, table: LakeTable) -> Reader:
    """The table as PyIceberg and the REST client see it."""
    return Reader(client, table)


@pytest.fixture
def pair(client: Client, make_table: MakeTable) -> Pair:
    return Pair(client, make_table(), make_table())


@pytest.fixture(scope="module")
def duck(frazil_sqlite: FrazilServer) -> Iterator[Any]:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in duckdb_extensions():
        connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{frazil_sqlite.catalog_uri}', AUTHORIZATION_TYPE 'none')"
    )
    yield connection
    connection.close()
