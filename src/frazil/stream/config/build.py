"""From what was read to a pipeline: what one key alone cannot tell is checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema, show_type, spark_type
from frazil.stream.config.build_changes import ChangesBuilder
from frazil.stream.config.build_sink import SinkBuilder
from frazil.stream.config.build_source import SourceBuilder, plain
from frazil.stream.config.functions import check_function, find_function, reference_of
from frazil.stream.config.hash import pipeline_hash
from frazil.stream.config.model import (
    AvroFormat,
    CatalogConfig,
    DebeziumFormat,
    Format,
    KafkaSource,
    Limits,
    PipelineConfig,
    ProtobufFormat,
    Source,
    SparkConfig,
    StatefulConfig,
    TableConfig,
    TableSource,
    Transform,
)
from frazil.stream.config.nodes import Function, Node, Problems
from frazil.stream.config.shapes import WRONG, Found
from frazil.stream.config.values import names_problem, type_problem

_EVENT_TIMES = ("timestamp", "timestamptz")
#: Its rounds become one file each, which is made in memory.
_OF_A_DATASET = 500_000
#: Changes of one round are sorted out in memory.
_OF_CHANGES = 1_000_000


@dataclass(frozen=True)
class Builder:
    """Makes the models of one file or call."""

    problems: Problems
    #: Where modules of transforms are looked for first.
    directory: Path | None = None

    def pipeline(self, name: str, found: Found, kafka: Mapping[str, str]) -> PipelineConfig:
        """The pipeline; what is wrong with it is noted, and the result is then of no use."""
        sources = SourceBuilder(self.problems, self.directory)
        source = sources.source(found.get("source"), kafka, name)
        format_ = sources.format(found, source)
        changed = isinstance(format_, DebeziumFormat)
        metadata = sources.metadata(found)
        schema = self._schema(found)
        if isinstance(format_, DebeziumFormat):
            format_ = replace(format_, columns=schema)
        elif schema is None and "schema" not in found.nodes:
            schema = sources.default_schema(source, format_)
            self._require_schema(found, source, format_, schema)
        whole = None if schema is None else Schema((*schema.fields, *metadata.fields()))
        transform = self._transform(found, whole)
        sinks = SinkBuilder(self.problems)
        table = sinks.table(found, None if changed or "transform" in found.nodes else whole)
        self._check_history(found, source, table)
        made = PipelineConfig(
            name=name,
            source=source,
            format=format_,
            schema=schema or Schema(()),
            table=table,
            dataset=sinks.dataset(found),
            metadata=metadata,
            dead_letters=sinks.dead_letters(found, table, changes=changed),
            contract=sinks.contract(found, table),
            maintenance=sinks.maintenance(found.get("maintenance")),
            freshness=found.get("freshness", PipelineConfig.freshness),
            event_time=self._event_time(found, whole),
            transform=transform,
            stateful=self._stateful(found),
            changes=ChangesBuilder(self.problems).changes(found, source, format_, table),
            limits=self._limits(found, changes=changed),
        )
        return replace(made, hash=pipeline_hash(made))

    def _check_history(self, found: Found, source: Source, table: TableConfig) -> None:
        if not isinstance(source, KafkaSource) or source.history is None:
            return
        place = found.get("source").place_of("history")
        if "dataset" in found.nodes:
            self.problems.add(place, "history: a dataset cannot take it; write to a table")
        if "{topic}" in table.name:
            self.problems.add(place, "history: its rows have no topic; name the table without {topic}")

    def _require_schema(self, found: Found, source: Source, format_: Format, schema: Schema | None) -> None:
        """Columns that nobody has to write are known now, or when the pipeline is opened."""
        asked = isinstance(source, TableSource) or (
            isinstance(format_, AvroFormat | ProtobufFormat) and format_.registry is not None
        )
        if schema is None and not asked:
            self.problems.add(found.place, "there is no 'schema': write the columns of a record by name")

    def _schema(self, found: Found) -> Schema | None:
        """None where a column could not be read: nothing can be said about the others then."""
        columns = found.get("schema")
        if columns is None:
            return None
        if not columns.nodes:
            self.problems.add(columns.place, "schema: there are no columns")
        fields = []
        for name, value in columns.values.items():
            field = column(name, value)
            if field is None:
                continue
            fields.append(field)
            wrong = type_problem(field.type)
            if wrong is not None:
                self.problems.add(columns.nodes[name].place, f"column '{name}': {wrong}")
        metadata = found.get("metadata")
        beside = () if metadata is None else tuple(Field(name, "string") for name in metadata.values.values())
        wrong = names_problem((*fields, *beside))
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

    def _stateful(self, found: Found) -> StatefulConfig | None:
        given = found.get("stateful")
        if given is None:
            return None
        place = found.place_of("stateful")
        for key, wrong in (
            ("transform" not in found.nodes, "stateful: there is no transform that could keep state"),
            ("dataset" in found.nodes, "stateful: a dataset cannot take it; write to a table"),
        ):
            if key:
                self.problems.add(place, wrong)
        if not isinstance(given, Found):
            return StatefulConfig(given)
        if "lateness" in given.nodes and "event_time" not in found.nodes:
            self.problems.add(
                given.place_of("lateness"), "lateness: say by 'event_time' which column the watermark follows"
            )
        return StatefulConfig(given.get("checkpoint", ""), given.get("lateness"))

    def _limits(self, found: Found, *, changes: bool) -> Limits:
        given = found.get("limits")
        usual = {"records_per_round": _OF_A_DATASET} if "dataset" in found.nodes else {}
        if changes:
            usual = {"records_per_round": _OF_CHANGES}
        if given is None:
            return Limits(**usual)
        limits = Limits(**(usual | given.values))
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
    return SparkConfig(found.get("master", SparkConfig.master), plain(found.get("settings")))


def column(name: str, value: Any) -> Field | None:
    """The column that was read; None if its type could not be."""
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
