"""What a run would read, create and write: from the configuration, the catalog and Kafka, without a JVM."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from frazil.client import Client
from frazil.client.naming import written
from frazil.core.errors import FrazilError, NotFound, Unsupported
from frazil.core.foreign_types import without_foreign
from frazil.core.partitioning import PartitionField, PartitionSpec
from frazil.core.schema import Schema
from frazil.core.stamp import Position, Stamp
from frazil.lake.authority import MetadataHistory, find_stamp
from frazil.stream.bootstrap.choice import choose
from frazil.stream.bootstrap.place import pending
from frazil.stream.bootstrap.rounds import plan_next
from frazil.stream.config.model import (
    FileSource,
    KafkaSource,
    Limits,
    PipelineConfig,
    SensorSource,
    SparkConfig,
    TableSource,
)
from frazil.stream.fit import problems as fit_problems
from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog, LogView
from frazil.stream.postgres.source import PostgresSource
from frazil.stream.postgres.standing import look
from frazil.stream.rounds import RoundPlan
from frazil.stream.sinks.dataset_position import dataset_position

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


@dataclass(frozen=True)
class TopicPlan:
    """By partition: where reading begins, and where the log ends now."""

    name: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def offsets(self) -> int:
        """To read; records are fewer where there are gaps or transaction markers."""
        return sum(self.ends) - sum(self.starts)


@dataclass(frozen=True)
class TablePlan:
    name: str
    #: None: the catalog could not be asked.
    exists: bool | None = None
    #: None where only Spark can tell: the columns are what the transform gives. Without fields: the source's.
    schema: Schema | None = None
    partitioning: tuple[str, ...] = ()
    #: None of a generic table.
    format_version: int | None = None
    #: Of a new table the catalog decides.
    location: str | None = None
    creates_namespace: bool = False


@dataclass(frozen=True)
class PipelinePlan:
    pipeline: str
    path: Literal["fused", "spark"]
    table: TablePlan
    freshness: float
    limits: Limits
    #: The stamp to go on from; None: the pipeline never wrote to this table.
    stamp: Stamp | None = None
    #: Where it begins, in words.
    begins: str = ""
    #: The source in words, if it is not Kafka.
    source: str | None = None
    #: None: Kafka could not be asked, or is not the source.
    topics: tuple[TopicPlan, ...] | None = None
    #: Rounds until everything is in that is in the log now, and tasks of the first; None: not known.
    rounds: int | None = None
    tasks: int | None = None
    #: Worth knowing.
    notes: tuple[str, ...] = ()
    #: Why it could not run; empty if it could.
    problems: tuple[str, ...] = ()

    @property
    def offsets(self) -> int | None:
        return None if self.topics is None else sum(topic.offsets for topic in self.topics)


@dataclass
class _Findings:
    #: False: the table could not be asked how far the pipeline is.
    position_known: bool = True
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def pipeline_plan(config: PipelineConfig, client: Client, spark: SparkConfig) -> PipelinePlan:
    """Ask the catalog and the source. What would keep the pipeline from running is part of the answer."""
    found = _Findings()
    ask = _dataset if config.dataset is not None else _routed if config.table.routed else _table
    table, stamp = ask(config, client, found)
    topics: tuple[TopicPlan, ...] | None = None
    first: RoundPlan | None = None
    try:
        if isinstance(config.source, KafkaSource):
            topics, first = _log(config, config.source, stamp, parallelism(spark), client, found)
        elif isinstance(config.source, PostgresSource):
            look(config.source, config.name, stamp)
    except FrazilError as error:
        found.problems.append(error.message)
    if not found.position_known:
        topics = first = None
    if topics is not None and not topics:
        found.notes.append("no topic matches the pattern yet; those that come are read")
    past = None if first is None or stamp is None else pending(stamp.positions)
    # A round is of the history or of the log.
    apart = (0 if past is None else past.left, sum(topic.offsets for topic in topics or ()))
    return PipelinePlan(
        config.name,
        "fused" if config.transform is None else "spark",
        table,
        config.freshness,
        config.limits,
        stamp,
        _begins(config, stamp) if found.position_known else "not known",
        _other_source(config),
        topics,
        None if first is None else sum(-(-one // config.limits.records_per_round) for one in apart),
        None if first is None else len(first.tasks),
        tuple(found.notes),
        tuple(found.problems),
    )


def parallelism(spark: SparkConfig) -> int | None:
    """How many tasks run side by side on this machine; None on a cluster, which is not asked."""
    given = spark.settings.get("spark.default.parallelism", "")
    if given.isdigit():
        return int(given)
    match = _LOCAL.fullmatch(spark.master)
    if match is None:
        return None
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1] or 1)


def show_partitioning(fields: tuple[PartitionField, ...]) -> tuple[str, ...]:
    """As users write it.

    >>> show_partitioning((PartitionField("id", "bucket[16]", "id_bucket"),))
    ('bucket(16, id)',)
    """
    shown = []
    for one in fields:
        word, _, width = one.transform.rstrip("]").partition("[")
        inside = f"{width}, {one.source}" if width else one.source
        shown.append(one.source if word == "identity" else f"{word}({inside})")
    return tuple(shown)


def _table(config: PipelineConfig, client: Client, found: _Findings) -> tuple[TablePlan, Stamp | None]:
    table = config.table
    name = written(*table.namespace, table.name)
    try:
        loaded = client.tables.load(table.namespace, table.name)
    except NotFound:
        return _new_table(config, client, name, found), None
    except FrazilError as error:
        found.problems.append(error.message)
        found.position_known = False
        return TablePlan(name), None
    metadata = loaded.metadata
    schema = _schema(metadata, name, found)
    there = show_partitioning(_spec(metadata, schema).fields)
    version = int(metadata.get("format-version", 2))
    # The columns of the source are not known here.
    if config.transform is None and config.schema.fields:
        found.problems += fit_problems(config.source_schema, schema)
    wanted = show_partitioning(table.partitioning)
    if table.partitioning and wanted != there:
        found.notes.append(
            f"the table is partitioned by {', '.join(there) or 'nothing'}; 'partitioning' of the pipeline "
            f"({', '.join(wanted)}) is for a new table only"
        )
    return TablePlan(name, True, schema, there, version, loaded.location), _stamp(config, metadata, found)


def _stamp(config: PipelineConfig, metadata: Mapping[str, Any], found: _Findings) -> Stamp | None:
    stamp = None
    try:
        stamp = find_stamp(MetadataHistory(metadata), config.name)
    except FrazilError as error:
        found.problems.append(error.message)
        found.position_known = False
    if stamp is not None and stamp.config not in ("", config.hash):
        found.notes.append("the configuration is not the one that made the last commit")
    return stamp


def _routed(config: PipelineConfig, client: Client, found: _Findings) -> tuple[TablePlan, Stamp | None]:
    """Which tables there will be, the rows tell; how far the pipeline is, its home table does."""
    table = _new_table(config, client, written(*config.table.namespace, config.table.name), found)
    found.notes.append(f"how far it is, is kept in {written(*config.home[0], config.home[1])}")
    try:
        metadata = client.tables.load(*config.home).metadata
    except NotFound:
        return table, None
    except FrazilError as error:
        found.problems.append(error.message)
        found.position_known = False
        return table, None
    return table, _stamp(config, metadata, found)


def _dataset(config: PipelineConfig, client: Client, found: _Findings) -> tuple[TablePlan, Stamp | None]:
    """A generic table has no columns but those that are written to it."""
    name = written(*config.home[0], config.home[1])
    try:
        position = dataset_position(config, client)
    except NotFound:
        return replace(_new_table(config, client, name, found), format_version=None), None
    except FrazilError as error:
        found.problems.append(error.message)
        found.position_known = False
        return TablePlan(name), None
    columns = config.source_schema if config.transform is None else None
    return TablePlan(name, True, columns, location=position.location), position.stamp


def _new_table(config: PipelineConfig, client: Client, name: str, found: _Findings) -> TablePlan:
    missing = False
    try:
        missing = not client.namespaces.exists(config.home[0])
    except FrazilError as error:
        found.problems.append(error.message)
    return TablePlan(
        name,
        False,
        config.source_schema if config.transform is None else None,
        show_partitioning(config.table.partitioning),
        config.table.format_version,
        creates_namespace=missing,
    )


def _log(
    config: PipelineConfig,
    source: KafkaSource,
    stamp: Stamp | None,
    parallel: int | None,
    client: Client,
    found: _Findings,
) -> tuple[tuple[TopicPlan, ...], RoundPlan]:
    log = KafkaLog(source, timeout_seconds=COMMAND_SECONDS)
    view = log.look()
    log.require(view.missing)
    known = stamp
    if known is None:
        positions = _first(source, log, view, client, found)
        known = Stamp(
            pipeline=config.name, epoch=0, round=0, token="", source=view.source, positions=positions
        )
    elif (past := pending(known.positions)) is not None:
        found.notes.append(
            f"{past.left:,} rows of the history in {past.table} come first, and the log behind them"
        )
    tasks = parallel or max(1, config.limits.records_per_round // config.limits.records_per_task)
    first = plan_next(source, known, log, view, config.limits, tasks)
    topics = []
    for name, ends in sorted(view.ends.items()):
        next_ = known.positions[name].next if name in known.positions else ()
        topics.append(TopicPlan(name, next_ + (0,) * (len(ends) - len(next_)), ends))
    return tuple(topics), first


def _first(
    source: KafkaSource, log: KafkaLog, view: LogView, client: Client, found: _Findings
) -> dict[str, Position]:
    """Of a pipeline that never ran."""
    past = source.history
    if past is None:
        return log.start(source.start)
    choice = choose(past, client.tables.load(past.namespace, past.name).metadata, view)
    found.notes.append(
        f"{choice.snapshot.total:,} rows of {written(*past.namespace, past.name)} (snapshot "
        f"{choice.snapshot.id}) come first, and the log behind them"
    )
    return choice.positions


def _other_source(config: PipelineConfig) -> str | None:
    match config.source:
        case FileSource(location=location, pattern=pattern):
            return f"files in {location}" + ("" if pattern == "**" else f", {pattern}")
        case SensorSource(sensors=sensors, rate=rate):
            return f"{sensors} sensors, {rate:g} readings a second"
        case TableSource(namespace=namespace, name=name, changes=changes):
            return f"{'changes of' if changes else 'what is appended to'} {written(*namespace, name)}"
        case PostgresSource(where=where, tables=tables):
            return f"changes of {', '.join(tables)} in PostgreSQL at {where}"
        case _:
            return None


def _begins(config: PipelineConfig, stamp: Stamp | None) -> str:
    if stamp is not None:
        return f"after its last commit (epoch {stamp.epoch}, round {stamp.round})"
    if isinstance(config.source, SensorSource):
        return "with the first reading"
    if isinstance(config.source, PostgresSource):
        return "with the rows that the tables have" if config.source.snapshot == "initial" else "now"
    if isinstance(config.source, KafkaSource) and config.source.history is not None:
        return "with the rows of its history"
    at = config.source.start.at
    if isinstance(at, datetime):
        return f"at {at.isoformat()}"
    return f"at the {at} record" if isinstance(at, str) else "at the given offsets"


def _schema(metadata: Mapping[str, Any], table: str, found: _Findings) -> Schema:
    current = metadata.get("current-schema-id", 0)
    rows = [row for row in metadata.get("schemas") or () if row.get("schema-id") == current]
    document = rows[0] if rows else metadata["schema"]
    try:
        return Schema.from_json(document, table)
    except Unsupported as error:
        found.problems.append(error.message)
        return Schema.from_json(without_foreign(document))


def _spec(metadata: Mapping[str, Any], schema: Schema) -> PartitionSpec:
    default = metadata.get("default-spec-id", 0)
    rows = [row for row in metadata.get("partition-specs") or () if row.get("spec-id") == default]
    return PartitionSpec.from_json(rows[0], schema) if rows else PartitionSpec()
