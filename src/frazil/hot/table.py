"""A hot table as the catalog knows it: all of its declaration is in the Iceberg table itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from frazil.core.durations import parse_duration
from frazil.core.errors import InvalidConfig, InvalidInput
from frazil.core.names import show
from frazil.core.schema import Schema
from frazil.maintenance.settings import Maintenance
from frazil.stream.config.hash import pipeline_hash
from frazil.stream.config.model import (
    ChangesConfig,
    DeadLetters,
    JsonFormat,
    KafkaSource,
    PipelineConfig,
    TableConfig,
)

#: What tiering is called in stamps, tags and file names of every hot table.
TIERING = "hot"
#: The table property that makes a table a hot one: `Binding` as JSON.
BINDING = "frazil.hot"
ENABLED = "table.datalake.enabled"
FRESHNESS = "table.datalake.freshness"
AUTO_COMPACTION = "table.datalake.auto-compaction"
AUTO_EXPIRE = "table.datalake.auto-expire-snapshot"
#: Partitions that the topic was made with.
BUCKETS = "bucket.num"
#: How long records stay in the log after they are in Iceberg, so that a pinned read can be repeated.
KEEP = "frazil.hot.keep"
#: The table that bad records go to; without it, a table stops at the first one.
LETTERS = "frazil.hot.dead-letters"
#: The column that the table's watermark follows.
EVENT_TIME = "frazil.hot.event-time"
TIMES = ("timestamp", "timestamptz")
DEFAULT_FRESHNESS = "3min"
DEFAULT_KEEP = "1h"
#: Seconds that snapshots outlive the keep window: reads take their time, and the log is trimmed now and then.
_KEEP_MARGIN = 600.0
_MOST = 100_000


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Which log belongs to the table."""

    v: int = 1
    topic: str
    #: A topic that was deleted and made again has another one.
    topic_id: str
    #: `kafka:<cluster id>`
    source: str
    #: `bootstrap.servers`, for whoever says nothing else; never a secret.
    brokers: str

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True)
class HotTable:
    """What there is to know about it without asking Kafka."""

    namespace: tuple[str, ...]
    name: str
    binding: Binding
    schema: Schema
    #: Columns that tell rows apart; none: a table of a log, to which rows are appended.
    key: tuple[str, ...] = ()
    #: Partitions that its topic was made with; None: nobody wrote that down.
    buckets: int | None = None
    enabled: bool = True
    #: Seconds.
    freshness: float = 180.0
    keep: float = 3600.0
    compaction: bool = False
    expiry: bool = False
    letters: tuple[tuple[str, ...], str] | None = None
    #: None: none was named, or it is gone.
    event_time: str | None = None
    #: A table that was dropped and made again has another one, also where it has the same log.
    uuid: str = ""
    #: All of the Iceberg table's.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return show(self.namespace, self.name)

    @property
    def topic(self) -> str:
        return self.binding.topic

    def pipeline(self, kafka: Mapping[str, str]) -> PipelineConfig:
        """Tiering as a pipeline of this table alone; `kafka`: settings that count before the table's."""
        letters = None if self.letters is None else DeadLetters(*self.letters)
        config = PipelineConfig(
            name=TIERING,
            source=KafkaSource(self.settings(kafka), topics=(self.topic,)),
            format=JsonFormat(),
            schema=self.schema,
            table=TableConfig(self.namespace, self.name),
            dead_letters=letters,
            maintenance=self.maintenance,
            freshness=self.freshness,
            event_time=self.event_time,
            changes=ChangesConfig(mode="upsert" if self.key else "insert", key=self.key),
        )
        return replace(config, hash=pipeline_hash(config))

    @property
    def maintenance(self) -> Maintenance:
        """Of the Iceberg table. A snapshot tells how far the log may be trimmed once it is older than `keep`,
        so none may be gone before."""
        return Maintenance(
            merge_every=Maintenance.merge_every if self.compaction else None,
            keep_snapshots=Maintenance.keep_snapshots if self.expiry else None,
            keep_all=self.keep + _KEEP_MARGIN,
        )

    def settings(self, kafka: Mapping[str, str]) -> dict[str, str]:
        """Of a Kafka client for this table's log."""
        return {"bootstrap.servers": self.binding.brokers, **kafka}


def hot_table(namespace: tuple[str, ...], name: str, metadata: Mapping[str, Any]) -> HotTable | None:
    """The hot table in a table's metadata document; None: it is an ordinary one."""
    properties: Mapping[str, str] = metadata.get("properties") or {}
    if BINDING not in properties:
        return None
    document = current_schema(metadata)
    identifiers = document.get("identifier-field-ids") or ()
    where = show(namespace, name)
    schema = Schema.from_json(document, where)
    try:
        return HotTable(
            namespace,
            name,
            msgspec.json.decode(properties[BINDING], type=Binding),
            schema,
            tuple(one.name for one in schema if one.id in identifiers),
            buckets=_buckets(properties),
            enabled=_truth(properties, ENABLED, default=True),
            freshness=parse_duration(properties.get(FRESHNESS, DEFAULT_FRESHNESS)),
            keep=parse_duration(properties.get(KEEP, DEFAULT_KEEP)),
            compaction=_truth(properties, AUTO_COMPACTION, default=False),
            expiry=_truth(properties, AUTO_EXPIRE, default=False),
            letters=table_name(properties[LETTERS]) if LETTERS in properties else None,
            event_time=_event_time(properties, schema),
            uuid=str(metadata["table-uuid"]),
            properties=properties,
        )
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidConfig(f"the properties of the hot table {where}: {error}") from None


def current_schema(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a metadata document that counts now."""
    wanted = metadata["current-schema-id"]
    found: Mapping[str, Any] = next(one for one in metadata["schemas"] if one["schema-id"] == wanted)
    return found


def table_name(text: str) -> tuple[tuple[str, ...], str]:
    """Namespace and name of `shop.orders`.

    >>> table_name("shop.europe.orders")
    (('shop', 'europe'), 'orders')
    """
    *levels, name = text.split(".")
    if not levels or not all((*levels, name)):
        raise InvalidInput(f"'{text}' names no table: write namespace.name, such as shop.orders")
    return tuple(levels), name


def count(text: str) -> int:
    """How many there are of something that there is one of at least."""
    if re.fullmatch("[0-9]{1,6}", text) is None or not 1 <= int(text) <= _MOST:
        raise InvalidConfig(f"'{text}' is not legal; legal: a whole number, 1 or more")
    return int(text)


def _buckets(properties: Mapping[str, str]) -> int | None:
    if BUCKETS not in properties:
        return None
    try:
        return count(properties[BUCKETS])
    except InvalidConfig as error:
        raise InvalidConfig(
            f"'{BUCKETS}': {error.message}. Set it to the number of partitions that the topic was made with"
        ) from None


def _event_time(properties: Mapping[str, str], schema: Schema) -> str | None:
    wanted = properties.get(EVENT_TIME)
    return next((one.name for one in schema if one.name == wanted and one.type in TIMES), None)


def _truth(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = properties.get(name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise InvalidConfig(f"'{name}' is '{text}'; legal: true, false")
    return text.lower() == "true"
