"""What a task needs to know to write files of a table, and what it tells about those it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Schema

MEGABYTE = 1024 * 1024


@dataclass(frozen=True)
class FileOptions:
    """How data files are made."""

    size: int = 128 * MEGABYTE
    compression: str = "zstd"
    compression_level: int | None = None
    #: `parquet`, `orc` or `avro`.
    format: str = "parquet"


@dataclass(frozen=True)
class WriteTarget:
    """A table as the writer in a task sees it: picklable, without any key."""

    #: Where data files go, with its scheme, without a slash at the end.
    location: str
    schema: Schema
    spec: PartitionSpec
    options: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True)
class Metrics:
    """Per field id. Bounds are in Iceberg's single-value binary form."""

    column_sizes: dict[int, int] = field(default_factory=dict)
    value_counts: dict[int, int] = field(default_factory=dict)
    null_value_counts: dict[int, int] = field(default_factory=dict)
    nan_value_counts: dict[int, int] = field(default_factory=dict)
    lower_bounds: dict[int, bytes] = field(default_factory=dict)
    upper_bounds: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFile:
    """A file that was written and is not yet part of the table."""

    path: str
    size: int
    records: int
    spec_id: int
    #: Partition values by the spec's field ids, in the spec's JSON single-value form.
    partition: dict[int, Any]
    metrics: Metrics
    split_offsets: tuple[int, ...] = ()
