"""Where the copies of the change data example are, and the engines that read them."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from frazil.cli.demo_engines import DUCKDB, _extension
from frazil.cli.example_cdc_shop import Rows, Shop, add
from frazil.cli.example_settings import warehouse_named
from frazil.client import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: All rows of a table, by namespace and name.
Read: TypeAlias = Callable[[str, str], list[dict[str, Any]]]


@dataclass(frozen=True)
class Lake:
    """A catalog, and the namespace of a copy; with several copies it begins their namespaces."""

    uri: str
    warehouse: str | None
    namespace: str

    @property
    def settings(self) -> str:
        named = f', warehouse: "{self.warehouse}"' if self.warehouse else ""
        return f'uri: "{self.uri}"{named}'

    def client(self) -> Client:
        return Client(self.uri, warehouse=self.warehouse)


@dataclass(frozen=True)
class Copy:
    """The tables of a shop in the lake."""

    shop: Shop
    lake: Lake
    namespace: str

    def rows(self, read: Read) -> Rows:
        """Of the tables that are there by now."""
        found: Rows = {}
        for table in self._there():
            for row in read(self.namespace, table):
                add(found, table, row)
        return found

    def _there(self) -> list[str]:
        with self.lake.client() as client:
            return [table for table in self.shop.tables if client.tables.exists(self.namespace, table)]


@contextlib.contextmanager
def a_lake(home: Path) -> Iterator[Lake]:
    """The server that `LAKEKEEPER` names, or one of our own for as long as this takes."""
    if given := os.environ.get("LAKEKEEPER"):
        # Tables of earlier runs are of other databases, and stay.
        namespace = f"shop_{secrets.token_hex(3)}"
        yield Lake(given.rstrip("/"), warehouse_named(os.environ), namespace)
        return
    from frazil.devstack.frazil_server import FrazilServer

    with FrazilServer(home / "catalog") as server:
        yield Lake(server.uri, None, "shop")


@contextlib.contextmanager
def engines(lake: Lake, spark: SparkSession | None = None) -> Iterator[dict[str, Read]]:
    """By name; DuckDB only where it and its extensions are installed, and the catalog lets everybody in."""
    from pyiceberg.catalog.rest import RestCatalog

    with contextlib.ExitStack() as stack:
        client = stack.enter_context(lake.client())
        properties = client.iceberg_properties()
        catalog = stack.enter_context(RestCatalog("lake", **properties))
        found: dict[str, Read] = {
            "PyIceberg": lambda namespace, table: (
                catalog.load_table((namespace, table)).scan().to_arrow().to_pylist()
            )
        }
        if all(util.find_spec(name) for name in DUCKDB) and "rest.auth.type" not in properties:
            found["DuckDB"] = stack.enter_context(_duckdb(properties))
        if spark is not None:
            from frazil.lake.session import use_catalog

            use_catalog(spark, "lake", client)
            found["Spark"] = lambda namespace, table: (
                spark.table(f"lake.{namespace}.{table}").toArrow().to_pylist()
            )
        yield found


@contextlib.contextmanager
def _duckdb(properties: Mapping[str, str]) -> Iterator[Read]:
    import duckdb

    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in DUCKDB[1:]:
            connection.execute(f"LOAD '{_extension(name)}'")
        connection.execute(
            f"ATTACH '{properties.get('warehouse', '')}' AS lake "
            f"(TYPE iceberg, ENDPOINT '{properties['uri']}', AUTHORIZATION_TYPE 'none')"
        )
        yield (
            lambda namespace, table: (
                connection.execute(f"SELECT * FROM lake.{namespace}.{table}").to_arrow_table().to_pylist()  # noqa: S608
            )
        )


def differences(wanted: Rows, found: Rows) -> list[str]:
    """What is wrong with `found`, in lines to read."""
    lines = []
    for table, key in sorted(wanted.keys() | found.keys()):
        left, right = wanted.get((table, key), []), found.get((table, key), [])
        if left != right:
            what = "is missing" if not right else "is not in the database" if not left else "differs"
            what = "is there more than once" if len(right) > 1 else what
            lines.append(f"{table}: the row {key} {what}")
    return lines
