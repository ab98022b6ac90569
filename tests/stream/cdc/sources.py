"""Databases of their own on the shared servers, with a connector that carries their changes into Kafka."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta
from datetime import time as time_of_day
from types import TracebackType
from typing import Any, ClassVar, Self

import asyncpg
import pymysql
from confluent_kafka import Consumer, Message, TopicPartition
from pymysql.constants import FIELD_TYPE

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.debezium import Capture, Format, mariadb_connector, postgres_connector
from frazil.devstack.kafka import Kafka
from frazil.devstack.mariadb import MariaDb
from frazil.devstack.postgres import Postgres

Row = dict[str, Any]
_SECONDS = 300.0
#: A table beside the test's own, by whose rows the source knows how far its connector is.
MARKS = "frazil_marks"
_numbers = itertools.count(1)


class Tail:
    """The records of a topic with one partition, from its start on; the topic need not be there yet."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self._consumer = Consumer(
            {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "tail", "log_level": 0}
        )
        deadline = time.monotonic() + _SECONDS
        while topic not in kafka.admin.list_topics(timeout=_SECONDS).topics:
            assert time.monotonic() < deadline, f"no topic {topic} after {_SECONDS:g} s"
            time.sleep(0.1)
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def end(self) -> int:
        """How many records there are now."""
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=_SECONDS)
        return int(end)

    def skip(self) -> None:
        """To the end as it is now."""
        self._consumer.assign([TopicPartition(self._topic, 0, self.end())])

    def raw(self, count: int) -> list[Message]:
        found: list[Message] = []
        deadline = time.monotonic() + _SECONDS
        while len(found) < count:
            assert time.monotonic() < deadline, f"only {len(found)} of {count} records in {self._topic}"
            found += self._consumer.consume(count - len(found), timeout=0.5)
        assert all(message.error() is None for message in found)
        return found

    def take(self, count: int) -> list[Row]:
        """The next change events, decoded; tombstones are passed over."""
        found: list[Row] = []
        while len(found) < count:
            if (value := self.raw(1)[0].value()) is not None:
                found.append(json.loads(value))
        return found

    def until(self, wanted: Callable[[Row], bool]) -> Row:
        """The first change event that is `wanted`."""
        while True:
            (found,) = self.take(1)
            if wanted(found):
                return found


class Database(ABC):
    """A fresh database on a shared server.

    For tests that are no coroutines: the driver of PostgreSQL has an event loop of its own.
    """

    dialect: ClassVar[str]
    #: What comes before a table's name in Debezium's names for it.
    namespace: str

    def __init__(self) -> None:
        self.name = f"{self.dialect}_{os.getpid()}_{next(_numbers)}"

    def publishing(self, table: str) -> Sequence[str]:
        """The statements after which the changes of `table` are captured."""
        return []

    @abstractmethod
    def run(self, *statements: str, rollback: bool = False) -> None:
        """All in one transaction."""

    @abstractmethod
    def rows(self, table: str) -> list[Row]:
        """All rows, with values as Iceberg's types have them in Python."""

    @abstractmethod
    def key(self, table: str) -> tuple[str, ...]:
        """The columns of its primary key."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close the connection; the next call opens another."""


class Source(Database):
    """A database, and the connector that captures it once it is started."""

    server: Postgres | MariaDb

    def __init__(
        self,
        kafka: Kafka,
        connect: KafkaConnect,
        *,
        format: Format = "json",  # noqa: A002 - as Debezium's own settings say it
        registry: str | None = None,
        more: Mapping[str, str] | None = None,
        **database: Any,
    ) -> None:
        super().__init__(**database)
        self.kafka = kafka
        self.connect = connect
        self._marks = 0
        self._crashed = False
        password, port = self._create()
        self._secrets = {"database.password": password}
        self.capture = Capture(
            self.name, port, self.name, self.name, kafka.bootstrap_servers, format, registry, dict(more or {})
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.connect.running and self.name in self.connect.connectors():
            self.connect.delete_connector(self.name)
        self.disconnect()
        self._drop()

    def start(self) -> None:
        """Create the connector, and return when its first snapshot is done.

        It fails for good where a table is altered meanwhile, and workloads do alter tables.
        """
        self.run(f"CREATE TABLE {MARKS} (id INT PRIMARY KEY)", *self.publishing(MARKS))
        self._mark()
        self.kafka.create_topic(self.capture.signals)
        self.connect.create_connector(self.name, self._config(), secrets=self._secrets)
        self.connect.wait_streaming(self.name)

    def crash(self) -> None:
        """The server crashes and starts again.

        A connector that was just starting gives up for good; `settle` restarts it.
        """
        self.server.kill()
        self.server.start()
        self.disconnect()
        self._crashed = True

    def settle(self) -> None:
        """Return when Kafka has everything that was committed until now."""
        self._mark()
        position = self._position()
        # What is on record as read lags behind by a transaction.
        self._mark()
        deadline = time.monotonic() + _SECONDS
        while not self._reached(self.connect.offset(self.name) or {}, position):
            state = self.connect.status(self.name)
            assert time.monotonic() < deadline, f"{self.name} is behind: {state}"
            if self._crashed and any(task["state"] == "FAILED" for task in state["tasks"]):
                self.connect.restart_connector(self.name)
                self._crashed = False
            time.sleep(0.1)

    def _mark(self) -> None:
        self._marks += 1
        self.run(f"INSERT INTO {MARKS} VALUES ({self._marks})")

    def topic(self, table: str) -> str:
        return f"{self.name}.{self.namespace}.{table}"

    def tail(self, table: str) -> Tail:
        return Tail(self.kafka, self.topic(table))

    def snapshot(self, *tables: str) -> None:
        """Ask for an incremental snapshot of these tables."""
        named = [f"{self.namespace}.{table}" for table in tables]
        self.connect.snapshot_tables(self.capture.signals, self.name, named)

    def publish(self, table: str) -> None:
        self.run(*self.publishing(table))

    @abstractmethod
    def _position(self) -> int:
        """How far the server's log is."""

    @abstractmethod
    def _reached(self, offset: Mapping[str, Any], position: int) -> bool:
        """Whether a connector with that offset on record has put all before `position` into Kafka."""

    @abstractmethod
    def _create(self) -> tuple[str, int]:
        """Make database and user; the user's password, and the server's port."""

    @abstractmethod
    def _drop(self) -> None: ...

    @abstractmethod
    def _config(self) -> dict[str, str]: ...


class PostgresDatabase(Database):
    """As a block of its own: one that no connector captures."""

    dialect: ClassVar[str] = "postgres"
    namespace = "public"
    server: Postgres

    def __init__(self, server: Postgres) -> None:
        super().__init__()
        self.server = server
        self._runner = asyncio.Runner()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None

    def __enter__(self) -> Self:
        self.server.create_database(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()
        self._runner.close()
        self.server.drop_database(self.name)

    def run(self, *statements: str, rollback: bool = False) -> None:
        text = ";\n".join(["BEGIN", *statements, "ROLLBACK" if rollback else "COMMIT"])
        connection = self._connected()
        try:
            self._runner.run(connection.execute(text))
        except asyncpg.PostgresError:
            self.disconnect()
            raise

    def rows(self, table: str) -> list[Row]:
        found = self._runner.run(self._connected().fetch(f'SELECT * FROM "{table}"'))
        return [dict(row) for row in found]

    def key(self, table: str) -> tuple[str, ...]:
        sql = """SELECT attname FROM pg_index, unnest(indkey) WITH ORDINALITY AS part(number, place)
            JOIN pg_attribute ON attnum = number
            WHERE indrelid = $1::text::regclass AND attrelid = indrelid AND indisprimary ORDER BY place"""
        found = self._runner.run(self._connected().fetch(sql, f'"{table}"'))
        return tuple(row["attname"] for row in found)

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._runner.run(_close(connection))

    def _connected(self) -> asyncpg.Connection[asyncpg.Record]:
        if self._connection is None or self._connection.is_closed():
            self._connection = self._runner.run(_open(self.server.url_of(self.name)))
        return self._connection


class PostgresSource(Source, PostgresDatabase):
    server: Postgres

    def __init__(self, server: Postgres, kafka: Kafka, connect: KafkaConnect, **settings: Any) -> None:
        super().__init__(kafka, connect, server=server, **settings)

    def publishing(self, table: str) -> Sequence[str]:
        return [f'ALTER PUBLICATION "{self.capture.slot}" ADD TABLE "{table}"']

    def _position(self) -> int:
        sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
        return int(self._runner.run(self._connected().fetchval(sql)))

    def _reached(self, offset: Mapping[str, Any], position: int) -> bool:
        return int(offset.get("lsn") or 0) >= position

    def _create(self) -> tuple[str, int]:
        self.server.create_database(self.name)
        self.server.execute(f'CREATE PUBLICATION "{self.name}"', self.name)
        return self.server.create_replication_user(self.name), self.server.port

    def _drop(self) -> None:
        self._runner.close()
        self.server.drop_database(self.name)
        self.server.execute(f'DROP ROLE "{self.name}"')

    def _config(self) -> dict[str, str]:
        return postgres_connector(self.capture)


class MariaDbSource(Source):
    dialect: ClassVar[str] = "mariadb"
    server: MariaDb

    def __init__(self, server: MariaDb, kafka: Kafka, connect: KafkaConnect, **settings: Any) -> None:
        self.server = server
        self._connection: pymysql.Connection[pymysql.cursors.Cursor] | None = None
        super().__init__(kafka, connect, **settings)
        self.namespace = self.name

    def run(self, *statements: str, rollback: bool = False) -> None:
        with self._connected().cursor() as cursor:
            for statement in ["START TRANSACTION", *statements, "ROLLBACK" if rollback else "COMMIT"]:
                cursor.execute(statement)

    def rows(self, table: str) -> list[Row]:
        with self._connected().cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{table}`")
            columns = [(each[0], int(each[1])) for each in cursor.description or ()]
            found = cursor.fetchall()
        return [
            {name: _typed(value, kind) for (name, kind), value in zip(columns, row, strict=True)}
            for row in found
        ]

    def key(self, table: str) -> tuple[str, ...]:
        with self._connected().cursor() as cursor:
            cursor.execute(f"SHOW KEYS FROM `{table}` WHERE Key_name = 'PRIMARY'")
            return tuple(row[4] for row in cursor.fetchall())

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _position(self) -> int:
        with self._connected().cursor() as cursor:
            cursor.execute("SELECT @@gtid_binlog_pos")
            return _sequence((cursor.fetchone() or ("",))[0])

    def _reached(self, offset: Mapping[str, Any], position: int) -> bool:
        return _sequence(offset.get("gtids") or "") >= position

    def _connected(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        if self._connection is None or not self._connection.open:
            self._connection = pymysql.connect(
                host="127.0.0.1",
                port=self.server.port,
                user=self.server.user,
                password=self.server.password,
                database=self.name,
                autocommit=True,
            )
        return self._connection

    def _create(self) -> tuple[str, int]:
        self.server.create_database(self.name)
        return self.server.create_replication_user(self.name), self.server.port

    def _drop(self) -> None:
        self.server.drop_database(self.name)
        self.server.execute(f"DROP USER '{self.name}'@'127.0.0.1'")

    def _config(self) -> dict[str, str]:
        # Readers of the binlog must not share a number.
        return mariadb_connector(self.capture, server_id=5400 + next(_numbers))


def _sequence(gtid: str) -> int:
    """The last number of a GTID: `domain-server-sequence`. There is one domain."""
    return int(gtid.rpartition("-")[2] or 0)


def _typed(value: Any, kind: int) -> Any:
    """What the driver makes of it, told apart further: it has one type for some of MariaDB's."""
    if value is None:
        return None
    if kind == FIELD_TYPE.TIMESTAMP:
        return value.replace(tzinfo=UTC)
    if kind == FIELD_TYPE.TIME:
        assert timedelta(0) <= value < timedelta(days=1), "no time of day"
        microseconds = value // timedelta(microseconds=1)
        seconds, fraction = divmod(microseconds, 1_000_000)
        return time_of_day(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)
    if kind == FIELD_TYPE.BIT:
        return bool(int.from_bytes(value))
    return value


async def _open(url: str) -> asyncpg.Connection[asyncpg.Record]:
    # Plans that are kept break when a table is altered.
    connection: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(url, statement_cache_size=0)
    return connection


async def _close(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    # A server that crashed does not answer a farewell.
    connection.terminate()
