"""What was written is found by those who read: all of it, and by every predicate."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import expressions
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import DataFrame, SparkSession, functions
from tests.lake import everything

from frazil.core.partitioning import PartitionField, parse_partitioning
from frazil.core.schema import Field, Schema, StructType
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.table import LakeTable

PRIMITIVES = [name for name, (kind, _) in everything.COLUMNS.items() if "<" not in kind and name != "none"]
ALL = range(2 * everything.ROWS)


@pytest.fixture(scope="module")
def filled(lake: Lake) -> LakeTable:
    """A file for each row, so that every bound decides about one row, and one for all of them."""
    table = everything.make(lake)
    files = [
        file
        for number in range(everything.ROWS)
        for file in everything.write(table, everything.rows(number), number=number)
    ]
    rest = range(everything.ROWS, 2 * everything.ROWS)
    files += everything.write(table, everything.rows(*rest), number=everything.ROWS)
    everything.append(table, files)
    return table


@pytest.fixture(scope="module")
def pyiceberg(frazil_sqlite: FrazilServer) -> Iterator[Catalog]:
    with load_catalog("writer", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        yield catalog


def plain(value: Any) -> Any:
    """A value in the one form in which all readers can be compared: `repr`, because NaN is not NaN."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def shown(table: pa.Table) -> list[str]:
    rows = table.sort_by("n").to_pylist()
    return [repr(plain(row)) for row in rows]


def expected(numbers: Sequence[int], schema: Schema) -> list[str]:
    rows = everything.rows(*numbers, schema=schema).to_pylist()
    for row in rows:
        for name in ("u", "lu"):
            if name in row:
                row[name] = _uuids(row[name])
    return [repr(plain(row)) for row in rows]


def _uuids(value: Any) -> Any:
    if isinstance(value, list):
        return [_uuids(each) for each in value]
    return None if value is None else str(uuid.UUID(bytes=value))


def test_spark_reads_all(spark: SparkSession, filled: LakeTable) -> None:
    found = spark.table(f"frazil.writer.{filled.name}").toArrow()
    assert shown(found) == expected(ALL, filled.schema)


def test_pyiceberg_reads_all(pyiceberg: Catalog, filled: LakeTable) -> None:
    # Without `ls`: of lists that hold structs, it makes empty ones where there are none.
    schema = Schema(tuple(field for field in filled.schema if field.name != "ls"))
    names = tuple(field.name for field in schema)
    found = pyiceberg.load_table(("writer", filled.name)).scan(selected_fields=names).to_arrow()
    assert shown(found) == expected(ALL, schema)


def test_duckdb_reads_all(duck: Any, filled: LakeTable) -> None:
    found = duck.execute(f"SELECT * FROM lake.writer.{filled.name}").to_arrow_table()
    assert shown(found) == expected(ALL, filled.schema)


@dataclass(frozen=True)
class Question:
    """A predicate on one column, for both readers, and the rows that it is true for."""

    column: str
    wanted: list[int]
    pyiceberg: Any
    spark: Any


def questions() -> Iterator[Question]:
    for name in PRIMITIVES:
        values = [everything.COLUMNS[name][1][number % everything.ROWS] for number in ALL]
        column = functions.col(name)
        nulls = [n for n, value in enumerate(values) if value is None]
        yield Question(name, nulls, expressions.IsNull(name), column.isNull())  # type: ignore[call-arg, arg-type]
        if name in ("f", "d"):
            nans = [n for n, value in enumerate(values) if str(value) == "nan"]
            yield Question(name, nans, expressions.IsNaN(name), functions.isnan(column))  # type: ignore[call-arg, arg-type]
        for value in {repr(value): value for value in values if str(value) not in ("None", "nan")}.values():
            same = [n for n, other in enumerate(values) if other == value]
            literal = str(value) if isinstance(value, uuid.UUID) else value
            equal: Any = expressions.EqualTo
            yield Question(name, same, equal(name, literal), column == functions.lit(literal))


def test_pyiceberg_finds_rows_by_every_predicate(pyiceberg: Catalog, filled: LakeTable) -> None:
    """Bounds that are too narrow would hide rows."""
    table = pyiceberg.load_table(("writer", filled.name))
    for question in questions():
        found = table.scan(row_filter=question.pyiceberg, selected_fields=("n",)).to_arrow()["n"].to_pylist()
        assert sorted(found) == question.wanted, question


def test_spark_finds_rows_by_every_predicate(spark: SparkSession, filled: LakeTable) -> None:
    read = spark.table(f"frazil.writer.{filled.name}")
    asked = [question for question in questions() if not isinstance(question.pyiceberg, expressions.IsNull)]
    parts = [
        read.where(question.spark).select(functions.lit(number).alias("question"), "n")
        for number, question in enumerate(asked)
    ]
    found: dict[int, list[int]] = {number: [] for number in range(len(asked))}
    # Compiling as many small queries would take most of the time.
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        for row in reduce(DataFrame.unionAll, parts).collect():
            found[row.question].append(row.n)
    finally:
        for key in settings:
            spark.conf.unset(key)
    for number, question in enumerate(asked):
        assert sorted(found[number]) == question.wanted, question


#: Each with every other in one table would be as good, and slower.
SPECS = [
    ["b", "bucket(4, l)", "truncate(3, s)"],
    ["i", "day(ts)", "bucket(3, u)", "truncate(50, dec18)", "f"],
    ["truncate(10, i)", "hour(tz)", "bucket(8, dec38)", "year(tz)", "s"],
    ["dec9", "month(day)", "bucket(2, bin)", "ts", "u"],
    ["day", "tz", "truncate(5, bin)", "l", "dec38", "bin"],
    ["fx", "bucket(5, fx)"],
]


@pytest.mark.parametrize("texts", SPECS, ids=", ".join)
def test_partitions_are_those_of_spark(
    spark: SparkSession, pyiceberg: Catalog, lake: Lake, texts: list[str]
) -> None:
    # Without NaN, which cannot be told to Iceberg as a partition.
    numbers = [0, 1, 2] if "f" in texts else list(range(everything.ROWS))
    twice = [*numbers, *(number + everything.ROWS for number in numbers)]
    table, twin = everything.make(lake, partitioning=texts), everything.make(lake, partitioning=texts)
    batches = [everything.rows(*numbers), everything.rows(*twice[len(numbers) :])]
    everything.append(table, everything.write(table, *batches))
    name, other = f"frazil.writer.{table.name}", f"frazil.writer.{twin.name}"
    assert shown(spark.table(name).toArrow()) == expected(twice, table.schema)
    spark.sql(f"INSERT INTO {other} SELECT * FROM {name}")
    assert planned(table) == planned(lake.load(twin.namespace, twin.name))
    if "fx" not in texts:
        # PyIceberg cannot read manifests with such partitions, whoever wrote them.
        found = pyiceberg.load_table(("writer", table.name)).scan(selected_fields=("n",)).to_arrow()
        assert sorted(found["n"].to_pylist()) == twice


def planned(table: LakeTable) -> Counter[str]:
    """Rows by partition."""
    tasks, found = table.java.newScan().planFiles().iterator(), Counter[str]()
    while tasks.hasNext():
        file = tasks.next().file()
        found[table.java.spec().partitionToPath(file.partition())] += file.recordCount()
    return found


def test_times_and_structs_as_partitions(duck: Any, pyiceberg: Catalog, lake: Lake) -> None:
    """What Spark has no type for, or no way to write."""
    schema = Schema((Field("n", "long"), Field("t", "time"), Field("s", StructType((Field("day", "date"),)))))
    table = lake.create(
        ("writer",),
        "times",
        schema,
        [PartitionField("t", "identity", "t"), *parse_partitioning(["bucket(3, t)"])],
    )
    rows = [
        {"n": n, "t": t, "s": {"day": n}} for n, t in enumerate([None, time(23, 59, 59, 999999), time(0)])
    ]
    everything.append(
        table, everything.write(table, pa.RecordBatch.from_pylist(rows, table.schema.to_arrow()))
    )
    for found in (
        duck.execute("SELECT n, t FROM lake.writer.times").to_arrow_table(),
        pyiceberg.load_table("writer.times").scan(selected_fields=("n", "t")).to_arrow(),
    ):
        assert found.sort_by("n").column("t").to_pylist() == [row["t"] for row in rows]
