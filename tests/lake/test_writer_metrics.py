from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
from tests.lake import everything

from frazil.core.schema import Field, ListType, Schema, StructType
from frazil.lake.catalog import Lake
from frazil.lake.files import DataFile, FileOptions, Metrics
from frazil.lake.table import LakeTable


def of_iceberg(table: LakeTable, file: DataFile) -> Metrics:
    """What Iceberg itself finds in the file."""
    iceberg = table.lake.iceberg
    config = iceberg.MetricsConfig.forTable(table.java)
    found = iceberg.parquet.ParquetUtil.fileMetrics(table.java.io().newInputFile(file.path), config)
    return Metrics(
        _counts(found.columnSizes()),
        _counts(found.valueCounts()),
        _counts(found.nullValueCounts()),
        _counts(found.nanValueCounts()),
        _bytes(found.lowerBounds()),
        _bytes(found.upperBounds()),
    )


def _counts(found: Any) -> dict[int, int]:
    return dict(found or {})


def _bytes(found: Any) -> dict[int, bytes]:
    return {
        key: bytes(buffer.array())[
            buffer.arrayOffset() + buffer.position() : buffer.arrayOffset() + buffer.limit()
        ]
        for key, buffer in (found or {}).items()
    }


def without_nans(metrics: Metrics) -> Metrics:
    """Footers do not count NaN values, so Iceberg cannot tell either."""
    return dataclasses.replace(metrics, nan_value_counts={})


def test_every_type(lake: Lake) -> None:
    table = everything.make(lake)
    (file,) = everything.write(table, everything.rows(0, 1, 2, 3))
    assert without_nans(file.metrics) == of_iceberg(table, file)
    ids = {field.name: field.id for field in table.schema}
    x = table.schema.field("st").type.fields[0].id  # type: ignore[union-attr]
    assert file.metrics.nan_value_counts == {ids["f"]: 1, ids["d"]: 1, x: 1}


def test_several_row_groups(lake: Lake) -> None:
    table = everything.make(lake)
    many = [everything.rows(*range(start, start + 500)) for start in range(0, 4000, 500)]
    (file, *_) = everything.write(table, *many, options=FileOptions(size=100_000))
    assert len(file.split_offsets) > 1
    assert without_nans(file.metrics) == of_iceberg(table, file)
    assert file.split_offsets[0] == 4


def test_only_the_first_columns(lake: Lake) -> None:
    inner = StructType(tuple(Field(f"i{n}", "int") for n in range(5)))
    schema = Schema(
        (Field("s", inner), Field("l", ListType("int")), *(Field(f"c{n}", "int") for n in range(120)))
    )
    table = everything.make(lake, schema)
    batch = pa.RecordBatch.from_pylist([{f"c{n}": n for n in range(120)}], schema=table.schema.to_arrow())
    (file,) = everything.write(table, batch)
    assert file.metrics == of_iceberg(table, file)
