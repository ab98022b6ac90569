"""Pipelines written in Python: the same keys, the same checks, the same result as in YAML."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Required, TypeAlias, TypedDict, Unpack

from frazil.stream.config import build
from frazil.stream.config.build_source import plain
from frazil.stream.config.keys import CATALOG, PIPELINE, SPARK, pipeline_problem
from frazil.stream.config.load import has_brokers
from frazil.stream.config.model import CatalogConfig, KafkaSource, PipelineConfig, Pipelines, SparkConfig
from frazil.stream.config.nodes import Function, Items, Node, Place, Problems, Scalar, Table
from frazil.stream.config.shapes import Found, unknown
from frazil.stream.config.source_keys import KAFKA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: From DataFrame to DataFrame.
TransformFunction: TypeAlias = "Callable[[DataFrame], DataFrame]"
SettingValue: TypeAlias = str | int | float | bool

#: Keys of `source`, which are keywords of their own here; `kafka` is its `settings`.
_SOURCE = {key: key for key in ("topics", "pattern", "start", "history")} | {"kafka": "settings"}
_KEYWORDS = (*_SOURCE, *PIPELINE.keys)


class Column(TypedDict, total=False):
    """A column that needs more than its type."""

    type: Required[str]
    required: bool
    doc: str


class Files(TypedDict, total=False):
    size: str
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"]
    compression_level: int
    format: Literal["parquet", "orc", "avro"]


class LimitOptions(TypedDict, total=False):
    records_per_round: int
    records_per_task: int
    bytes_per_round: str
    bytes_per_record: str


class PipelineOptions(TypedDict, total=False):
    """The keys of a pipeline in `pipelines.yaml`; those of its source stand beside the others."""

    topics: str | Sequence[str]
    pattern: str
    start: str | date | datetime | Mapping[str, Sequence[int]]
    history: str | Mapping[str, Any]
    kafka: Mapping[str, SettingValue]
    format: str | Mapping[str, Mapping[str, str | bool]]
    schema: Mapping[str, str | Column]
    table: str
    partitioning: str | Sequence[str]
    event_time: str
    freshness: str | timedelta
    files: Files
    properties: Mapping[str, SettingValue]
    format_version: Literal[2, 3]
    limits: LimitOptions
    #: Instead of topics and their like: `{"files": …}`, `{"sensors": …}`, `{"table": …}`.
    source: Mapping[str, Any]
    registry: str | Mapping[str, str]
    metadata: Mapping[str, str]
    dataset: str | Mapping[str, str]
    dead_letters: str | Mapping[str, str]
    contract: str | Mapping[str, str]
    stateful: str | Mapping[str, str]
    changes: Mapping[str, str | int | Sequence[str]]
    maintenance: str | Mapping[str, str | int]


def Pipeline(  # noqa: N802 (reads as what it gives)
    name: str, *, transform: str | TransformFunction | None = None, **options: Unpack[PipelineOptions]
) -> PipelineConfig:
    """A pipeline; `transform` is SQL over the view `source`, or a function from DataFrame to DataFrame.

    >>> orders = Pipeline("orders", topics="orders", schema={"id": "long required"}, table="shop.orders")
    >>> orders.freshness
    30.0
    """
    return _made(name, dict(options) | ({} if transform is None else {"transform": transform}))


def pipeline(name: str, **options: Unpack[PipelineOptions]) -> Callable[[TransformFunction], PipelineConfig]:
    """Makes the function below a pipeline whose transform it is.

    >>> @pipeline("paid", topics="orders", schema={"amount": "double"}, table="shop.paid")
    ... def paid(df):
    ...     return df.where("amount > 0")
    >>> paid.transform.reference.endswith(":paid")
    True
    """

    def decorate(function: TransformFunction) -> PipelineConfig:
        return _made(name, {**options, "transform": function})

    return decorate


def gather(
    pipelines: Iterable[PipelineConfig],
    *,
    catalog: str | Mapping[str, str] | CatalogConfig | None = None,
    kafka: Mapping[str, SettingValue] | None = None,
    spark: Mapping[str, Any] | SparkConfig | None = None,
) -> Pipelines:
    """What a file would hold: pipelines, and what they share. A `catalog` that is text is its address."""
    problems, nodes = Problems(), Nodes("run()")
    if isinstance(catalog, str):
        catalog = CatalogConfig(uri=catalog)
    if not isinstance(catalog, CatalogConfig):
        catalog = build.catalog(_record(CATALOG, "catalog", nodes, catalog, problems), os.environ)
    if not isinstance(spark, SparkConfig):
        spark = build.spark(_record(SPARK, "spark", nodes, spark, problems))
    shared = plain(_record(KAFKA, "kafka", nodes, kafka, problems))
    made, names = [], set()
    for number, one in enumerate(pipelines):
        if isinstance(one.source, KafkaSource):
            source = replace(one.source, settings={**shared, **one.source.settings})
            one = replace(one, source=source)
        made.append(one)
        place = Place(f"run(): pipeline '{one.name}'", 1_000_000 + number)
        if one.name in names:
            problems.add(place, "there is another one of this name")
        elif not has_brokers(made[-1]):
            problems.add(place, "no brokers are known: give kafka={'bootstrap.servers': 'host:port'}")
        names.add(one.name)
    problems.check()
    return Pipelines(catalog, spark, tuple(made))


def _record(
    shape: Any, where: str, nodes: Nodes, given: Mapping[str, Any] | None, problems: Problems
) -> Found | None:
    found = shape.read(nodes.make(given or {}, problems, where), problems, where)
    return found if isinstance(found, Found) else None


def _made(name: str, options: Mapping[str, Any]) -> PipelineConfig:
    problems, nodes = Problems(), Nodes(f"Pipeline({name!r})")
    here = nodes.place()
    wrong = pipeline_problem(name)
    if wrong is not None:
        problems.add(here, wrong)
    entries: dict[str, tuple[Place, Node]] = {}
    source: dict[str, tuple[Place, Node]] = {}
    for key, value in options.items():
        if key not in _KEYWORDS:
            problems.add(nodes.place(), unknown(key, _KEYWORDS, "keyword"))
        elif value is not None:
            into, known = (source, _SOURCE[key]) if key in _SOURCE else (entries, key)
            into[known] = nodes.place(), nodes.make(value, problems, key)
    if source and "source" in entries:
        problems.add(here, f"give 'source', or its keys ({', '.join(_SOURCE)}) as keywords, not both")
    entries.setdefault("source", (here, Table(source, nodes.place())))
    found = PIPELINE.read(Table(entries, nodes.place()), problems, f"pipeline '{name}'")
    made = build.Builder(problems).pipeline(name, found, {})
    problems.check()
    return made


class Nodes:
    """Python values as nodes; the order in which they were given is their line."""

    def __init__(self, call: str) -> None:
        self._call = call
        self._count = 0

    def place(self, inside: str = "") -> Place:
        self._count += 1
        return Place(f"{self._call}, {inside}" if inside else self._call, self._count)

    def make(self, value: Any, problems: Problems, path: str, depth: int = 0) -> Node:
        place = self.place(path if depth else "")
        if isinstance(value, Mapping):
            items = {str(key): self.make(one, problems, path, depth + 1) for key, one in value.items()}
            return Table({key: (self.place(path), node) for key, node in items.items()}, place)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            return Items(tuple(self.make(one, problems, path, depth + 1) for one in value), place)
        if callable(value):
            return Function(value, place)
        scalar = _scalar(value, place)
        if scalar is None:
            problems.add(place, f"{path}: a {type(value).__name__} cannot be given here")
            return Scalar("", place)
        return scalar


def _scalar(value: Any, place: Place) -> Scalar | None:
    if value is None:
        return Scalar("", place, "null")
    if isinstance(value, bool):
        return Scalar("true" if value else "false", place, "bool")
    if isinstance(value, int | float):
        return Scalar(str(value), place, "int" if isinstance(value, int) else "float")
    if isinstance(value, timedelta):
        return Scalar(f"{value.total_seconds():f}s", place)
    if isinstance(value, date):
        return Scalar(value.isoformat(), place)
    return Scalar(value, place) if isinstance(value, str) else None
