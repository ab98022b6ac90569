"""pgbench's tables in a database of their own, with a connector that carries their changes into Kafka."""

from __future__ import annotations

import asyncio
import subprocess
import time
from types import TracebackType
from typing import Self

import asyncpg
from confluent_kafka import Consumer, TopicPartition

from bench.tables import Row
from frazil.core.errors import ServiceError
from frazil.devstack.connect import KafkaConnect
from frazil.devstack.debezium import Capture, postgres_connector
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres, find_installation

NAME = "bank"
ACCOUNTS, HISTORY = "pgbench_accounts", "pgbench_history"
#: Of each table the columns as they are compared, the key first, and what is summed.
TABLES = {
    ACCOUNTS: (("aid", "bid", "abalance", "filler"), "abalance"),
    "pgbench_tellers": (("tid", "bid", "tbalance"), "tbalance"),
    "pgbench_branches": (("bid", "bbalance"), "bbalance"),
    HISTORY: (("id", "tid", "bid", "aid", "delta", "mtime"), "delta"),
}

# Columns that are always null have no type in messages without schemas.
_SCHEMA = """
ALTER TABLE pgbench_tellers DROP COLUMN filler;
ALTER TABLE pgbench_branches DROP COLUMN filler;
ALTER TABLE pgbench_history DROP COLUMN filler;
ALTER TABLE pgbench_history ADD COLUMN id bigserial PRIMARY KEY;
CREATE SEQUENCE pgbench_aids START {first};
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, 1, 0, now());
CREATE PUBLICATION bank FOR TABLE {tables};
"""
_ACCOUNTS_PER_BRANCH = 100_000
_SECONDS, _ANSWER_SECONDS = 300.0, 30.0
_POLL_SECONDS = 0.2


class Bank:
    """A context: the database with its connector, until they are removed."""

    def __init__(self, server: Postgres, kafka: Kafka, connect: KafkaConnect, scale: int) -> None:
        self.server, self.scale = server, scale
        self._kafka, self._connect = kafka, connect
        # It joins no group and reads nothing.
        self._consumer = Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": NAME, "log_level": 0}
        )

    def __enter__(self) -> Self:
        self.server.create_database(NAME)
        try:
            self._fill()
            self._capture()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def pgbench(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """A command, and the environment that it needs."""
        installed = find_installation()
        program = installed.bin / "pgbench"
        if not program.exists():
            raise ServiceError(
                f"there is no pgbench in {installed.bin}; install what PostgreSQL's packages call contrib"
            )
        address = ["-h", "127.0.0.1", "-p", str(self.server.port), "-U", self.server.user]
        environment = installed.environment | {"PGPASSWORD": self.server.password}
        return [str(program), *address, *arguments, NAME], environment

    def execute(self, sql: str) -> str:
        return self.server.execute(sql, NAME)

    def ends(self) -> dict[str, int]:
        """By table, how many records its topic has."""
        parts = {table: TopicPartition(topic_of(table), 0) for table in TABLES}
        return {
            table: self._consumer.get_watermark_offsets(part, timeout=_ANSWER_SECONDS)[1]
            for table, part in parts.items()
        }

    def unsent(self, ends: dict[str, int]) -> int:
        """Transactions that the connector has not brought to Kafka: each adds a row to the history."""
        return int(self.execute("SELECT last_value FROM pgbench_history_id_seq")) - ends[HISTORY]

    def settle(self) -> None:
        """Return when Kafka has everything that was committed until now."""
        touch = "UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1"
        self.execute(touch)
        position = int(self.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"))
        # What is on record as read lags behind by a transaction.
        self.execute(touch)
        deadline = time.monotonic() + _SECONDS
        while int((self._connect.offset(NAME) or {}).get("lsn") or 0) < position:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the connector is behind: {self._connect.status(NAME)}")
            time.sleep(_POLL_SECONDS)

    def rows(self, table: str) -> list[Row]:
        """As the copies have them: without schemas, times are numbers."""
        columns = [
            "(extract(epoch FROM mtime) * 1000000)::bigint" if name == "mtime" else name
            for name in TABLES[table][0]
        ]
        return asyncio.run(_fetch(self.server.url_of(NAME), f"SELECT {', '.join(columns)} FROM {table}"))

    def _fill(self) -> None:
        command, environment = self.pgbench("-i", "-I", "dtgp", "-q", "-s", str(self.scale))
        made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if made.returncode:
            raise ServiceError(f"pgbench could not fill the database: {made.stderr[-2000:]}")
        first = self.scale * _ACCOUNTS_PER_BRANCH + 1
        self.execute(_SCHEMA.format(first=first, tables=", ".join(TABLES)))

    def _capture(self) -> None:
        password = self.server.create_replication_user(NAME)
        # Nobody asks for whole transactions, which would be one more record for each.
        more = {"provide.transaction.metadata": "false"}
        capture = Capture(NAME, self.server.port, NAME, NAME, self._kafka.bootstrap_servers, more=more)
        self._kafka.create_topic(capture.signals)
        secrets = {"database.password": password}
        self._connect.create_connector(NAME, postgres_connector(capture), secrets=secrets)
        self._connect.wait_running(NAME)
        self._connect.wait_streaming(NAME)

    def _remove(self) -> None:
        self._consumer.close()
        if self._connect.running and NAME in self._connect.connectors():
            self._connect.delete_connector(NAME)
        self.server.drop_database(NAME)
        self.server.execute(f"DROP ROLE IF EXISTS {NAME}")


def topic_of(table: str) -> str:
    return f"{NAME}.public.{table}"


async def _fetch(url: str, query: str) -> list[Row]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()
