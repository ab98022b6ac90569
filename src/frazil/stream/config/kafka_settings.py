"""Which settings of Kafka's client a user may give, and the reasons for the others."""

from __future__ import annotations

_TABLE = "the position is kept in the table, not in a consumer group"
_COMMITTED = "exactly once needs only committed records, and all of them"
_BY_START = "say where to begin with 'start'; a position that is gone must be an error"
_ALONE = "the partitions are dealt out to Spark's tasks, not by a consumer group"
_PRODUCER = "it is a setting of producers, and pipelines only read"
_INSIDE = "it is set by the reader itself"

OWNED: dict[str, str] = {
    "group.id": _TABLE,
    "enable.auto.commit": _TABLE,
    "auto.commit.interval.ms": _TABLE,
    "enable.auto.offset.store": _TABLE,
    "isolation.level": _COMMITTED,
    "allow.auto.create.topics": "a topic that is not there must be an error",
    "auto.offset.reset": _BY_START,
    "enable.partition.eof": _INSIDE,
    "group.instance.id": _ALONE,
    "group.protocol": _ALONE,
    "group.remote.assignor": _ALONE,
    "partition.assignment.strategy": _ALONE,
    "session.timeout.ms": _ALONE,
    "heartbeat.interval.ms": _ALONE,
    "max.poll.interval.ms": _ALONE,
    "transactional.id": _PRODUCER,
    "enable.idempotence": _PRODUCER,
    "acks": _PRODUCER,
    "linger.ms": _PRODUCER,
    "compression.type": _PRODUCER,
}

#: Settings of the Java client that people paste, and what librdkafka has instead.
_JAVA: dict[str, str] = {
    "sasl.jaas.config": "sasl.mechanism, sasl.username and sasl.password",
    "ssl.truststore.location": "ssl.ca.location (a PEM file)",
    "ssl.truststore.password": "ssl.ca.location (a PEM file, which has no password)",
    "ssl.truststore.type": "ssl.ca.location (a PEM file)",
    "key.deserializer": "'format' of the pipeline",
    "value.deserializer": "'format' of the pipeline",
}
REFUSED: tuple[str, ...] = (*OWNED, *_JAVA)


def refuse(name: str) -> str | None:
    """Why a setting cannot be given, or None."""
    if name in OWNED:
        return f"the Kafka setting '{name}' is frazil's own: {OWNED[name]}; leave it out"
    if name in _JAVA:
        return f"'{name}' is a setting of the Java client; use {_JAVA[name]}"
    if name.startswith("kafka."):
        return f"'{name}': write it without 'kafka.', as {name.removeprefix('kafka.')!r}"
    return (
        f"the Kafka setting '{name}' is a function, which cannot be given" if name.endswith("_cb") else None
    )
