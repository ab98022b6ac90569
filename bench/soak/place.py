"""The services that everything runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres


@dataclass(frozen=True)
class Place:
    """A database, Debezium behind it, the broker, and the catalog with its warehouse on the local disk."""

    postgres: Postgres
    kafka: Kafka
    connect: KafkaConnect
    server: FrazilServer


@contextmanager
def place() -> Iterator[Place]:
    with (
        Postgres(fsync=False, logical=True) as postgres,
        Kafka() as kafka,
        KafkaConnect(kafka.bootstrap_servers) as connect,
        FrazilServer() as server,
    ):
        yield Place(postgres, kafka, connect, server)
