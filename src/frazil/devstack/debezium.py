"""Configurations of Debezium's connectors, as they are known to work with frazil's servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from frazil.core.errors import ServiceError
from frazil.devstack.connect import AVRO, JSON

Format = Literal["json", "json-schema", "avro"]


@dataclass(frozen=True)
class Capture:
    """What is captured of a database, and into which topics (`<prefix>.<schema>.<table>`)."""

    #: The connector's name, the first part of its topics, and of what it makes in the database.
    prefix: str
    port: int
    user: str
    database: str
    bootstrap_servers: str
    format: Format = "json"
    #: Where Avro's schemas go: the address of the registry without a path.
    registry: str | None = None
    #: Settings of the connector that replace or add to those made here.
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def signals(self) -> str:
        """The topic whose signals the connector follows; it must be there, with one partition."""
        return f"{self.prefix}.signals"

    @property
    def slot(self) -> str:
        """The name of PostgreSQL's replication slot and publication."""
        return self.prefix.replace("-", "_").replace(".", "_")


def postgres_connector(capture: Capture, *, schemas: str = "public") -> dict[str, str]:
    """For a publication named as the slot, which the administrator makes.

    The password goes to `create_connector(secrets={"database.password": …})`.
    """
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.dbname": capture.database,
        "schema.include.list": schemas,
        "slot.name": capture.slot,
        "publication.name": capture.slot,
        # The publication decides about the tables, so that new ones come without a restart.
        "publication.autocreate.mode": "disabled",
        **_common(capture),
    }


def mariadb_connector(capture: Capture, *, server_id: int = 5400) -> dict[str, str]:
    """`server_id` must differ from that of the server and of its other readers."""
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.include.list": capture.database,
        "database.server.id": str(server_id),
        # Else those from 2**63 on come as negative numbers, and nothing tells that they are not.
        "bigint.unsigned.handling.mode": "precise",
        "schema.history.internal.kafka.bootstrap.servers": capture.bootstrap_servers,
        "schema.history.internal.kafka.topic": f"{capture.prefix}.schema-history",
        # An incremental snapshot waits for the next event of the binlog: an idle server sends one this often.
        "connect.keep.alive.interval.ms": "2000",
        **_common(capture),
    }


def _common(capture: Capture) -> dict[str, str]:
    return {
        "tasks.max": "1",
        "topic.prefix": capture.prefix,
        "database.hostname": "127.0.0.1",
        "database.port": str(capture.port),
        "database.user": capture.user,
        "snapshot.mode": "initial",
        # Else a TRUNCATE leaves no trace.
        "skipped.operations": "none",
        "provide.transaction.metadata": "true",
        # Incremental snapshots by signals from Kafka, with no table of signals in the database.
        "read.only": "true",
        "signal.enabled.channels": "kafka",
        "signal.kafka.topic": capture.signals,
        "signal.kafka.bootstrap.servers": capture.bootstrap_servers,
        "signal.poll.interval.ms": "500",
        "poll.interval.ms": "100",
        # The broker makes no topics by itself.
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.partitions": "1",
        **_converters(capture),
        **capture.more,
    }


def _converters(capture: Capture) -> dict[str, str]:
    if capture.format != "avro":
        each = {"": JSON, ".schemas.enable": str(capture.format == "json-schema").lower()}
    elif capture.registry is None:
        raise ServiceError("Avro needs a registry for its schemas: give `registry` its address")
    else:
        each = {
            "": AVRO,
            ".apicurio.registry.url": f"{capture.registry}/apis/registry/v2",
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.find-latest": "true",
            # A zero byte and four of the id that Confluent's API knows the schema by.
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.use-id": "contentId",
            ".apicurio.registry.headers.enabled": "false",
        }
    names = {"schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}
    settings = {f"{part}.converter{name}": value for part in ("key", "value") for name, value in each.items()}
    return settings | (names if capture.format == "avro" else {})
