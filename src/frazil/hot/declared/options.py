"""Options of a hot table: those of Fluss that mean something here, and why the others are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from frazil.core.durations import parse_duration
from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.hot.table import (
    AUTO_COMPACTION,
    AUTO_EXPIRE,
    BUCKETS,
    ENABLED,
    EVENT_TIME,
    FRESHNESS,
    KEEP,
    LETTERS,
    count,
    table_name,
)
from frazil.stream.config.shapes import unknown
from frazil.stream.config.values import freshness

BUCKET_KEY = "bucket.key"
REPLICAS = "table.replication.factor"
FORMAT = "table.datalake.format"


def _truth(text: str) -> None:
    if text.lower() not in ("true", "false"):
        raise InvalidConfig(f"'{text}' is not legal; legal: true, false")


def _iceberg(text: str) -> None:
    if text.lower() != "iceberg":
        raise InvalidConfig(f"'{text}' is not legal; legal: iceberg")


def _columns(text: str) -> None:
    if not all(part.strip() for part in text.split(",")):
        raise InvalidConfig(f"'{text}' is not legal; legal: names of columns with commas between them")


_LEGAL: dict[str, Callable[[str], object]] = {
    ENABLED: _truth,
    FRESHNESS: freshness,
    AUTO_COMPACTION: _truth,
    AUTO_EXPIRE: _truth,
    FORMAT: _iceberg,
    BUCKETS: count,
    BUCKET_KEY: _columns,
    REPLICAS: count,
    KEEP: parse_duration,
    LETTERS: table_name,
    EVENT_TIME: _columns,
}
#: How Fluss's servers keep their files: taken and kept, with nothing to act on.
_WITHOUT_EFFECT = (
    "table.log.format",
    "table.kv.format",
    "table.kv.format-version",
    "table.log.arrow.compression.type",
    "table.log.arrow.compression.zstd.level",
    "table.log.tiered.local-segments",
)
_REFUSED = {
    "table.log.ttl": f"the log is trimmed behind Iceberg, never by age alone; write '{KEEP}', which says how "
    "long records stay after that",
    "table.merge-engine": "a row replaces the whole row that has its key; other merges are not offered",
    "table.delete.behavior": "deletes remove rows; nothing else is offered",
    "table.changelog.image": "whole rows are logged; nothing else is offered",
    "table.auto-partition": "partitions of Iceberg come with their rows; leave it out",
    "table.auto-increment": "values come with their rows; leave it out",
    "connector": "hot tables need no connector; leave it out",
    "bootstrap.servers": "Kafka's brokers are a setting of the cluster, under 'kafka' in hot.yaml",
}


def check_options(options: Mapping[str, str]) -> None:
    """InvalidConfig for one that there is not, or whose value is not legal."""
    for name, value in options.items():
        if name in _LEGAL:
            try:
                _LEGAL[name](value)
            except InvalidInput as error:
                raise InvalidConfig(f"'{name}': {error.message}") from None
        elif name not in _WITHOUT_EFFECT:
            raise InvalidConfig(_reason(name))


def _reason(name: str) -> str:
    for begin, reason in _REFUSED.items():
        if name == begin or name.startswith(f"{begin}."):
            return f"the option '{name}' is not taken: {reason}"
    legal = (*_LEGAL, "iceberg.*")
    return unknown(name, legal, "option")
