"""From what was read to a pipeline: what one key alone cannot tell is checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import PartitionField, bind
from frazil.core.schema import Field, Schema, show_type, spark_type
from frazil.core.stamp import config_hash
from frazil.lake.files import FileOptions
from frazil.stream.config.functions import check_function, find_function, fingerprint, reference_of
from frazil.stream.config.model import (
    CatalogConfig,
    JsonFormat,
    KafkaSource,
    Limits,
    PipelineConfig,
    SparkConfig,
    Start,
    TableConfig,
    Transform,
)
from frazil.stream.config.nodes import Function, Node, Problems
from frazil.stream.config.shapes import WRONG, Found
from frazil.stream.config.values import names_problem, type_problem

_EVENT_TIMES = ("timestamp", "timestamptz")
_LEVELS = {"zstd": 22, "gzip": 9}
_TIMES = frozenset({"year", "month", "day", "hour"})


@dataclass(frozen=True)
class Builder:
    """Makes the models of one file or call."""

    problems: Problems
    #: Where modules of transforms are looked for first.
    directory: Path | None = None

    def pipeline(self, name: str, found: Found, kafka: Mapping[str, str]) -> PipelineConfig:
        """The pipeline; what is wrong with it is noted, and the result is then of no use."""
        schema = self._schema(found)
        transform = self._transform(found, schema)
        table = self._table(found, schema, transform)
        event_time = self._event_time(found, schema)
        limits = self._limits(found)
        made = PipelineConfig(
            name=name,
            source=self._source(found.get("source"), kafka),
            format=_format(found.get("format")),
            schema=schema or Schema(()),
            table=table,
            freshness=found.get("freshness", PipelineConfig.freshness),
            event_time=event_time,
            transform=transform,
            limits=limits,
        )
        return replace(made, hash=pipeline_hash(made))

    def _source(self, found: Found | None, kafka: Mapping[str, str]) -> KafkaSource:
        if found is None:
            return KafkaSource(kafka)
        topics: tuple[str, ...] = found.get("topics", ())
        if len(set(topics)) < len(topics) or ("topics" in found.values and not topics):
            self.problems.add(found.place_of("topics"), "topics: write at least one, and none of them twice")
        settings = dict(kafka) | dict(_plain(found.get("settings")))
        return KafkaSource(settings, topics, found.get("pattern"), self._start(found, topics))

    def _start(self, found: Found, topics: tuple[str, ...]) -> Start:
        start = found.get("start", "earliest")
        if not isinstance(start, Found):
            return Start(start)
        for name, node in start.nodes.items():
            if topics and name not in topics:
                self.problems.add(
                    node.place, f"start: offsets for '{name}', which is not read; topics: {', '.join(topics)}"
                )
        if not start.nodes:
            self.problems.add(start.place, "start: there are no offsets; write them as {orders: [0, 10]}")
        return Start(dict(start.values))

    def _schema(self, found: Found) -> Schema | None:
        """None where a column could not be read: nothing can be said about the others then."""
        columns = found.get("schema")
        if columns is None:
            return None
        if not columns.nodes:
            self.problems.add(columns.place, "schema: there are no columns")
        fields = []
        for name, value in columns.values.items():
            field = _column(name, value)
            if field is None:
                continue
            fields.append(field)
            wrong = type_problem(field.type)
            if wrong is not None:
                self.problems.add(columns.nodes[name].place, f"column '{name}': {wrong}")
        wrong = names_problem(tuple(fields))
        if wrong is not None:
            self.problems.add(columns.place, f"schema: {wrong}")
        return Schema(tuple(fields)) if len(fields) == len(columns.nodes) else None

    def _transform(self, found: Found, schema: Schema | None) -> Transform | None:
        given = found.get("transform")
        if given is None:
            return None
        place = found.place_of("transform")
        transform = self._given(given, found.nodes["transform"])
        columns = found.get("schema")
        for field in schema or ():
            try:
                spark_type(field.type)
            except InvalidConfig as error:
                self.problems.add(columns.nodes[field.name].place, f"column '{field.name}': {error.message}")
        if transform is not None and transform.sql is not None and not _reads_source(transform.sql):
            self.problems.add(
                place, "transform: the SQL does not read the view 'source'; write SELECT … FROM source"
            )
        return transform

    def _given(self, given: Any, node: Node) -> Transform | None:
        place = node.place
        try:
            if isinstance(given, str):
                return Transform(sql=given)
            if isinstance(node, Function):
                reference = reference_of(node.function)
                return Transform(function=check_function(node.function, reference), reference=reference)
            reference = given.get("python")
            if reference is None:
                return None
            place = given.place_of("python")
            return Transform(function=find_function(reference, self.directory), reference=reference)
        except InvalidConfig as error:
            self.problems.add(place, f"transform: {error.message}")
            return None

    def _table(self, found: Found, schema: Schema | None, transform: Transform | None) -> TableConfig:
        namespace, name = found.get("table", ((), ""))
        partitioning = found.get("partitioning", ())
        if partitioning:
            self._check_partitioning(found, partitioning, schema if "transform" not in found.nodes else None)
        return TableConfig(
            namespace,
            name,
            partitioning,
            _plain(found.get("properties")),
            self._files(found.get("files")),
            found.get("format_version", TableConfig.format_version),
        )

    def _check_partitioning(
        self, found: Found, fields: tuple[PartitionField, ...], schema: Schema | None
    ) -> None:
        """Whether the columns are there is known only without a transform, which may make or drop some."""
        place = found.place_of("partitioning")
        try:
            if schema is not None:
                bind(fields, schema)
        except InvalidConfig as error:
            self.problems.add(place, f"partitioning: {error.message}")
            return
        seen: set[tuple[str, str]] = set()
        names = {field.name for field in schema or ()}
        for field in fields:
            word = field.transform.partition("[")[0]
            same = (field.source, "time" if word in _TIMES else word)
            if same in seen:
                self.problems.add(
                    place, f"partitioning: two fields say the same about '{field.source}'; keep the finer one"
                )
            if word != "identity" and field.name in names:
                self.problems.add(
                    place,
                    f"partitioning: {word} of '{field.source}' is called '{field.name}', as a column is",
                )
            seen.add(same)

    def _event_time(self, found: Found, schema: Schema | None) -> str | None:
        name: str | None = found.get("event_time")
        if name is None or schema is None:
            return name
        column = next((field for field in schema if field.name == name), None)
        if column is None:
            legal = [field.name for field in schema if field.type in _EVENT_TIMES]
            self.problems.add(
                found.place_of("event_time"),
                f"event_time: there is no column '{name}'; timestamps are: {', '.join(legal) or 'none'}",
            )
        elif column.type not in _EVENT_TIMES:
            self.problems.add(
                found.place_of("event_time"),
                f"event_time: '{name}' is a {show_type(column.type)}; it must be a timestamp or timestamptz",
            )
        return name

    def _files(self, found: Found | None) -> FileOptions:
        if found is None:
            return FileOptions()
        compression = found.get("compression", FileOptions.compression)
        level = found.get("compression_level")
        if level is not None and level > _LEVELS.get(compression, 0):
            levels = ", ".join(f"{name} 1 to {most}" for name, most in _LEVELS.items())
            self.problems.add(
                found.place_of("compression_level"),
                f"compression_level: {compression} has no level {level}; legal: {levels}",
            )
        return FileOptions(found.get("size", FileOptions.size), compression, level)

    def _limits(self, found: Found) -> Limits:
        given = found.get("limits")
        if given is None:
            return Limits()
        limits = Limits(**given.values)
        if limits.records_per_task > limits.records_per_round and len(given.nodes) == 2:
            self.problems.add(
                given.place_of("records_per_task"), "limits: a task cannot have more records than a round"
            )
        return limits


def catalog(found: Found | None, environment: Mapping[str, str]) -> CatalogConfig:
    given = {} if found is None else found.values
    return CatalogConfig(**{"warehouse": environment.get("FRAZIL_WAREHOUSE") or None, **given})


def spark(found: Found | None) -> SparkConfig:
    if found is None:
        return SparkConfig()
    return SparkConfig(found.get("master", SparkConfig.master), _plain(found.get("settings")))


def plain_settings(found: Found | None) -> dict[str, str]:
    return _plain(found)


def pipeline_hash(pipeline: PipelineConfig) -> str:
    """Of everything that decides which rows land where; no setting of Kafka, no starting point."""
    transform = pipeline.transform
    does: list[str | None] | None = None
    if transform is not None:
        print_ = fingerprint(transform.function) if transform.function is not None else None
        does = [transform.sql, transform.reference, print_]
    return config_hash(
        {
            "topics": sorted(pipeline.source.topics),
            "pattern": pipeline.source.pattern,
            "format": {"json": {"timestamps": pipeline.format.timestamps}},
            "schema": [[field.name, show_type(field.type), field.required] for field in pipeline.schema],
            "transform": does,
            "table": [*pipeline.table.namespace, pipeline.table.name],
            "partitioning": [[field.source, field.transform] for field in pipeline.table.partitioning],
        }
    )


def _plain(found: Found | None) -> dict[str, str]:
    return {} if found is None else dict(found.values)


def _format(found: Any) -> JsonFormat:
    if not isinstance(found, Found):
        return JsonFormat()
    options = found.get("json")
    return JsonFormat(**options.values) if isinstance(options, Found) else JsonFormat()


def _column(name: str, value: Any) -> Field | None:
    if not isinstance(value, Found):
        kind, required = value
        return Field(name, kind, required)
    given = value.get("type", WRONG)
    if given is WRONG:
        return None
    kind, required = given
    return Field(name, kind, value.get("required", required) or required, value.get("doc"))


def _reads_source(sql: str) -> bool:
    return re.search(r"\bsource\b", sql, re.IGNORECASE) is not None
