"""From what was read to how changes become tables."""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.stream.config.model import (
    ChangesConfig,
    DebeziumFormat,
    Format,
    KafkaSource,
    Source,
    TableConfig,
)
from frazil.stream.config.nodes import Problems
from frazil.stream.config.shapes import Found
from frazil.stream.postgres.source import PostgresSource

_HOLE = re.compile(r"\{([^{}]*)\}")
_HOLES = ("schema", "table", "topic")
#: What such a pipeline cannot have, and why.
_NOT = {
    "transform": "changes go to their tables as they are; transform what a pipeline reads from those",
    "stateful": "changes go to their tables as they are",
    "dataset": "rows of a dataset cannot be changed; write to a table",
    "metadata": "the table has the columns of its source; `changes.mode: append` adds _offset and such",
    "contract": "the table follows its source",
    "event_time": "a table that is changed has no watermark",
}


@dataclass(frozen=True)
class ChangesBuilder:
    problems: Problems

    def changes(
        self, found: Found, source: Source, format_: Format, table: TableConfig
    ) -> ChangesConfig | None:
        if not isinstance(format_, DebeziumFormat):
            if "changes" in found.nodes:
                self.problems.add(
                    found.place_of("changes"), "changes: only records of 'format: debezium' are changes"
                )
            return None
        for key, reason in _NOT.items():
            if key in found.nodes:
                self.problems.add(found.place_of(key), f"{key}: {reason}")
        if not isinstance(source, KafkaSource | PostgresSource):
            self.problems.add(
                found.place_of("format"), "format: debezium is for topics of Kafka, and for postgres"
            )
        else:
            self._check_name(found, source, table)
        made = _made(found.get("changes"))
        if made.soft_delete is not None and made.mode == "append":
            self.problems.add(
                found.place_of("changes"), "changes: soft_delete says nothing where every change is a row"
            )
        if (
            made.whole_transactions
            and isinstance(source, KafkaSource)
            and (format_.encoding != "json" or format_.envelope == "flat")
        ):
            self.problems.add(
                found.place_of("changes"),
                "changes: whole_transactions needs Debezium's envelopes in JSON, or postgres as the source",
            )
        return made

    def _check_name(self, found: Found, source: KafkaSource | PostgresSource, table: TableConfig) -> None:
        if isinstance(source, KafkaSource) and source.history is not None and _several(source):
            self.problems.add(
                found.get("source").place_of("history"),
                "history: each topic is a table of its own, and this is the history of one; read one topic",
            )
        holes = _HOLE.findall(table.name)
        for hole in holes:
            if hole not in _HOLES:
                self.problems.add(
                    found.place_of("table"),
                    f"table: no topic has '{hole}'; legal in braces: {', '.join(_HOLES)}",
                )
        if not holes and _several(source):
            self.problems.add(
                found.place_of("table"),
                "table: each topic is a table of its own; write a name such as shop.{table}",
            )


def _several(source: KafkaSource | PostgresSource) -> bool:
    if isinstance(source, PostgresSource):
        return len(source.tables) > 1 or any({"*", "?"} & set(table) for table in source.tables)
    return source.pattern is not None or len(source.topics) > 1


def _made(given: Found | None) -> ChangesConfig:
    if given is None:
        return ChangesConfig()
    options = dict(given.values)
    return ChangesConfig(**(options | {"key": tuple(options.get("key", ()))}))
