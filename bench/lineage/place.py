"""A Flink cluster on which the jobs were run, with Kafka, PostgreSQL and frazil's catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Producer

from bench.lineage import jobs
from bench.lineage.jobs import JOBS, Addresses, Job
from frazil.core.errors import ServiceError
from frazil.devstack.flink import Flink
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres

ROWS = 40
_SECONDS = 120.0
_SLOTS = 6


@dataclass
class Place:
    """The services, and the jobs that were run there, by name."""

    flink: Flink
    kafka: Kafka
    server: FrazilServer
    addresses: Addresses
    #: The statements of a job's author, as a user would give them to the reader.
    ddl_file: Path
    ids: dict[str, str] = field(default_factory=dict)

    def settings(self, *, gateway: bool, told: bool) -> dict[str, Any]:
        """Those of a read; `told`: with what DataHub's own source has no setting for."""
        connection = {"rest_api_url": self.flink.uri}
        if gateway:
            connection["sql_gateway_url"] = self.flink.gateway_uri
        if not told:
            return {"connection": connection}
        return {
            "connection": connection,
            "iceberg_catalogs": {"ice": {"uri": self.server.catalog_uri}},
            "ddl_file": str(self.ddl_file),
        }

    def prepare(self) -> None:
        for topic in (jobs.ORDERS, jobs.PAYMENTS, jobs.SMALL, jobs.HEAVY):
            self.kafka.create_topic(topic)
        _produce(self.kafka.bootstrap_servers)
        self.flink.execute("SET 'parallelism.default'='1'")
        made = jobs.catalogs(self.addresses)
        tables = jobs.session_tables(self.addresses)
        told = [*made, *tables, *jobs.described_tables()]
        self.ddl_file.write_text("".join(f"{statement};\n" for statement in told))
        for statement in [*made, *jobs.iceberg_tables(), *tables]:
            self.flink.execute(statement)

    def run(self) -> None:
        """Start all jobs, and wait until each is in the state that the truth says."""
        for job in sorted(JOBS, key=lambda job: job.after is not None):
            if job.after is not None:
                self.flink.wait(self.ids[job.after], "FINISHED", seconds=_SECONDS)
            self.ids[job.name] = self._submit(job)
        for job in JOBS:
            if job.state == "CANCELED":
                self.flink.wait(self.ids[job.name], "RUNNING", seconds=_SECONDS)
                self.flink.cancel(self.ids[job.name])
            self.flink.wait(self.ids[job.name], job.state, seconds=_SECONDS)

    def _submit(self, job: Job) -> str:
        self.flink.execute(f"SET 'pipeline.name'='{job.name}'")
        self.flink.execute(f"SET 'table.exec.iceberg.use-v2-sink'='{str(job.new_sink).lower()}'")
        return str(self.flink.execute(job.statement)[0][0])


@contextmanager
def cluster(kafka: Kafka, server: FrazilServer, postgres: Postgres) -> Iterator[Place]:
    """A cluster on these services with all jobs run; catalogs are in a store that every session sees."""
    login = urlsplit(postgres.create_database(jobs.DATABASE))
    postgres.execute(jobs.POSTGRES_TABLES, jobs.DATABASE)
    addresses = Addresses(
        server.catalog_uri,
        kafka.bootstrap_servers,
        postgres.port,
        login.username or "",
        login.password or "",
    )
    with TemporaryDirectory(prefix="frazil-lineage-") as directory:
        store = Path(directory, "catalogs")
        store.mkdir()
        settings = {
            "table.catalog-store.kind": "file",
            "table.catalog-store.file.path": f"file://{store}",
            # As it is, metrics may be missing for the first ten seconds.
            "metrics.fetcher.update-interval": "200 ms",
        }
        with Flink(slots=_SLOTS, settings=settings) as flink:
            place = Place(flink, kafka, server, addresses, Path(directory, "jobs.sql"))
            place.prepare()
            place.run()
            yield place
    postgres.drop_database(jobs.DATABASE)


def _produce(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(ROWS):
        order = {
            "order_id": number,
            "customer_id": number % 5,
            "amount": float(number),
            "note": f"note {number}",
            "ts": f"2026-01-01 {number // 10:02}:{number:02}:00",
        }
        producer.produce(jobs.ORDERS, json.dumps(order))
        producer.produce(jobs.PAYMENTS, json.dumps({"order_id": number, "paid": number / 2}))
    if left := producer.flush(_SECONDS):
        raise ServiceError(f"Kafka did not take {left} of the messages")
