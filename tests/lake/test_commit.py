"""Data files as they are described to Iceberg, read back by PyIceberg."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from pyiceberg.catalog import load_catalog
from tests.lake.support import at, first, write_file

from frazil.client import Client
from frazil.core.partitioning import parse_partitioning
from frazil.core.schema import Field, Schema
from frazil.lake.catalog import Lake
from frazil.lake.commit import content_json
from frazil.lake.files import DataFile, Metrics
from frazil.lake.writers import PipelineWriter

PARTITIONS: dict[str, tuple[str, str, Any, Any]] = {
    # Column: its type, its partition field, the value in the spec's JSON form, and as PyIceberg reads it.
    "flag": ("boolean", "flag", True, True),
    "code": ("string", "truncate(2, code)", "ab", "ab"),
    "price": ("decimal(9, 2)", "price", "-14.20", Decimal("-14.20")),
    "day": ("date", "day", "2026-08-21", date(2026, 8, 21)),
    "at": ("timestamptz", "hour(at)", 496_000, 496_000),
    "seen": ("timestamp", "day(seen)", "2026-08-21", date(2026, 8, 21)),
    "number": ("long", "bucket(16, number)", 7, 7),
    "empty": ("string", "empty", None, None),
}


def test_partitions_and_metrics(lake: Lake, client: Client) -> None:
    columns = tuple(Field(name, row[0]) for name, row in PARTITIONS.items())
    schema = Schema((Field("id", "long", required=True), *columns))
    fields = parse_partitioning([row[1] for row in PARTITIONS.values()])
    table = lake.create(("lake",), "partitioned", schema, fields)
    writer = PipelineWriter.claim(lake, table, "orders", first, "")
    ticket = writer.begin()
    plain = write_file(table, ticket.prefix, [1, 2, 3])
    values = [row[2] for row in PARTITIONS.values()]
    metrics = Metrics(
        column_sizes={1: 30, 2: 40},
        value_counts={1: 3, 2: 3},
        null_value_counts={1: 0, 2: 3},
        nan_value_counts={2: 1},
        lower_bounds={1: (1).to_bytes(8, "little"), 3: b"ab"},
        upper_bounds={1: (3).to_bytes(8, "little")},
    )
    partition = {field.field_id: value for field, value in zip(table.spec.fields, values, strict=True)}
    file = DataFile(plain.path, plain.size, 3, table.spec.id, partition, metrics, (4, 99))
    writer.commit(ticket, {str(table): [file]}, positions=at(3), read=3, written=3, watermark=None)

    catalog = load_catalog("reader", type="rest", uri=f"{client.uri}/catalog")
    (row,) = catalog.load_table("lake.partitioned").inspect.files().to_pylist()
    assert row["file_path"] == plain.path
    assert (row["record_count"], row["file_size_in_bytes"], row["split_offsets"]) == (3, plain.size, [4, 99])
    assert list(row["partition"].values()) == [row[3] for row in PARTITIONS.values()]
    assert dict(row["column_sizes"]) == metrics.column_sizes
    assert dict(row["value_counts"]) == metrics.value_counts
    assert dict(row["null_value_counts"]) == metrics.null_value_counts
    assert dict(row["nan_value_counts"]) == metrics.nan_value_counts
    assert dict(row["lower_bounds"]) == metrics.lower_bounds
    assert dict(row["upper_bounds"]) == metrics.upper_bounds


def test_what_is_not_known_is_not_said() -> None:
    document = content_json(DataFile("file:/x", 1, 1, 0, {1000: None}, Metrics()))
    assert document["partition"] == {}
    assert "split-offsets" not in document
    assert not any(name.endswith(("-counts", "-sizes", "-bounds")) for name in document)
