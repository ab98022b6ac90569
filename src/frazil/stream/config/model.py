"""A pipeline's configuration after it was read and checked. YAML and Python both end here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from frazil.core.partitioning import PartitionField
from frazil.core.schema import Schema
from frazil.lake.files import FileOptions


@dataclass(frozen=True)
class CatalogConfig:
    """Where the tables are. What is None comes from the environment, as for `frazil.client.Client`."""

    uri: str | None = None
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    #: The catalog's name in SQL transforms.
    name: str = "lake"


@dataclass(frozen=True)
class SparkConfig:
    master: str = "local[*]"
    #: Values may be secrets.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Start:
    """Where a pipeline that never ran begins: at the earliest or latest record, a time, or given offsets."""

    at: Literal["earliest", "latest"] | datetime | Mapping[str, tuple[int, ...]] = "earliest"


@dataclass(frozen=True)
class KafkaSource:
    #: Client settings of librdkafka, `bootstrap.servers` among them; values may be secrets.
    settings: Mapping[str, str] = field(repr=False)
    topics: tuple[str, ...] = ()
    #: Instead of topics: all whose whole name matches this regular expression.
    pattern: str | None = None
    start: Start = field(default_factory=Start)


@dataclass(frozen=True)
class JsonFormat:
    #: How times are written: ISO 8601 text, or a number of seconds, milliseconds or microseconds since 1970.
    timestamps: Literal["iso", "s", "ms", "us"] = "iso"


@dataclass(frozen=True)
class Transform:
    """SQL over the view `source`, or a function from DataFrame to DataFrame."""

    sql: str | None = None
    function: Callable[..., Any] | None = None
    #: What the configuration hash and messages call the function.
    reference: str | None = None


@dataclass(frozen=True)
class TableConfig:
    namespace: tuple[str, ...]
    name: str
    partitioning: tuple[PartitionField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    files: FileOptions = field(default_factory=FileOptions)
    format_version: int = 2


@dataclass(frozen=True)
class Limits:
    """What one round may take."""

    records_per_round: int = 4_000_000
    #: A task gets at least this many, so that small rounds make few files.
    records_per_task: int = 100_000


@dataclass(frozen=True)
class PipelineConfig:
    name: str
    source: KafkaSource
    format: JsonFormat
    #: The columns of a decoded record.
    schema: Schema
    table: TableConfig
    #: Seconds between commits.
    freshness: float = 30.0
    event_time: str | None = None
    transform: Transform | None = None
    limits: Limits = field(default_factory=Limits)
    #: Of everything that decides which rows land, secrets left out.
    hash: str = ""


@dataclass(frozen=True)
class Pipelines:
    """One file: a catalog, a Spark, and pipelines by name."""

    catalog: CatalogConfig
    spark: SparkConfig
    pipelines: tuple[PipelineConfig, ...]
