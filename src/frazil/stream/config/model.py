"""A pipeline's configuration after it was read and checked. YAML and Python both end here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from frazil.core.partitioning import PartitionField
from frazil.core.schema import Field, ListType, Schema, StructType, Type
from frazil.lake.files import FileOptions
from frazil.maintenance.settings import Maintenance
from frazil.stream.postgres.source import PostgresSource


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
class History:
    """Rows of an Iceberg table that come first; the log goes on where they end.

    Which is where the stamp of the table's newest stamped snapshot is, unless something else is said.
    """

    namespace: tuple[str, ...]
    name: str
    #: The newest stamped snapshot that is no younger.
    until: datetime | None = None
    #: By topic, where the log goes on behind a table that somebody else filled.
    offsets: Mapping[str, tuple[int, ...]] | None = None
    #: With offsets: the snapshot whose rows they are; None: that of now.
    snapshot: int | None = None


@dataclass(frozen=True)
class KafkaSource:
    #: Client settings of librdkafka, `bootstrap.servers` among them; values may be secrets.
    settings: Mapping[str, str] = field(repr=False)
    topics: tuple[str, ...] = ()
    #: Instead of topics: all whose whole name matches this regular expression.
    pattern: str | None = None
    start: Start = field(default_factory=Start)
    #: Instead of a start.
    history: History | None = None


@dataclass(frozen=True)
class FileSource:
    """Files that arrive in a folder or bucket; each is read once, by name and version."""

    #: The folder: an absolute path, `file:///…` or `s3://bucket/prefix`, without a slash at the end.
    location: str
    #: Which files below it, as a glob over the path behind the location; `**` crosses folders.
    pattern: str = "**"
    #: Of the store, as Iceberg names them (`s3.endpoint`, `s3.access-key-id`, …); values may be secrets.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: A file that was taken and has another version now is read again as a whole, left out, or stops all.
    overwritten: Literal["read", "skip", "stop"] = "read"
    start: Start = field(default_factory=Start)


@dataclass(frozen=True)
class SensorSource:
    """Made-up readings, the same ones whenever they are read again."""

    sensors: int = 5
    #: Readings a second, of all sensors together.
    rate: float = 10.0
    #: How many there are in all; None: no end.
    records: int | None = None
    seed: int = 0
    #: They come in batches: a round takes as many of these as its limit allows, and never a part of one.
    batch: int = 1
    #: Readings are taken only while the pipeline runs; else those of the time between are caught up with.
    live: bool = False


@dataclass(frozen=True)
class TableSource:
    """What is appended to an Iceberg table of the same catalog, or all that happens to it."""

    namespace: tuple[str, ...]
    name: str
    #: Earliest: what is in the table when the pipeline begins comes first.
    start: Start = field(default_factory=Start)
    #: Every row that comes, goes or is replaced, with columns that say which.
    changes: bool = False


Source: TypeAlias = KafkaSource | FileSource | SensorSource | TableSource | PostgresSource
Timestamps: TypeAlias = Literal["iso", "s", "ms", "us"]


@dataclass(frozen=True)
class Registry:
    """A schema registry with Confluent's API."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class JsonFormat:
    #: How times are written: ISO 8601 text, or a number of seconds, milliseconds or microseconds since 1970.
    timestamps: Timestamps = "iso"


@dataclass(frozen=True)
class CsvFormat:
    """A record is one line; of a file, the first one may be a header, which then names the columns."""

    delimiter: str = ","
    quote: str = '"'
    header: bool = False
    #: What stands for no value; an unquoted empty field always does.
    null: str = ""
    timestamps: Timestamps = "iso"


@dataclass(frozen=True)
class AvroFormat:
    #: Records begin with the id of their schema in this registry; None: all have the one below.
    registry: Registry | None = None
    #: The writer's schema as JSON text, where there is no registry.
    schema: str | None = None


@dataclass(frozen=True)
class ProtobufFormat:
    registry: Registry | None = None
    #: A serialized FileDescriptorSet, where there is no registry.
    descriptors: bytes | None = field(default=None, repr=False)
    #: Full name of the message, where there is no registry.
    message: str | None = None


@dataclass(frozen=True)
class RawFormat:
    """The value as it is, in the schema's one column (binary, or string for UTF-8)."""


@dataclass(frozen=True)
class ParquetFormat:
    """Of files, and of a table's data: rows that have columns already."""


@dataclass(frozen=True)
class DebeziumFormat:
    """Changes of rows as Debezium writes them."""

    encoding: Literal["json", "avro"] = "json"
    registry: Registry | None = None
    #: `flat`: behind Debezium's ExtractNewRecordState; `auto`: as the records are.
    envelope: Literal["auto", "debezium", "flat"] = "auto"
    #: Types of columns, where the records do not tell them or others are wanted.
    columns: Schema | None = None
    #: What stands for a value that did not change and was left out.
    placeholder: str = "__debezium_unavailable_value"
    #: A column that orders changes, for sources that have no log.
    sequence_by: str | None = None
    #: The connector's `decimal.handling.mode`; counts only where messages carry no schema.
    decimals: Literal["precise", "string"] = "precise"
    #: Of times that are numbers, by column, `*` for all others; counts only where messages carry no schema.
    units: Mapping[str, Literal["ms", "us", "ns"]] = field(default_factory=dict)


Format: TypeAlias = (
    JsonFormat | CsvFormat | AvroFormat | ProtobufFormat | RawFormat | ParquetFormat | DebeziumFormat
)


@dataclass(frozen=True)
class MetadataColumns:
    """What a record has besides its value, under the names of columns; None: not wanted.

    Of a Kafka record all of it; of a file's, `topic` is the path, `offset` the line and `timestamp` the time
    of the file.
    """

    topic: str | None = None
    partition: str | None = None
    offset: str | None = None
    timestamp: str | None = None
    key: str | None = None
    headers: str | None = None

    def fields(self) -> tuple[Field, ...]:
        """The columns that are wanted, in this order."""
        kinds: tuple[Type, ...] = ("string", "int", "long", "timestamptz", "binary", _HEADERS)
        names = (self.topic, self.partition, self.offset, self.timestamp, self.key, self.headers)
        return tuple(Field(name, kind) for name, kind in zip(names, kinds, strict=True) if name is not None)


#: A header may stand twice, so it is no map.
_HEADERS = ListType(StructType((Field("key", "string"), Field("value", "binary"))))


@dataclass(frozen=True)
class DeadLetters:
    """Where bad records go."""

    namespace: tuple[str, ...]
    name: str
    #: The pipeline stops when more than this share of a round is bad; None: never.
    stop_above: float | None = None


#: What happens to something that the table does not know.
#: `evolve`: the table changes; `freeze`: the pipeline stops; `discard_row`: the record becomes a dead letter;
#: `discard_value`: the value is left out.
ContractWord: TypeAlias = Literal["evolve", "freeze", "discard_row", "discard_value"]


@dataclass(frozen=True)
class Contract:
    """How the table follows the records."""

    #: A table that is not there yet.
    tables: ContractWord = "evolve"
    #: A field that no column has.
    columns: ContractWord = "discard_value"
    #: A value that does not fit its column.
    types: ContractWord = "discard_row"


@dataclass(frozen=True)
class Transform:
    """SQL over the view `source`, or a function from DataFrame to DataFrame."""

    sql: str | None = None
    function: Callable[..., Any] | None = None
    #: What the configuration hash and messages call the function.
    reference: str | None = None


@dataclass(frozen=True)
class StatefulConfig:
    """The transform keeps state from round to round, through Structured Streaming."""

    #: The folder of its state, on a file system that Spark's Hadoop knows.
    checkpoint: str
    #: Seconds for which the watermark of `event_time` waits; None: the transform sets watermarks itself.
    lateness: float | None = None


@dataclass(frozen=True)
class ChangesConfig:
    """How changes become tables."""

    #: `upsert`: rows as they are now; `append`: every change as a row; `changelog`: both. `insert`: rows of
    #: records that are no changes, which only come (hot tables without a key).
    mode: Literal["upsert", "append", "changelog", "insert"] = "upsert"
    #: The columns that tell rows apart; none: the source's own key.
    key: tuple[str, ...] = ()
    #: A boolean column that marks rows as deleted, instead of removing them.
    soft_delete: str | None = None
    #: Raised by the user after the source was restored or replaced.
    incarnation: int = 0
    #: The topic in which the connector is told what to do.
    signals: str | None = None
    #: All rows of a table that one transaction of the database changed come in one commit.
    whole_transactions: bool = False


@dataclass(frozen=True)
class TableConfig:
    namespace: tuple[str, ...]
    name: str
    partitioning: tuple[PartitionField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    files: FileOptions = field(default_factory=FileOptions)
    format_version: int = 2
    #: `name` is a template such as `{kind}` or `{topic}_raw`: one table for each value of a column or topic.
    routed: bool = False


@dataclass(frozen=True)
class DatasetConfig:
    """A generic table that gets one file for each round."""

    namespace: tuple[str, ...]
    name: str
    format: Literal["json", "jsonl", "csv", "parquet"] = "json"


@dataclass(frozen=True)
class Limits:
    """What one round may take."""

    records_per_round: int = 4_000_000
    #: A task gets at least this many, so that small rounds make few files.
    records_per_task: int = 100_000
    #: Of files.
    bytes_per_round: int = 4 * 1024**3
    #: A larger record is a bad one.
    bytes_per_record: int = 16 * 1024**2


@dataclass(frozen=True)
class PipelineConfig:
    name: str
    source: Source
    format: Format
    #: The columns of a decoded record; those of `metadata` come behind them.
    schema: Schema
    #: Where rows go: an Iceberg table, or a dataset instead.
    table: TableConfig
    dataset: DatasetConfig | None = None
    metadata: MetadataColumns = field(default_factory=MetadataColumns)
    #: None: the pipeline stops at the first bad record.
    dead_letters: DeadLetters | None = None
    contract: Contract = field(default_factory=Contract)
    maintenance: Maintenance = field(default_factory=Maintenance)
    #: Seconds between commits.
    freshness: float = 30.0
    event_time: str | None = None
    transform: Transform | None = None
    stateful: StatefulConfig | None = None
    #: Not None: records are changes of rows.
    changes: ChangesConfig | None = None
    limits: Limits = field(default_factory=Limits)
    #: Of everything that decides which rows land, secrets left out.
    hash: str = ""

    @property
    def home(self) -> tuple[tuple[str, ...], str]:
        """The table whose stamp says how far the pipeline is; where it has many, that of dead letters."""
        if self.dataset is not None:
            return self.dataset.namespace, self.dataset.name
        if self.table.routed and self.dead_letters is not None:
            return self.dead_letters.namespace, self.dead_letters.name
        return self.table.namespace, self.table.name

    @property
    def source_schema(self) -> Schema:
        """What a transform sees, and what is written without one."""
        return Schema((*self.schema.fields, *self.metadata.fields()))


@dataclass(frozen=True)
class Pipelines:
    """One file: a catalog, a Spark, and pipelines by name."""

    catalog: CatalogConfig
    spark: SparkConfig
    pipelines: tuple[PipelineConfig, ...]

    @property
    def needs_s3a(self) -> bool:
        """Whether Spark itself keeps something in a bucket."""
        kept = (pipeline.stateful for pipeline in self.pipelines)
        return any(state is not None and state.checkpoint.startswith("s3a:") for state in kept)
