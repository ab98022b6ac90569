"""Lets the rows of a table be read from its database once more."""

from __future__ import annotations

import uuid

import msgspec
from confluent_kafka import KafkaException, Producer

from frazil.core.errors import InvalidConfig, NotFound, Unavailable, Unsupported
from frazil.stream.cdc.naming import lane_config
from frazil.stream.config.model import ChangesConfig, KafkaSource, PipelineConfig
from frazil.stream.kafka.settings import addresses, admin_settings
from frazil.stream.postgres.source import PostgresSource

_SECONDS = 30.0


def ask_for_snapshot(config: PipelineConfig, lane: PipelineConfig) -> str:
    """Ask for the rows of a lane of the pipeline; the name of the table as its database has it.

    Rows come among the changes, and none of them is older than a change before it.
    """
    if isinstance(config.source, PostgresSource):
        return _tell_pipeline(config, config.source, lane)
    if lane.changes is None or not isinstance(lane.source, KafkaSource):
        raise Unsupported(
            f"pipeline '{lane.name}' does not follow the changes of a database, which could be asked for the "
            "rows of a table again"
        )
    return _tell_connector(lane, lane.changes, lane.source)


def _tell_pipeline(config: PipelineConfig, source: PostgresSource, lane: PipelineConfig) -> str:
    from frazil.stream.postgres.database import Database
    from frazil.stream.postgres.requests import ask

    database = Database(source)
    try:
        for table in database.tables():
            if lane_config(config, source.topic(table.schema, table.name)).table == lane.table:
                ask(database, source, table)
                return table.full_name
    finally:
        database.close()
    raise NotFound(f"{source.where} has no table any more that becomes {lane.table.name}")


def _tell_connector(lane: PipelineConfig, changes: ChangesConfig, source: KafkaSource) -> str:
    """An incremental snapshot of Debezium's."""
    if changes.signals is None:
        raise InvalidConfig(
            f"pipeline '{lane.name}' does not know where its connector takes signals: set `changes.signals` "
            "to the connector's signal.kafka.topic (and let its signal.enabled.channels have kafka)"
        )
    (topic,) = source.topics
    prefix, _, rest = topic.rpartition(".")
    prefix, _, schema = prefix.rpartition(".")
    table = f"{schema}.{rest}"
    signal = {
        "id": uuid.uuid4().hex,
        "type": "execute-snapshot",
        "data": {"type": "INCREMENTAL", "data-collections": [table]},
    }
    settings = admin_settings(source.settings)
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
