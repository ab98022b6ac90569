"""Data files in ORC and Avro hold what those in Parquet hold, and say the same about it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession, functions
from tests.lake import everything
from tests.lake.support import at, first, local
from tests.lake.test_writer_readers import PRIMITIVES, expected, shown

from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.core.partitioning import PartitionSpec, parse_partitioning
from frazil.core.schema import Field, Schema, StructType, parse_type
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.catalog import Lake
from frazil.lake.files import DataFile, FileOptions, WriteTarget
from frazil.lake.storage import FileStorage
from frazil.lake.table import LakeTable
from frazil.lake.writer import TableWriter
from frazil.lake.writers import PipelineWriter

FORMATS = ["orc", "avro"]
ALL = range(2 * everything.ROWS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_FIRST = datetime(1, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC).replace(tzinfo=None)


def schema_for(format_: str) -> Schema:
    """ORC is told apart below: a column has fractions of seconds before 1970."""
    return Schema(tuple(field for field in everything.SCHEMA if format_ != "orc" or field.name != "ts"))


def fill(lake: Lake, format_: str, schema: Schema) -> tuple[LakeTable, list[DataFile]]:
    """A file for each row, so that every bound decides about one row, and one for all of them."""
    table, options = everything.make(lake, schema), FileOptions(format=format_)
    batches = [everything.rows(number, schema=schema) for number in range(everything.ROWS)]
    batches.append(everything.rows(*range(everything.ROWS, 2 * everything.ROWS), schema=schema))
    files = []
    for number, batch in enumerate(batches):
        files += everything.write(table, batch, options=options, number=number)
    everything.append(table, files)
    return table, files


@pytest.fixture(scope="module", params=FORMATS)
def filled(request: pytest.FixtureRequest, lake: Lake) -> tuple[LakeTable, list[DataFile]]:
    return fill(lake, request.param, schema_for(request.param))


def test_spark_reads_all(spark: SparkSession, filled: tuple[LakeTable, list[DataFile]]) -> None:
    table, files = filled
    assert {Path(file.path).suffix for file in files} == {f".{files[0].format}"}
    found = spark.table(f"frazil.writer.{table.name}").toArrow()
    assert shown(found) == expected(ALL, table.schema)


def test_orc_finds_every_value(spark: SparkSession, lake: Lake) -> None:
    """It keeps statistics of its own, by which Iceberg leaves rows out."""
    table, _ = fill(lake, "orc", schema_for("orc"))
    frame = spark.table(f"frazil.writer.{table.name}")
    asked, wanted = [], []
    for column in set(PRIMITIVES) & set(frame.columns):
        values = everything.COLUMNS[column][1]
        known = values[1]
        given = str(known) if isinstance(known, uuid.UUID) else known
        asked.append(frame.where(functions.col(column) == functions.lit(given)))
        wanted.append((column, 2 * values.count(known)))
    rows = [
        one.agg(functions.count("*").alias("count")).withColumn("asked", functions.lit(what))
        for one, (what, _) in zip(asked, wanted, strict=True)
    ]
    found = reduce(DataFrame.unionAll, rows).collect()
    assert sorted((row["asked"], row["count"]) for row in found) == sorted(wanted)


def test_metrics_are_those_of_parquet(lake: Lake, filled: tuple[LakeTable, list[DataFile]]) -> None:
    schema = filled[0].schema
    _, wanted = fill(lake, "parquet", schema_for(filled[1][0].format))
    for file, other in zip(filled[1], wanted, strict=True):
        metrics = replace(other.metrics, column_sizes={})
        uid = schema.field("u").id
        # Parquet's footer is without statistics of uuid.
        metrics.value_counts[uid] = file.records
        metrics.null_value_counts[uid] = file.metrics.null_value_counts[uid]
        assert file.metrics == metrics
        assert (file.records, file.partition, file.size) == (
            other.records,
            {},
            local(file.path).stat().st_size,
        )


MORE: dict[str, tuple[str, Sequence[Any]]] = {
    "id": ("long", [0, 1, 2]),
    "clock": ("time", [time(23, 59, 59, 999999), time(0), None]),
    "clocks": ("list<time>", [[time(1), None], [], None]),
    "odd name é-1": ("string", ["x", None, ""]),
    "odd": (
        "struct<`a-b`: int, `1`: struct<`c d`: decimal(5, 2)>>",
        [{"a-b": 1, "1": {"c d": Decimal("1.20")}}, None, {"a-b": None, "1": None}],
    ),
    "by_int": ("map<int, struct<d: decimal(9, 2)>>", [[(1, {"d": Decimal("-0.01")}), (2, None)], [], None]),
    "by_day": ("map<date, list<uuid>>", [[(date(1969, 1, 1), [uuid.UUID(int=7).bytes])], None, []]),
    "by_dec": ("map<decimal(9, 2), string>", [[(Decimal("1.00"), "abc")], None, []]),
    "by_struct": (
        "map<struct<k: string>, timestamptz>",
        [[({"k": "a"}, datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC))], None, []],
    ),
    "deep": (
        "map<string, map<string, list<map<int, double>>>>",
        [[("a", [("b", [[(1, 0.5)], None])])], [], None],
    ),
    "ts": (
        "timestamp",
        [_EPOCH - timedelta(seconds=1), _FIRST, _LAST],
    ),
    "tz": (
        "timestamptz",
        [
            datetime(1969, 12, 31, 23, 59, 58, tzinfo=UTC),
            datetime(1583, 1, 1, tzinfo=UTC),
            None,
        ],
    ),
}
MORE_SCHEMA = Schema(
    tuple(Field(name, parse_type(kind), required=name == "id") for name, (kind, _) in MORE.items())
)


def more(schema: Schema) -> pa.RecordBatch:
    arrow = schema.to_arrow()
    return pa.RecordBatch.from_arrays(
        [pa.array(list(MORE[field.name][1]), field.type) for field in arrow], schema=arrow
    )


def generic_rows(table: LakeTable) -> list[str]:
    """By Iceberg's own reader without Spark, which knows every type."""
    found = table.lake.iceberg.data.IcebergGenerics.read(table.java).build().iterator()
    rows = []
    while found.hasNext():
        rows.append(table.lake.json.writeValueAsString(str(found.next().copy())))
    return sorted(rows)


@pytest.mark.parametrize("format_", FORMATS)
def test_what_spark_does_not_know(format_: str, lake: Lake) -> None:
    """Times, maps by anything, names that are none in Avro, the first and the last moment."""
    seen = []
    for each in (format_, "parquet"):
        table = everything.make(lake, MORE_SCHEMA)
        options = FileOptions(format=each)
        everything.append(table, everything.write(table, more(table.schema), options=options))
        table.java.refresh()
        seen.append(generic_rows(table))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "list<timestamp>", "map<string, timestamptz>"])
def test_moments_that_orc_does_not_hold(kind: str, tmp_path: Path) -> None:
    """pyarrow's ORC of them is read as another second; what is whole, later or null is fine."""
    schema = Schema((Field("s", StructType((Field("x", parse_type(kind)),))),)).with_fresh_ids()
    target = WriteTarget(f"file://{tmp_path}", schema, PartitionSpec(), FileOptions(format="orc"))
    moments = [1_500_000, 0, -1_000_000, -62_135_596_800_000_000, None, -1_500_000]

    def write(values: Sequence[Any]) -> list[DataFile]:
        writer = TableWriter(target, FileStorage.of(target.location, None), f"{target.location}/x")
        wrapped = [
            [("k", value)] if "map" in kind else [value] if "list" in kind else value for value in values
        ]
        rows = pa.array([{"x": value} for value in wrapped], schema.to_arrow().field("s").type)
        writer.write(pa.RecordBatch.from_arrays([rows], names=["s"]))
        return writer.close()

    assert write(moments[:-1])[0].records == 5
    with pytest.raises(InvalidInput, match=r"'s.x.*' has a moment before 1970 with a fraction"):
        write(moments)


def test_pyiceberg_reads_orc(lake: Lake, frazil_sqlite: FrazilServer) -> None:
    table, _ = fill(lake, "orc", schema_for("orc"))
    schema = Schema(tuple(field for field in table.schema if field.name not in ("ls", "u", "lu", "fx")))
    names = tuple(field.name for field in schema)
    with load_catalog("formats", type="rest", uri=frazil_sqlite.catalog_uri) as catalog:
        found = catalog.load_table(("writer", table.name)).scan(selected_fields=names).to_arrow()
    assert shown(found) == expected(ALL, schema)


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_renamed_dropped_and_made_again(format_: str, spark: SparkSession, lake: Lake) -> None:
    """Files are read by ids, not by names."""
    nested = StructType((Field("x", "int"),))
    schema = Schema(
        (
            Field("id", "long"),
            Field("a", "string"),
            Field("b", "string"),
            Field("s", nested),
        )
    )
    table, options = everything.make(lake, schema), FileOptions(format=format_)
    name = f"frazil.writer.{table.name}"

    def write(number: int, row: dict[str, Any]) -> None:
        table.refresh()
        batch = pa.RecordBatch.from_pylist([row], schema=table.schema.to_arrow())
        everything.append(table, everything.write(table, batch, options=options, number=number))

    write(0, {"id": 0, "a": "a0", "b": "b0", "s": {"x": 1}})
    for change in ("RENAME COLUMN a TO c", "DROP COLUMN b", "ADD COLUMN b string", "ADD COLUMN a string"):
        spark.sql(f"ALTER TABLE {name} {change}")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN s.x TO y")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN s.y TYPE bigint")
    write(1, {"id": 1, "a": "a1", "b": "b1", "c": "c1", "s": {"y": 2**40}})
    found = spark.sql(f"SELECT id, a, b, c, s.y FROM {name} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(0, None, None, "a0", 1), (1, "a1", "b1", "c1", 2**40)]


CODECS = {
    "orc": ("zstd", "snappy", "gzip", "zlib", "lz4", "none"),
    "avro": ("zstd", "snappy", "gzip", "deflate", "none"),
}


@pytest.mark.parametrize("format_", FORMATS)
def test_compression(format_: str, spark: SparkSession, lake: Lake) -> None:
    table = everything.make(lake, Schema((Field("n", "long"), Field("s", "string"))))
    count = 30_000
    words = pa.array([f"word {number % 7}" for number in range(count)])
    batch = pa.RecordBatch.from_arrays([pa.array(range(count)), words], names=["n", "s"])
    for number, compression in enumerate(CODECS[format_]):
        options = FileOptions(format=format_, compression=compression)
        (file,) = everything.write(table, batch, options=options, number=number)
        everything.append(table, [file])
        # Avro has no encodings, so there compression shows.
        if format_ == "avro":
            assert (file.size > 10 * count) == (compression == "none")
            with local(file.path).open("rb") as opened:
                assert fastavro.reader(opened).codec == options.codec
    query = "SELECT count(*), sum(n), count(DISTINCT s) FROM {} GROUP BY input_file_name()"
    found = spark.sql(query.format(f"frazil.writer.{table.name}")).collect()
    assert [tuple(row) for row in found] == [(count, count * (count - 1) // 2, 7)] * len(CODECS[format_])


REFUSED = {
    "another format": ({"format": "csv"}, "legal: parquet, orc, avro"),
    "no such codec": ({"compression": "rar"}, "parquet files have no compression 'rar'; legal: zstd"),
    "not in Avro": ({"format": "avro", "compression": "lz4"}, "legal: zstd, snappy, gzip, none"),
    "no levels": ({"format": "orc", "compression_level": 3}, "ORC files have no compression level"),
}


@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        FileOptions(**options)


@pytest.mark.parametrize("format_", FORMATS)
def test_files_roll_near_their_size(format_: str, tmp_path: Path) -> None:
    schema = Schema((Field("n", "long", id=1),))
    options = FileOptions(size=40_000, format=format_, compression="none")
    target = WriteTarget(f"file://{tmp_path}", schema, PartitionSpec(), options)
    writer = TableWriter(target, FileStorage.of(target.location, None), f"{target.location}/x")
    for start in range(0, 200_000, 1000):
        # Not in order, for ORC would write the steps only.
        numbers = [hash((start, number)) for number in range(1000)]
        writer.write(pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=["n"]))
    files = writer.close()
    assert sum(file.records for file in files) == 200_000
    assert all(20_000 < file.size < 100_000 for file in files[:-1])


@pytest.mark.parametrize("format_", FORMATS)
def test_nothing_is_left_of_an_aborted_write(format_: str, tmp_path: Path) -> None:
    schema = Schema((Field("n", "long", id=1),))
    target = WriteTarget(f"file://{tmp_path}", schema, PartitionSpec(), FileOptions(1000, format=format_))
    writer = TableWriter(target, FileStorage.of(target.location, None), f"{target.location}/x")
    for start in range(0, 3000, 500):
        writer.write(pa.RecordBatch.from_arrays([pa.array(range(start, start + 500))], names=["n"]))
    assert list(tmp_path.iterdir())
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", FORMATS)
def test_a_round_of_a_pipeline(format_: str, spark: SparkSession, lake: Lake) -> None:
    """Partitioned, committed with its stamp, and mixed with files in Parquet."""
    schema = Schema((Field("id", "long", required=True), Field("day", "date")))
    table = lake.create(("writer",), f"round_{format_}", schema, parse_partitioning(["day"]))
    writer = PipelineWriter.claim(lake, table, "orders", first, "")
    for number, each in enumerate((format_, "parquet")):
        ticket = writer.begin()
        target = table.write_target(FileOptions(format=each))
        made = TableWriter(target, FileStorage.of(target.location, None), f"{ticket.prefix}-00000-0")
        days = [date(2026, 1, 1 + day) for day in range(2)] * 5
        ids = pa.array(range(10 * number, 10 * number + 10))
        made.write(pa.RecordBatch.from_arrays([ids, pa.array(days)], names=["id", "day"]))
        files = made.close()
        assert len(files) == 2
        writer.commit(ticket, {str(table): files}, positions=at(1), read=1, written=1, watermark=None)
    frame = spark.table(f"frazil.writer.{table.name}")
    assert sorted(row.id for row in frame.collect()) == list(range(20))
    assert frame.where("day = date'2026-01-02'").count() == 10
