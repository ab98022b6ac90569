"""From what was read to a source and the format of its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frazil.core.errors import InvalidConfig
from frazil.core.schema import Field, Schema
from frazil.stream.config.model import (
    AvroFormat,
    CsvFormat,
    DebeziumFormat,
    FileSource,
    Format,
    History,
    JsonFormat,
    KafkaSource,
    MetadataColumns,
    ParquetFormat,
    ProtobufFormat,
    RawFormat,
    Registry,
    SensorSource,
    Source,
    Start,
    TableSource,
)
from frazil.stream.config.nodes import Place, Problems
from frazil.stream.config.shapes import Found
from frazil.stream.postgres.source import PostgresSource, Snapshot


def plain(found: Found | None) -> dict[str, str]:
    """Settings as they were written."""
    return {} if found is None else dict(found.values)


@dataclass(frozen=True)
class SourceBuilder:
    problems: Problems
    #: Where files that are named are looked for.
    directory: Path | None = None

    def source(self, found: Found | None, kafka: Mapping[str, str], name: str) -> Source:
        """`name`: the pipeline's."""
        if found is None:
            return KafkaSource(kafka)
        if "sensors" in found.values:
            self._only(found, "sensors")
            return SensorSource(**found.values["sensors"].values)
        if "postgres" in found.values:
            self._only(found, "postgres")
            return self._postgres(found.values["postgres"], name)
        if "table" in found.values:
            self._only(found, "table", "start", "changes")
            namespace, name = found.values["table"]
            return TableSource(namespace, name, self._start(found, ()), found.get("changes", False))
        if "files" in found.values:
            self._only(found, "files", "start")
            return self._files(found.values["files"], self._start(found, ()))
        if "changes" in found.nodes:
            self.problems.add(found.place_of("changes"), "changes: this source has no such key")
        topics: tuple[str, ...] = found.get("topics", ())
        if len(set(topics)) < len(topics) or ("topics" in found.values and not topics):
            self.problems.add(found.place_of("topics"), "topics: write at least one, and none of them twice")
        settings = dict(kafka) | plain(found.get("settings"))
        start = self._start(found, topics)
        return KafkaSource(settings, topics, found.get("pattern"), start, self._history(found, topics))

    def format(self, found: Found, source: Source) -> Format:
        if isinstance(source, TableSource):
            if "format" in found.nodes:
                self.problems.add(found.place_of("format"), "format: a table has columns already")
            return ParquetFormat()
        given = found.get("format", "debezium" if isinstance(source, PostgresSource) else None)
        place = found.place_of("format")
        registry = _registry(found.get("registry"))
        word = given if isinstance(given, str) else next(iter(given.values), "json") if given else "json"
        options: Mapping[str, Any] = {}
        if isinstance(given, Found) and isinstance(given.get(word), Found):
            options = given.get(word).values
        match word:
            case "csv":
                # `null` would not be text in YAML.
                named = {"null" if key == "no_value" else key: value for key, value in options.items()}
                return CsvFormat(**named)
            case "avro":
                return self._avro(options, registry, place, isinstance(source, FileSource))
            case "protobuf":
                return self._protobuf(options, registry, place)
            case "debezium":
                return self._debezium(options, registry, place)
            case "raw":
                return RawFormat()
            case "parquet":
                return ParquetFormat()
            case _:
                return JsonFormat(**options)

    def metadata(self, found: Found) -> MetadataColumns:
        given = found.get("metadata")
        return MetadataColumns() if given is None else MetadataColumns(**given.values)

    def default_schema(self, source: Source, format_: Format) -> Schema | None:
        """The columns that follow from source and format alone; None: somebody must be asked."""
        if isinstance(source, SensorSource):
            from frazil.stream.sensors.readings import SENSOR_SCHEMA

            return SENSOR_SCHEMA
        if isinstance(format_, RawFormat):
            return Schema((Field("value", "binary"),))
        if isinstance(format_, AvroFormat) and format_.schema is not None:
            from frazil.stream.decode.avro_schema import iceberg_schema

            return iceberg_schema(format_.schema)
        if isinstance(format_, ProtobufFormat) and format_.descriptors and format_.message:
            from frazil.stream.decode.protobuf_schema import declared_schema

            return declared_schema(format_)
        return None

    def _postgres(self, given: Found, name: str) -> Source:
        options = {"host": "localhost", "database": "", "user": "", "password": "", **given.values}
        options["tables"] = tuple(options.get("tables", ()))
        options["properties"] = plain(given.get("properties"))
        options["snapshot"] = Snapshot(options.get("snapshot", Snapshot.INITIAL))
        try:
            return PostgresSource(name, **options)
        except InvalidConfig as error:
            self.problems.add(given.place, f"postgres: {error.message}")
            return KafkaSource({})

    def _files(self, given: Any, start: Start) -> FileSource:
        if isinstance(given, str):
            return FileSource(given, start=start)
        options = {key: value for key, value in given.values.items() if key not in ("path", "settings")}
        return FileSource(
            given.get("path", ""), settings=plain(given.get("settings")), start=start, **options
        )

    def _only(self, found: Found, *keys: str) -> None:
        for key in found.nodes:
            if key not in keys:
                self.problems.add(found.place_of(key), f"{key}: this source has no such key")

    def _start(self, found: Found, topics: tuple[str, ...]) -> Start:
        start = found.get("start", "earliest")
        if not isinstance(start, Found):
            return Start(start)
        self._check_offsets("start", start, topics)
        if not ("topics" in found.nodes or "pattern" in found.nodes):
            self.problems.add(start.place, "start: offsets are for topics; write earliest, latest or a time")
        return Start(dict(start.values))

    def _check_offsets(self, key: str, given: Found, topics: tuple[str, ...]) -> None:
        for name, node in given.nodes.items():
            if topics and name not in topics:
                self.problems.add(
                    node.place, f"{key}: offsets for '{name}', which is not read; topics: {', '.join(topics)}"
                )
        if not given.nodes:
            self.problems.add(given.place, f"{key}: there are no offsets; write them as {{orders: [0, 10]}}")

    def _history(self, found: Found, topics: tuple[str, ...]) -> History | None:
        given = found.get("history")
        if given is None:
            return None
        if "start" in found.nodes:
            self.problems.add(
                found.place_of("history"), "history: it says where the log goes on; leave 'start' out"
            )
        if not isinstance(given, Found):
            return History(*given)
        offsets = given.get("offsets")
        if offsets is not None:
            self._check_offsets("history", offsets, topics)
        for key, wrong in (
            ("until", offsets is not None and "a snapshot is chosen by 'until', or its 'offsets' are given"),
            ("snapshot", offsets is None and "say by 'offsets' where the log goes on behind a snapshot"),
        ):
            if key in given.nodes and wrong:
                self.problems.add(given.place_of(key), f"history: {wrong}")
        namespace, name = given.get("table", ((), ""))
        taken = None if offsets is None else dict(offsets.values)
        return History(namespace, name, given.get("until"), taken, given.get("snapshot"))

    def _avro(
        self, options: Mapping[str, Any], registry: Registry | None, place: Place, in_files: bool
    ) -> AvroFormat:
        path = options.get("schema_file")
        if path is None:
            # A file of Avro has its schema in it.
            if registry is None and not in_files:
                self.problems.add(place, "format: avro needs a 'registry', or a 'schema_file'")
            return AvroFormat(registry)
        text = self._file(path, place)
        return AvroFormat(None, None if text is None else text.decode("utf-8", "replace"))

    def _debezium(
        self, options: Mapping[str, Any], registry: Registry | None, place: Place
    ) -> DebeziumFormat:
        if options.get("encoding") == "avro" and registry is None:
            self.problems.add(place, "format: debezium in avro needs a 'registry'")
        units = options.get("units")
        told = {key: value for key, value in options.items() if key != "units"}
        return DebeziumFormat(registry=registry, units=dict(units.values) if units else {}, **told)

    def _protobuf(
        self, options: Mapping[str, Any], registry: Registry | None, place: Place
    ) -> ProtobufFormat:
        path, message = options.get("descriptor_file"), options.get("message")
        if path is None and registry is None:
            self.problems.add(
                place, "format: protobuf needs a 'registry', or 'descriptor_file' and 'message'"
            )
        if path is None:
            return ProtobufFormat(registry, None, message)
        if message is None:
            self.problems.add(place, "format: with a 'descriptor_file', say which 'message' a record is")
        return ProtobufFormat(None, self._file(path, place), message)

    def _file(self, path: str, place: Place) -> bytes | None:
        where = (self.directory or Path()) / path
        try:
            return where.read_bytes()
        except OSError as error:
            self.problems.add(place, f"format: cannot read {path}: {error.strerror}")
            return None


def _registry(given: Any) -> Registry | None:
    if given is None or isinstance(given, str):
        return None if given is None else Registry(given)
    return Registry(**given.values) if "url" in given.values else None
