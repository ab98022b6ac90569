"""What the tests of corrections share: tables of every kind, and a reader that uses none of our own code."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from tests.hot.read.world import HotWorld
from tests.stream.world import World, empty

from frazil.client import Client
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore
from frazil.lake.catalog import Lake
from frazil.lake.session import use_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
COLUMNS = Schema(
    (
        Field("id", "long", required=True),
        Field("day", "date"),
        Field("word", "string"),
        Field("amount", "decimal(10, 2)"),
    )
)
FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)
#: Rows that others delete are deleted by position.
_DELETES = {"write.delete.mode": "merge-on-read"}
RANGE = "day = DATE '2026-01-01'"


def row(number: int, day: date = FIRST, word: str = "x") -> tuple[Any, ...]:
    return (number, day, word, Decimal(number).scaleb(-1).quantize(Decimal("0.01")))


@dataclass
class Shop:
    """One warehouse."""

    spark: SparkSession
    client: Client
    lake: Lake
    other: Catalog
    catalog: str

    def table(
        self,
        *rows: tuple[Any, ...],
        version: int = 2,
        key: Sequence[str] = (),
        parts: Sequence[str] = (),
        prefix: str = "t",
    ) -> Orders:
        name = f"correct.{prefix}{os.getpid()}_{next(_numbers)}"
        namespace, table = name.split(".")
        self.lake.create((namespace,), table, COLUMNS, parse_partitioning(parts), _DELETES, version, key)
        made = Orders(self, name)
        if rows:
            made.append(*rows)
        return made


@dataclass
class Orders:
    shop: Shop
    name: str

    @property
    def full(self) -> str:
        return f"{self.shop.catalog}.{self.name}"

    def append(self, *rows: tuple[Any, ...]) -> None:
        frame = self.shop.spark.createDataFrame(list(rows), COLUMNS.to_spark_ddl())
        frame.coalesce(1).writeTo(self.full).append()

    def sql(self, text: str) -> None:
        self.shop.spark.sql(text.format(table=self.full))

    def loaded(self) -> Table:
        return self.shop.other.load_table(self.name)

    def rows(self, branch: str = "main") -> Counter[tuple[Any, ...]]:
        """By PyIceberg."""
        table = self.loaded()
        snapshot = table.refs()[branch].snapshot_id
        found = table.scan(snapshot_id=snapshot).to_arrow()
        return Counter(tuple(one[field.name] for field in COLUMNS) for one in found.to_pylist())

    def head(self) -> int:
        return self.loaded().refs()["main"].snapshot_id

    def files(self) -> set[str]:
        """Of this table, on disk."""
        place = Path(self.loaded().location().removeprefix("file://")) / "data"
        return {str(path) for path in place.rglob("*") if path.is_file() and path.suffix != ".crc"}


@pytest.fixture(scope="session")
def shop(spark: SparkSession, frazil_sqlite: FrazilServer) -> Iterator[Shop]:
    with _opened(spark, frazil_sqlite, "default") as made:
        yield made


@pytest.fixture
def s3_shop(spark: SparkSession, frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Iterator[Shop]:
    """Keys are vended."""
    with Client(frazil_sqlite.uri) as client:
        client.warehouses.create("corrections", *object_store.warehouse_storage("corrections", "hot"))
    with _opened(spark, frazil_sqlite, "corrections") as made:
        yield made


@contextmanager
def _opened(spark: SparkSession, server: FrazilServer, warehouse: str) -> Iterator[Shop]:
    name = f"correct_{warehouse}"
    with Client(server.uri, warehouse=warehouse) as client:
        use_catalog(spark, name, client)
        with (
            closing(Lake(spark, client)) as lake,
            closing(load_catalog(name, type="rest", uri=server.catalog_uri, warehouse=warehouse)) as other,
        ):
            yield Shop(spark, client, lake, other, name)


@pytest.fixture
def world(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> World:
    empty(frazil_sqlite)
    return World(kafka, spark, frazil_sqlite)


@pytest.fixture
def client(frazil_sqlite: FrazilServer) -> Iterator[Client]:
    with Client(frazil_sqlite.uri, warehouse="default") as found:
        yield found


@pytest.fixture
def hot(kafka: Kafka, spark: SparkSession, frazil_sqlite: FrazilServer) -> Iterator[HotWorld]:
    found = HotWorld(kafka, spark, frazil_sqlite)
    yield found
    found.close()
