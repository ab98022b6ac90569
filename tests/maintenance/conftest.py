"""Tables on a real catalog, and a pipeline that commits small files to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from tests.lake.conftest import SCHEMA
from tests.lake.support import Reader, first

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable
from frazil.lake.writers import PipelineWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)

Claim = Callable[[str], PipelineWriter]


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
def table(lake: Lake) -> LakeTable:
    return lake.create(("kept",), f"t{next(_numbers)}", SCHEMA)


@pytest.fixture
def reader(client: Client, table: LakeTable) -> Reader:
    return Reader(client, table)


@pytest.fixture
def claim(lake: Lake, table: LakeTable) -> Claim:
    """A writer with a view of the table of its own."""

    def claimed(pipeline: str) -> PipelineWriter:
        own = lake.load(table.namespace, table.name)
        return PipelineWriter.claim(lake, own, pipeline, first, "config")

    return claimed
