"""Every key of `hot.yaml`. The loader and the documents are made of this."""

from __future__ import annotations

from frazil.client.naming import identifier
from frazil.core.errors import InvalidInput
from frazil.stream.config import kafka_settings
from frazil.stream.config.keys import CATALOG, PIPELINE, SPARK
from frazil.stream.config.shapes import Count, Key, ListOf, MapOf, Record, Setting, Text, Truth

#: Kafka's settings that writers have for themselves.
_PRODUCERS = (
    "transactional.id",
    "enable.idempotence",
    "acks",
    "linger.ms",
    "compression.type",
    "partitioner",
)
_DURATION = r"^\d+(\.\d+)?\s*(ms|s|min|m|h|d)$"


def _kafka_problem(name: str) -> str | None:
    if name in _PRODUCERS:
        return (
            f"the Kafka setting '{name}' is frazil's own: no row may be lost, sent twice or put into another "
            "partition than its key says; leave it out"
        )
    return kafka_settings.refuse(name)


def _table_problem(name: str) -> str | None:
    try:
        identifier(name)
    except InvalidInput as error:
        return error.message
    return None


KAFKA = MapOf(Setting(), "Kafka setting", _kafka_problem, (*kafka_settings.REFUSED, "partitioner"))

TABLE = Record(
    {
        "columns": Key(PIPELINE.keys["schema"].shape, "The columns, by name.", needed=True),
        "key": Key(
            ListOf(Text("the name of a column"), alone=True),
            "The primary key: a row replaces the one that has its values there.",
            "none: rows are only added",
        ),
        "buckets": Key(Count(), "Partitions of the topic, for good where there is a key.", "1"),
        "bucket_key": Key(
            ListOf(Text("the name of a column"), alone=True),
            "Rows that are the same there are in one bucket; where there is a key, that or its beginning.",
            "the key",
        ),
        "replicas": Key(Count(), "Copies of the topic.", "as the brokers have it"),
        "partitioning": PIPELINE.keys["partitioning"],
        "enabled": Key(Truth(), "Whether rows go to Iceberg.", "true"),
        "freshness": Key(
            Text("a duration such as 30s", pattern=_DURATION),
            "How old rows may be that are not yet there.",
            "3m",
        ),
        "compaction": Key(Truth(), "Whether small files are merged.", "false"),
        "expiry": Key(Truth(), "Whether old snapshots expire.", "false"),
        "keep": Key(
            Text("a duration such as 1h", pattern=_DURATION),
            "How long rows stay in the log after they are in Iceberg: so long a pinned read can be repeated.",
            "1h",
        ),
        "dead_letters": Key(
            Text("namespace.name of a table"),
            "The table that records go to that are no rows.",
            "none: the table stops at the first one",
        ),
        "event_time": Key(
            Text("the name of a column"),
            "The column that says when a thing happened; the watermark follows it.",
            "none: there is no watermark",
        ),
        "comment": Key(Text("text"), "What the table holds.", "none"),
        "properties": Key(MapOf(Setting(), "table property"), "Properties of the Iceberg table.", "none"),
        "format_version": PIPELINE.keys["format_version"],
    }
)

FILE = Record(
    {
        "catalog": Key(CATALOG, "Where the tables are."),
        "kafka": Key(KAFKA, "Client settings of librdkafka; `bootstrap.servers` among them."),
        "spark": Key(SPARK, "The Spark session of tiering and of reads through Spark."),
        "tables": Key(MapOf(TABLE, "table", _table_problem), "Hot tables, by name."),
    }
)
