"""From what was read to the place where rows go, and what becomes of those that do not fit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.core.errors import InvalidConfig
from frazil.core.partitioning import PartitionField, bind
from frazil.core.schema import Schema, show_type
from frazil.lake.files import FileOptions
from frazil.maintenance.settings import Maintenance
from frazil.stream.config.build_source import plain
from frazil.stream.config.model import (
    Contract,
    DatasetConfig,
    DeadLetters,
    TableConfig,
)
from frazil.stream.config.nodes import Problems
from frazil.stream.config.shapes import Found

_LEVELS = {"zstd": 22, "gzip": 9}
_TIMES = frozenset({"year", "month", "day", "hour"})
_HOLE = re.compile(r"\{([^{}]*)\}")
#: Of a routed table: the topic, which is no column.
_TOPIC = "topic"


@dataclass(frozen=True)
class SinkBuilder:
    problems: Problems

    def table(self, found: Found, rows: Schema | None) -> TableConfig:
        """`rows`: the columns that will land, None where a transform may make or drop some."""
        namespace, name = found.get("table", ((), ""))
        holes = _HOLE.findall(name)
        if {"{", "}"} & set(_HOLE.sub("", name)):
            self.problems.add(found.place_of("table"), "table: a brace stands alone; write {column}")
        if any("{" in level or "}" in level for level in namespace):
            self.problems.add(
                found.place_of("table"), "table: only the name can have {column} in it, not the namespace"
            )
        known = None if rows is None else {field.name: field.type for field in rows}
        for hole in holes:
            if known is not None and hole not in known and hole != _TOPIC:
                legal = ", ".join(sorted(known))
                self.problems.add(
                    found.place_of("table"),
                    f"table: there is no column '{hole}'; legal in braces: topic, {legal}",
                )
            elif known is not None and not isinstance(known.get(hole, ""), str):
                self.problems.add(
                    found.place_of("table"),
                    f"table: '{hole}' is a {show_type(known[hole])}; only a single value can be in a name",
                )
        partitioning = found.get("partitioning", ())
        if partitioning:
            self._check_partitioning(found, partitioning, rows)
        return TableConfig(
            namespace,
            name,
            partitioning,
            plain(found.get("properties")),
            self._files(found.get("files")),
            found.get("format_version", TableConfig.format_version),
            bool(holes),
        )

    def dataset(self, found: Found) -> DatasetConfig | None:
        given = found.get("dataset")
        if given is None:
            return None
        for key in ("partitioning", "files", "properties", "format_version", "dead_letters", "maintenance"):
            if key in found.nodes:
                self.problems.add(found.place_of(key), f"{key}: a dataset has no such thing")
        if "event_time" in found.nodes:
            self.problems.add(
                found.place_of("event_time"), "event_time: a dataset keeps no watermark; leave it out"
            )
        source = found.get("source")
        if isinstance(source, Found) and "files" in source.nodes:
            self.problems.add(
                found.place_of("dataset"),
                "dataset: which files were read is kept in an Iceberg table, in the commit of their rows; "
                "write 'table' instead, or read something other than files",
            )
        if not isinstance(given, Found):
            return DatasetConfig(*given)
        namespace, name = given.get("table", ((), ""))
        return DatasetConfig(namespace, name, given.get("format", DatasetConfig.format))

    def dead_letters(self, found: Found, table: TableConfig, *, changes: bool = False) -> DeadLetters | None:
        """`changes`: without a word of the user, a change that cannot be taken stops its table."""
        given = found.get("dead_letters")
        if given == "stop" or "dataset" in found.nodes or (changes and given is None):
            if given == "stop" and table.routed and not changes:
                self.problems.add(
                    found.place_of("dead_letters"),
                    "dead_letters: a pipeline with many tables needs the dead-letter table, which also "
                    "keeps how far it is; leave 'stop' out",
                )
            return None
        usual = _HOLE.sub("", table.name).strip("_-") or "routed"
        where = (table.namespace, f"{usual}_dead_letters")
        share = None
        if isinstance(given, Found):
            where, share = given.get("table", where), given.get("stop_above")
        elif given is not None:
            where = given
        if where == (table.namespace, table.name):
            self.problems.add(
                found.place_of("dead_letters"), "dead_letters: this is the table of the rows; write another"
            )
        return DeadLetters(*where, share)

    def contract(self, found: Found, table: TableConfig) -> Contract:
        given = found.get("contract")
        if given is None:
            return Contract()
        if isinstance(given, str):
            # One word is about what records bring along; that tables are made is told apart.
            contract = Contract(columns=given, types=given)  # type: ignore[arg-type] # checked by the shape
        else:
            contract = Contract(**given.values)
        if "evolve" in (contract.columns, contract.types):
            place = found.place_of("contract")
            if "transform" in found.nodes:
                self.problems.add(
                    place,
                    "contract: behind a transform the table cannot follow the records; write freeze, "
                    "discard_row or discard_value for columns and types",
                )
            elif table.routed or "dataset" in found.nodes:
                self.problems.add(
                    place, "contract: only a single table can evolve its columns and types with its records"
                )
        return contract

    def maintenance(self, given: Found | str | None) -> Maintenance:
        if given == "off":
            return Maintenance(None, None)
        return Maintenance(**given.values) if isinstance(given, Found) else Maintenance()

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
        return FileOptions(
            found.get("size", FileOptions.size),
            compression,
            level,
            found.get("format", FileOptions.format),
        )
