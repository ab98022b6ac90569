"""Which table a topic becomes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from frazil.core.errors import FrazilError
from frazil.core.names import check_name
from frazil.stream.config.model import KafkaSource, PipelineConfig

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
    assert isinstance(config.source, KafkaSource), "changes come from topics"
    return replace(
        config,
        source=replace(config.source, topics=(topic,), pattern=None),
        table=replace(config.table, name=table_name(config.table.name, topic), routed=False),
    )


def lanes(config: PipelineConfig) -> Sequence[PipelineConfig]:
    """The parts of a pipeline that have a stamp each. Kafka is asked which topics match a pattern."""
    if config.changes is None or not isinstance(config.source, KafkaSource):
        return (config,)
    topics: Sequence[str] = config.source.topics
    if config.source.pattern is not None:
        from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog

        try:
            topics = sorted(KafkaLog(config.source, timeout_seconds=COMMAND_SECONDS).topics())
        except FrazilError:
            # Whoever asks the pipeline itself meets the reason.
            return (config,)
    return tuple(lane_config(config, topic) for topic in topics)
