"""Questions to the database, and the slot and the publication that frazil keeps there.

The user needs `LOGIN REPLICATION`, `SELECT` on the tables and `USAGE` on their schemas; and to let frazil
make and extend the publication, `CREATE` on the database and ownership of the tables. Without that last right
somebody else makes the publication, and frazil only uses it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from frazil.core.errors import FrazilError, InvalidConfig, NotAllowed, SourceChanged, Unavailable
from frazil.stream.postgres.java import java_class
from frazil.stream.postgres.source import PostgresSource

_OLDEST = 140_000
_TIMEOUT_SECONDS = "15"

_TABLES = """
SELECT n.nspname, c.relname, c.oid::text,
       c.relreplident = 'f' OR EXISTS (
           SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid
           AND (c.relreplident = 'i' AND i.indisreplident OR c.relreplident = 'd' AND i.indisprimary)),
       has_table_privilege(c.oid, 'SELECT') AND has_schema_privilege(n.oid, 'USAGE'),
       EXISTS (SELECT 1 FROM pg_publication_tables t
               WHERE t.pubname = ? AND t.schemaname = n.nspname AND t.tablename = c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
      AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
"""


@dataclass(frozen=True)
class SourceTable:
    """A table of the database."""

    schema: str
    name: str
    oid: str
    #: Updates and deletes say which row they are of.
    identified: bool
    readable: bool
    published: bool

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"


@dataclass(frozen=True)
class Slot:
    """A replication slot as it is now."""

    plugin: str
    database: str
    active: bool
    #: What it still needs is gone from the database's log.
    lost: bool
    confirmed: int


class Database:
    """One connection, opened when it is needed; for one thread."""

    def __init__(self, source: PostgresSource) -> None:
        self._source = source
        self._connection: Any = None

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def check(self) -> None:
        """What must be so before a slot can be used."""
        version, wal_level, may = self.rows(
            "SELECT current_setting('server_version_num'), current_setting('wal_level'), "
            "(SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)::text"
        )[0]
        where = self._source.where
        if int(version or 0) < _OLDEST:
            raise InvalidConfig(
                f"{where} is PostgreSQL {int(version or 0) // 10_000}; 14 is the oldest to follow"
            )
        if wal_level != "logical":
            raise InvalidConfig(
                f"{where} has wal_level = {wal_level}, and changes can be followed only with logical: "
                "ALTER SYSTEM SET wal_level = 'logical', then restart the server"
            )
        if may != "true":
            user = quote(self._source.user)
            raise NotAllowed(
                f"the user {self._source.user} of {where} may not follow changes. As an administrator: "
                f"ALTER ROLE {user} REPLICATION (RDS: GRANT rds_replication TO {user})"
            )

    def identity(self) -> str:
        """Of the server's data and of the line of its history: a restore or failover begins another."""
        system, line = self.rows(
            "SELECT (SELECT system_identifier FROM pg_control_system())::text, "
            "(SELECT timeline_id FROM pg_control_checkpoint())::text"
        )[0]
        return f"postgresql:{system}/{line}/{self._source.database}"

    def log_end(self) -> int:
        return int(self.rows("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint::text")[0][0] or 0)

    def settled(self, seconds: float) -> int | None:
        """A place in the log such that all that stands before it is seen by whoever looks from now on; None:
        a transaction from before goes on for longer than this."""
        at = int(
            self.rows("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint::text")[0][0] or 0
        )
        # In this order: who wrote before the place has a number before this one.
        ((bound,),) = self.rows("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        deadline = time.monotonic() + seconds
        over = "SELECT (pg_snapshot_xmin(pg_current_snapshot()) >= ?::xid8)::text"
        while self.rows(over, str(bound)) != [("true",)]:
            if time.monotonic() > deadline:
                return None
            time.sleep(0.05)
        return at

    def emit(self, prefix: str, content: str = "") -> None:
        """A message in the database's log, in a transaction of its own: the slot gets to send something. It
        takes no right but that to connect."""
        self.rows("SELECT pg_logical_emit_message(true, ?, ?)::text", prefix, content)

    def tables(self) -> list[SourceTable]:
        """Those that are wanted."""
        found = (
            SourceTable(str(schema), str(name), str(oid), *(flag == "t" for flag in flags))
            for schema, name, oid, *flags in self.rows(_TABLES, self._source.publication)
        )
        return [table for table in found if self._source.wants(table.schema, table.name)]

    def slot(self) -> Slot | None:
        rows = self.rows(
            "SELECT plugin, database, active::text, (coalesce(wal_status, '') = 'lost')::text, "
            "coalesce(pg_wal_lsn_diff(confirmed_flush_lsn, '0/0'), 0)::bigint::text "
            "FROM pg_replication_slots WHERE slot_name = ?",
            self._source.slot,
        )
        if not rows:
            return None
        plugin, database, active, lost, confirmed = rows[0]
        return Slot(plugin or "", database or "", active == "true", lost == "true", int(confirmed or 0))

    def create_slot(self) -> None:
        self.rows(
            "SELECT lsn::text FROM pg_create_logical_replication_slot(?, 'pgoutput')", self._source.slot
        )

    def drop_slot(self) -> None:
        """Nothing is done if there is none."""
        slot = self._source.slot
        self.rows(
            "SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE slot_name = ?",
            slot,
        )

    def publish(self, tables: list[SourceTable]) -> None:
        """Make the publication, or add the tables to the one that is there."""
        name = quote(self._source.publication)
        exists = self.rows("SELECT 1::text FROM pg_publication WHERE pubname = ?", self._source.publication)
        what = ", ".join(table.quoted for table in tables)
        if exists and not tables:
            return
        statement = f"ALTER PUBLICATION {name} ADD TABLE {what}"
        if not exists:
            of = f" FOR TABLE {what}" if tables else ""
            statement = f"CREATE PUBLICATION {name}{of} WITH (publish_via_partition_root = true)"
        try:
            self.run(statement)
        except NotAllowed as error:
            raise NotAllowed(
                f"{error.message}. Either make the user {self._source.user} owner of the tables and grant "
                f"it CREATE on the database, or let the tables' owner run: {statement}"
            ) from None

    def run(self, statement: str) -> None:
        with self._asking() as connection:
            command = connection.createStatement()
            try:
                command.execute(statement)
            finally:
                command.close()

    def rows(self, query: str, *values: str) -> list[tuple[str | None, ...]]:
        """Every value as text."""
        with self._asking() as connection:
            command = connection.prepareStatement(query)
            try:
                for number, value in enumerate(values, 1):
                    command.setString(number, value)
                return _rows(command.executeQuery())
            finally:
                command.close()

    def _asking(self) -> _Asking:
        return _Asking(self)

    def connection(self) -> Any:
        if self._connection is None:
            source = self._source
            properties = java_class("java.util.Properties")()
            settings = {
                "user": source.user,
                "password": source.password,
                "sslmode": source.sslmode,
                "connectTimeout": _TIMEOUT_SECONDS,
                "loginTimeout": _TIMEOUT_SECONDS,
                "tcpKeepAlive": "true",
                "ApplicationName": "frazil",
            }
            if source.sslrootcert:
                settings["sslrootcert"] = source.sslrootcert
            for key, value in settings.items():
                properties.setProperty(key, value)
            address = f"jdbc:postgresql://{source.host}:{source.port}/{source.database}"
            self._connection = java_class("org.postgresql.Driver")().connect(address, properties)
        return self._connection

    def failed(self, error: Any) -> FrazilError:
        """What a Java exception says, as one of ours; the connection is given up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort(java_class("java.util.concurrent.ForkJoinPool").commonPool())
        return explain(self._source, error)


class _Asking:
    """A connection, with Java's exceptions as ours."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Any:
        try:
            return self._database.connection()
        except java_class("java.sql.SQLException") as error:
            raise self._database.failed(error) from None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, java_class("java.sql.SQLException")):
            raise self._database.failed(error) from None


def explain(source: PostgresSource, error: Any) -> FrazilError:
    """By the code of the first database error among the causes; its text comes from the server or driver."""
    state, text = _code(error)
    where = f"{source.where}, user {source.user}"
    if state in ("28P01", "28000"):
        return NotAllowed(f"{where}: PostgreSQL refused the password or the way of access ({text})")
    if state == "3D000":
        return InvalidConfig(f"{where}: {text}")
    if state == "42501":
        return NotAllowed(f"{where}: {text}")
    if state == "55006":
        return Unavailable(
            f"{where}: another process is reading the slot {source.slot} ({text}). If it is the same "
            "pipeline on another machine, one of the two must end; one that was killed lets go of it soon"
        )
    if state == "53400":
        return InvalidConfig(f"{where}: {text}; raise max_replication_slots, or drop slots that nobody reads")
    return Unavailable(f"{where}: {text}")


def slot_gone(source: PostgresSource, pipeline: str, found: str) -> SourceChanged:
    return SourceChanged(
        f"pipeline {pipeline}: {found}: changes of {source.where} may be lost. Nothing was written. To copy "
        f"the tables anew, {anew(pipeline)}; or, if you know that nothing changed meanwhile, give the "
        "pipeline the slot that goes on where it left off"
    )


def anew(pipeline: str) -> str:
    """What to do when changes are lost."""
    return (
        "drop the tables of the copy, and the next run reads all rows; or let it read them into the tables "
        f"that are there (`frazil reset FILE {pipeline} --to-offsets earliest`), where rows stay whose "
        "deletes were lost"
    )


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _code(error: Any) -> tuple[str, str]:
    sql = java_class("java.sql.SQLException")
    text = " ".join(str(error).split())
    while error is not None:
        if isinstance(error, sql) and error.getSQLState() is not None:
            return str(error.getSQLState()), " ".join(str(error.getMessage()).split())
        error = error.getCause() if isinstance(error, java_class("java.lang.Throwable")) else None
    return "", text


def _rows(result: Any) -> list[tuple[str | None, ...]]:
    width = result.getMetaData().getColumnCount()
    found = []
    while result.next():
        row = (result.getString(column) for column in range(1, width + 1))
        found.append(tuple(None if value is None else str(value) for value in row))
    return found
