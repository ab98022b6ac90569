"""The Debezium engine: one run of it, in threads of Java's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from frazil.stream.postgres.java import java_class, jpype
from frazil.stream.postgres.records import NOTICES, Batch, Extractor
from frazil.stream.postgres.requests import REQUEST_PREFIX
from frazil.stream.postgres.source import PostgresSource, include_list

_NAME = "frazil"
_HEARTBEAT_MS = "1000"


class Engine:
    """Hands batches to `take`, which may block; what it raises ends the run.

    Nothing is acknowledged until `confirm` says so. Where to begin is given (`start`): Debezium's own file of
    offsets is only how it is told, and is gone with the run.
    """

    def __init__(
        self,
        source: PostgresSource,
        properties: Mapping[str, str],
        take: Callable[[Batch], None],
        start: int | None,
    ) -> None:
        self._source = source
        self._take = take
        self._offsets = TemporaryDirectory(prefix="frazil-postgres-")
        self._extractor = Extractor(source.name)
        self._lock = threading.Lock()
        #: A record and the committer that came with it: what positions are acknowledged through.
        self._through: tuple[Any, Any] | None = None
        self._ended = threading.Event()
        self.failure: BaseException | None = None
        store = Path(self._offsets.name, "offsets")
        if start is not None:
            _write_offset(store, source.name, start)
        settings = dict(properties) | {"offset.storage.file.filename": str(store)}
        self._engine = self._build(settings)
        self._thread = threading.Thread(target=self._run, name=f"debezium-{source.slot}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def confirm(self, lsn: int) -> None:
        """Everything up to here has landed: the slot may move."""
        with self._lock:
            if self._through is None or self.ended:
                return
            record, committer = self._through
            long = java_class("java.lang.Long")
            offsets = committer.buildOffsets()
            for key in ("lsn", "lsn_proc", "lsn_commit"):
                offsets.set(key, long.valueOf(lsn))
            committer.markProcessed(record, offsets)
            committer.markBatchFinished()

    def close(self) -> None:
        """Ends the run; nothing is acknowledged by that. `take` must not block any more."""
        with self._lock:
            self._through = None
        while self._thread.is_alive():
            # One that is just starting cannot be closed yet, and one that ended by itself not any more.
            _quietly(self._engine.close)
            self._thread.join(0.2)
        self._offsets.cleanup()

    def _run(self) -> None:
        try:
            self._engine.run()
        finally:
            self._ended.set()

    def _handle(self, records: Any, committer: Any) -> None:
        try:
            batch = self._extractor.batch(records)
            with self._lock:
                self._through = records.get(records.size() - 1), committer
            self._take(batch)
        except BaseException as error:
            self.failure = self.failure or error
            raise

    def _complete(self, success: bool, message: Any, error: Any) -> None:
        if not success and self.failure is None:
            self.failure = error if error is not None else RuntimeError(str(message))

    def _build(self, settings: Mapping[str, str]) -> Any:
        bridge = jpype()
        properties = java_class("java.util.Properties")()
        for key, value in settings.items():
            properties.setProperty(key, value)
        consumer = bridge.JProxy(
            "io.debezium.engine.DebeziumEngine$ChangeConsumer",
            dict={"handleBatch": self._handle, "supportsTombstoneEvents": lambda: True},
        )
        callback = bridge.JProxy(
            "io.debezium.engine.DebeziumEngine$CompletionCallback", dict={"handle": self._complete}
        )
        builder = java_class("io.debezium.engine.DebeziumEngine").create(
            java_class("io.debezium.engine.format.Json")
        )
        return builder.using(properties).notifying(consumer).using(callback).build()


def stream_properties(source: PostgresSource) -> dict[str, str]:
    """Of an engine that follows the slot."""
    return _properties(source) | {
        "table.include.list": include_list(source),
        "snapshot.mode": "no_data",
        "heartbeat.interval.ms": _HEARTBEAT_MS,
        "message.prefix.include.list": ",".join(map(_literal, (MESSAGE_PREFIX, REQUEST_PREFIX))),
    }


def snapshot_properties(
    source: PostgresSource, tables: tuple[tuple[str, str], ...], *, makes_slot: bool
) -> dict[str, str]:
    """Of an engine that reads the rows of the tables, as they were where the slot begins if it makes that."""
    names = (f"{schema}.{table}" for schema, table in tables)
    return _properties(source) | {
        "table.include.list": ",".join(map(_literal, names)),
        "snapshot.mode": "initial" if makes_slot else "initial_only",
        "notification.enabled.channels": "sink",
        "notification.sink.topic.name": NOTICES,
        # Both engines may be there at once, and Java's metrics have one name each.
        "custom.metric.tags": "run=snapshot",
    }


#: Of messages in the database's log that have nothing to say: the slot has something to send.
MESSAGE_PREFIX = "frazil"


def _properties(source: PostgresSource) -> dict[str, str]:
    # What frazil keeps hold of comes last.
    return (
        {"decimal.handling.mode": "precise", "max.batch.size": "8192", "max.queue.size": "16384"}
        | dict(source.properties)
        | {
            "name": _NAME,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "topic.prefix": source.name,
            "database.hostname": source.host,
            "database.port": str(source.port),
            "database.dbname": source.database,
            "database.user": source.user,
            "database.password": source.password,
            "database.sslmode": source.sslmode,
            **({"database.sslrootcert": source.sslrootcert} if source.sslrootcert else {}),
            "slot.name": source.slot,
            "publication.name": source.publication,
            "publication.autocreate.mode": "disabled",
            "skipped.operations": "none",
            "tombstones.on.delete": "false",
            "max.queue.size.in.bytes": str(32 << 20),
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.flush.interval.ms": "0",
            # Not the driver as well: it moves the slot past what was received.
            "lsn.flush.mode": "connector",
            # A run that failed is begun anew by us, after a look at the slot: Debezium would make a new one.
            "errors.max.retries": "0",
            "slot.max.retries": "0",
            "record.processing.threads": "1",
        }
    )


def _literal(name: str) -> str:
    return "".join(char if char.isalnum() or char == "_" else f"\\{char}" for char in name)


def _write_offset(path: Path, prefix: str, lsn: int) -> None:
    """As Debezium stores one. Without `lsn_proc` it does not look for a place to go on: it takes all there is
    behind the position, and counts commits from it."""
    bridge = jpype()
    octets = bridge.JArray(bridge.JByte)
    key, value = f'["{_NAME}",{{"server":"{prefix}"}}]', f'{{"lsn":{lsn},"lsn_commit":{lsn}}}'
    offsets = java_class("java.util.HashMap")()
    offsets.put(octets(key.encode()), octets(value.encode()))
    stream = java_class("java.io.ObjectOutputStream")(java_class("java.io.FileOutputStream")(str(path)))
    stream.writeObject(offsets)
    stream.close()


def _quietly(action: Callable[[], object]) -> None:
    with suppress(jpype().JException):
        action()
