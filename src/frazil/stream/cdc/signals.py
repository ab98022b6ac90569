"""Tells a connector of Debezium to read the rows of a table once more."""

from __future__ import annotations

import uuid

import msgspec
from confluent_kafka import KafkaException, Producer

from frazil.core.errors import InvalidConfig, Unavailable, Unsupported
from frazil.stream.config.model import KafkaSource, PipelineConfig
from frazil.stream.kafka.settings import addresses, admin_settings

_SECONDS = 30.0


def ask_for_snapshot(lane: PipelineConfig) -> str:
    """Send the signal for the topic of a lane; the name of the table as the connector has it.

    An incremental snapshot: rows come among the changes, and none of them is older than a change before it.
    """
    changes = lane.changes
    if changes is None or not isinstance(lane.source, KafkaSource):
        raise Unsupported(
            f"pipeline '{lane.name}' does not take changes from a connector of Debezium, which could be told "
            "to read a table again"
        )
    if changes.signals is None:
        raise InvalidConfig(
            f"pipeline '{lane.name}' does not know where its connector takes signals: set `changes.signals` "
            "to the connector's signal.kafka.topic (and let its signal.enabled.channels have kafka)"
        )
    (topic,) = lane.source.topics
    prefix, _, rest = topic.rpartition(".")
    prefix, _, schema = prefix.rpartition(".")
    table = f"{schema}.{rest}"
    signal = {
        "id": uuid.uuid4().hex,
        "type": "execute-snapshot",
        "data": {"type": "INCREMENTAL", "data-collections": [table]},
    }
    settings = admin_settings(lane.source.settings)
    try:
        producer = Producer({**settings, "enable.idempotence": True})
        producer.produce(changes.signals, msgspec.json.encode(signal), prefix.encode())
        left = producer.flush(_SECONDS)
    except KafkaException as error:
        raise Unavailable(f"sending a signal to {addresses(settings)}: {error.args[0].str()}") from None
    if left:
        raise Unavailable(
            f"Kafka at {addresses(settings)} did not take the signal within {_SECONDS:g} s; try again"
        )
    return table
