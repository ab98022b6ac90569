"""Every row of a database's table against its copy in Iceberg, as several engines read that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, time
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from tests.clients.support import duckdb_extensions
from tests.stream.cdc.sources import Database, Row

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.session import use_catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENGINES = ("pyiceberg", "spark", "duckdb")
_MOST_LINES = 25
_MOST_CHARACTERS = 120


def canonical(value: Any) -> Any:
    """A value in the one form in which it can be compared, whoever read it."""
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case Decimal():
            return value.normalize()
        case UUID():
            return str(value)
        case time():
            # Spark knows no such type, and so a copy has them as text.
            return value.isoformat("microseconds")
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case list() | tuple():
            return [canonical(each) for each in value]
        case _:
            return value


def differences(expected: Iterable[Row], found: Iterable[Row], key: Sequence[str]) -> list[str]:
    """What is wrong with `found`, in lines to read; columns that only it has do not count.

    A source's dropped column stays in its copy.
    """
    lines: list[str] = []
    wanted = {_key(row, key): row for row in expected}
    seen: set[tuple[Any, ...]] = set()
    for row in found:
        at = _key(row, key)
        if at in seen:
            lines.append(f"{_shown_key(key, at)}: there is more than one such row")
        elif at not in wanted:
            lines.append(f"{_shown_key(key, at)}: the database has no such row")
        else:
            lines += [f"{_shown_key(key, at)}: {line}" for line in _columns(wanted[at], row)]
        seen.add(at)
    lines += [f"{_shown_key(key, at)}: the row is missing" for at in wanted if at not in seen]
    return lines


def explain(lines: Sequence[str]) -> str:
    left = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"… and {left} more"] if left > 0 else [])])


class Readers:
    """The engines, each with the catalog of a server.

    >>> with Readers(server, spark) as readers:
    ...     readers.compare(source, workload.tables, namespace="shop")
    """

    def __init__(self, server: FrazilServer, spark: SparkSession, warehouse: str = "default") -> None:
        self._server = server
        self._spark = spark
        self._warehouse = warehouse
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        settings = {"type": "rest", "uri": self._server.catalog_uri, "warehouse": self._warehouse}
        self._pyiceberg = self._stack.enter_context(load_catalog("compare", **settings))
        self._duck = self._stack.enter_context(_duckdb(self._server.catalog_uri, self._warehouse))
        with Client(self._server.uri, warehouse=self._warehouse) as client:
            use_catalog(self._spark, "compare", client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def read(self, engine: str, namespace: str, table: str) -> list[Row]:
        """All rows, with the values that the engine gives."""
        found: pa.Table
        if engine == "pyiceberg":
            found = self._pyiceberg.load_table((namespace, table)).scan().to_arrow()
        elif engine == "spark":
            found = self._spark.table(f"compare.{namespace}.{table}").toArrow()
        else:
            # DuckDB keeps what it knows of a table for as long as a transaction lasts.
            found = self._duck.execute(f"SELECT * FROM lake.{namespace}.{table}").to_arrow_table()
        rows: list[Row] = found.to_pylist()
        return rows

    def wrong(
        self,
        source: Database,
        table: str,
        *,
        namespace: str,
        name: str | None = None,
        engines: Sequence[str] = ENGINES,
    ) -> list[str]:
        """What each engine finds otherwise than the database; `name` is the copy's, if it has another."""
        expected = source.rows(table)
        key = source.key(table)
        return [
            f"{engine}: {table}: {line}"
            for engine in engines
            for line in differences(expected, self.read(engine, namespace, name or table), key)
        ]

    def compare(
        self, source: Database, tables: Iterable[str], *, namespace: str, engines: Sequence[str] = ENGINES
    ) -> None:
        """Fails with the differences, if there are any."""
        lines = [
            line
            for table in tables
            for line in self.wrong(source, table, namespace=namespace, engines=engines)
        ]
        assert not lines, explain(lines)


def _duckdb(uri: str, warehouse: str) -> Any:
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in duckdb_extensions():
        connection.execute(f"LOAD '{extension}'")
    # Points in time come back as of this zone.
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        f"ATTACH '{warehouse}' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')"
    )
    return connection


def _key(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(canonical(row[name]) for name in key)


def _shown_key(key: Sequence[str], at: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(key, at, strict=True))


def _columns(wanted: Row, found: Row) -> Iterator[str]:
    for name, value in wanted.items():
        if name not in found and value is None:
            # A column that came at the source and has not been filled: no change has told of it.
            continue
        if name not in found:
            yield f"there is no column {name}"
        elif (left := canonical(value)) != (right := canonical(found[name])):
            yield f"{name}: the database has {_shown(left)}, the table {_shown(right)}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}… ({len(text)} characters)"
