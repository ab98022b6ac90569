"""Which table a topic becomes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from frazil.core.names import check_name
from frazil.stream.config.model import KafkaSource, PipelineConfig, Source
from frazil.stream.postgres.source import PostgresSource

_HOLE = re.compile(r"\{(topic|schema|table)\}")


def table_name(template: str, topic: str) -> str:
    """The name, by the parts of a topic as Debezium names it: server, schema (or database), table.

    >>> table_name("raw_{schema}_{table}", "pg.inventory.orders")
    'raw_inventory_orders'
    """
    parts = topic.split(".")
    values = {
        "topic": topic.replace(".", "_"),
        "schema": parts[-2] if len(parts) > 1 else "",
        "table": parts[-1],
    }
    return check_name(_HOLE.sub(lambda hole: values[hole[1]], template), "the table of a topic")


def lane_config(config: PipelineConfig, topic: str) -> PipelineConfig:
    """A pipeline of changes as if it had one topic alone: that is how its tables know it."""
    source = config.source
    if isinstance(source, KafkaSource):
        source = replace(source, topics=(topic,), pattern=None)
    return replace(
        config,
        source=source,
        table=replace(config.table, name=table_name(config.table.name, topic), routed=False),
    )


def lanes(config: PipelineConfig) -> Sequence[PipelineConfig]:
    """The parts of a pipeline that have a stamp each. The source is asked which topics there are."""
    if config.changes is None:
        return (config,)
    return tuple(lane_config(config, topic) for topic in _topics(config.source))


def _topics(source: Source) -> Sequence[str]:
    if isinstance(source, PostgresSource):
        from frazil.stream.postgres.feed import PostgresFeed

        feed = PostgresFeed(source)
        try:
            return feed.topics()
        finally:
            feed.close()
    assert isinstance(source, KafkaSource), "the configuration asks for it"
    if source.pattern is None:
        return source.topics
    from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog

    return sorted(KafkaLog(source, timeout_seconds=COMMAND_SECONDS).topics())
