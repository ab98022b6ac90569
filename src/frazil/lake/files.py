"""What a task needs to know to write files of a table, and what it tells about those it wrote."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import PartitionSpec
from frazil.core.schema import Schema

MEGABYTE = 1024 * 1024
_SYNONYMS = {"deflate": "gzip", "zlib": "gzip", "uncompressed": "none"}
_CODECS = {
    "parquet": {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "none": "none"},
    "orc": {"zstd": "zstd", "snappy": "snappy", "gzip": "zlib", "lz4": "lz4", "none": "uncompressed"},
    "avro": {"zstd": "zstandard", "snappy": "snappy", "gzip": "deflate", "none": "null"},
}


@dataclass(frozen=True)
class FileOptions:
    """How data files are made."""

    size: int = 128 * MEGABYTE
    #: `zstd`, `snappy`, `gzip` (`deflate` and `zlib` are the same), `none`; not for Avro: `lz4`.
    compression: str = "zstd"
    #: Not for ORC.
    compression_level: int | None = None
    #: `parquet`, `orc` or `avro`.
    format: str = "parquet"
    #: Of Parquet: whether columns that repeat themselves are looked for, which have a dictionary then.
    dictionaries: bool = True

    def __post_init__(self) -> None:
        if self.format not in _CODECS:
            raise InvalidConfig(f"'{self.format}' is no format of data files; legal: {', '.join(_CODECS)}")
        codecs = _CODECS[self.format]
        if self._compression not in codecs:
            legal = ", ".join(codecs)
            raise InvalidConfig(
                f"{self.format} files have no compression '{self.compression}'; legal: {legal}"
            )
        if self.compression_level is not None and self.format == "orc":
            raise InvalidConfig("ORC files have no compression level: leave it out")

    @property
    def codec(self) -> str:
        """What the format's library calls the compression."""
        return _CODECS[self.format][self._compression]

    @property
    def _compression(self) -> str:
        return _SYNONYMS.get(self.compression, self.compression)


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
    format: str = "parquet"
