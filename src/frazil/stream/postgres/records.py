"""Records as they leave the engine, a batch at a time.

A call from Python into Java costs more than a record does, so Java itself lines up what is wanted of a batch.
Values come without their schemas, which would be five times the rest; a schema is asked for when it changes.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from frazil.stream.postgres.java import java_class
from frazil.stream.postgres.log import Records, Schemas, place

_HEARTBEAT = b"__debezium-heartbeat."
_NEW_KEY = "__debezium.newkey"
#: Where Debezium says how far a snapshot is.
NOTICES = "frazil-notices"
#: The notice that all rows were read.
COMPLETED = "COMPLETED"


class _Notice(msgspec.Struct):
    type: str


@dataclass(frozen=True)
class Batch:
    """What one batch of the engine holds."""

    #: In order; a topic whose schema changed is there more than once.
    topics: tuple[tuple[str, Records], ...]
    #: Where the last transaction was committed that is known to be over; 0: the batch does not say.
    boundary: int
    #: What Debezium says of a snapshot.
    notices: tuple[str, ...]
    #: From the database's log.
    messages: tuple[bytes, ...] = ()


class Extractor:
    """For one engine and its thread."""

    def __init__(self, prefix: str) -> None:
        self._data = f"{prefix}.".encode()
        self._messages = f"{prefix}.message".encode()
        self._transactions = f"{prefix}.transaction".encode()
        self._columns = _Columns()
        self._converter = java_class("org.apache.kafka.connect.json.JsonConverter")()
        self._converter.configure(java_class("java.util.HashMap")(), False)
        #: By topic: Java's schemas of key and value, and the same as text.
        self._known: dict[str, tuple[Any, Any, Schemas]] = {}

    def batch(self, records: Any) -> Batch:
        """`records` is Java's list."""
        columns = self._columns
        topics, keys, values = columns.topics(records), columns.keys(records), columns.values(records)
        rows: dict[bytes, list[int]] = {}
        for row, topic in enumerate(topics):
            rows.setdefault(topic, []).append(row)
        boundary = 0
        for topic in [name for name in rows if name.startswith(_HEARTBEAT)]:
            boundary = _commit(records.get(rows.pop(topic)[-1]))
        notices = {
            row: msgspec.json.decode(values[row], type=_Notice).type for row in rows.pop(NOTICES.encode(), ())
        }
        # An engine that made the slot goes on to the stream, which is for another one to read.
        end = next((row for row, what in notices.items() if what == COMPLETED), len(topics))
        messages = tuple(values[row] for row in rows.pop(self._messages, ()))
        mixed = self._mixed(records)
        half = len(topics) - 1 if self._half(records) else -1
        now = time.time_ns() // 1_000_000
        found = []
        for topic, mine in rows.items():
            if not topic.startswith(self._data) or topic == self._transactions:
                continue
            name = topic.decode()
            mine = mine[: bisect_left(mine, end)]
            for run, schemas in self._runs(name, records, mine, name in mixed) if mine else ():
                part = _records(run, keys, values, schemas, now, run[-1] == half)
                boundary = max(boundary, part.commits[-1])
                found.append((name, part))
        return Batch(tuple(found), boundary, tuple(notices.values()), messages)

    def _half(self, records: Any) -> bool:
        """Whether the batch ends between a delete and the row that takes its place with another key."""
        headers = records.get(records.size() - 1).sourceRecord().headers()
        return headers.lastWithName(_NEW_KEY) is not None

    def _mixed(self, records: Any) -> set[str]:
        """Topics that have more than one schema in this batch."""
        seen: set[str] = set()
        twice: set[str] = set()
        for schema in (*self._columns.value_schemas(records), *self._columns.key_schemas(records)):
            name = "" if schema is None else str(schema.name())
            (twice if name in seen else seen).add(name)
        return {name.rpartition(".")[0] for name in twice}

    def _runs(
        self, topic: str, records: Any, rows: list[int], mixed: bool
    ) -> Iterator[tuple[list[int], Schemas]]:
        if not mixed:
            yield rows, self._schemas(topic, records.get(rows[0]))
            return
        run: list[int] = []
        last: Schemas | None = None
        for row in rows:
            schemas = self._schemas(topic, records.get(row))
            if last is not None and schemas is not last:
                yield run, last
                run = []
            run.append(row)
            last = schemas
        if last is not None:
            yield run, last

    def _schemas(self, topic: str, record: Any) -> Schemas:
        source = record.sourceRecord()
        key, value = source.keySchema(), source.valueSchema()
        known = self._known.get(topic)
        # A truncate has no key, whatever the table has.
        if known is not None and known[1] == value and (key is None or known[0] == key):
            return known[2]
        text = Schemas(self._text(value), b"" if key is None else self._text(key))
        self._known[topic] = key, value, text
        return text

    def _text(self, schema: Any) -> bytes:
        return str(self._converter.asJsonSchema(schema).toString()).encode()


class _Columns:
    """Java's functions that take one thing out of each record, made without Java code of our own."""

    def __init__(self) -> None:
        handles = java_class("java.lang.invoke.MethodHandles")
        self._lookup = handles.publicLookup()
        self._kind = java_class("java.lang.invoke.MethodType")
        self._proxies = java_class("java.lang.invoke.MethodHandleProxies")
        self._function = java_class("java.util.function.Function").class_
        self._joining = java_class("java.util.stream.Collectors").joining
        self._utf8 = java_class("java.nio.charset.StandardCharsets").UTF_8
        any_, text = java_class("java.lang.Object"), java_class("java.lang.String")
        event, source = (
            java_class("io.debezium.embedded.EmbeddedEngineChangeEvent"),
            java_class("org.apache.kafka.connect.source.SourceRecord"),
        )
        schema = java_class("org.apache.kafka.connect.data.Schema")
        self._topic = self._getter(event, "destination", text)
        self._key = self._getter(event, "key", any_)
        self._value = self._getter(event, "value", any_)
        self._source = self._getter(event, "sourceRecord", source)
        self._key_schema = self._getter(source, "keySchema", schema)
        self._value_schema = self._getter(source, "valueSchema", schema)
        string = self._lookup.findStatic(
            text.class_, "valueOf", self._kind.methodType(text.class_, any_.class_)
        )
        self._string = self._proxies.asInterfaceInstance(self._function, string)

    def topics(self, records: Any) -> list[bytes]:
        return self._texts(records, self._topic)

    def keys(self, records: Any) -> list[bytes]:
        """`null` where there is none."""
        return self._texts(records, self._key)

    def values(self, records: Any) -> list[bytes]:
        return self._texts(records, self._value)

    def value_schemas(self, records: Any) -> list[Any]:
        return list(records.stream().map(self._source).map(self._value_schema).distinct().toList())

    def key_schemas(self, records: Any) -> list[Any]:
        return list(records.stream().map(self._source).map(self._key_schema).distinct().toList())

    def _texts(self, records: Any, getter: Any) -> list[bytes]:
        # Compact JSON has no line ends of its own.
        joined = records.stream().map(getter).map(self._string).collect(self._joining("\n"))
        return bytes(joined.getBytes(self._utf8)).split(b"\n")

    def _getter(self, owner: Any, name: str, result: Any) -> Any:
        handle = self._lookup.findVirtual(owner.class_, name, self._kind.methodType(result.class_))
        return self._proxies.asInterfaceInstance(self._function, handle)


def _records(
    rows: list[int], keys: list[bytes], values: list[bytes], schemas: Schemas, now: int, half: bool
) -> Records:
    places = [place(values[row]) for row in rows]
    return Records(
        [None if keys[row] == b"null" else keys[row] for row in rows],
        [values[row] for row in rows],
        schemas,
        now,
        [commit for commit, _ in places],
        [lsn for _, lsn in places],
        half,
    )


def _commit(record: Any) -> int:
    found = record.sourceRecord().sourceOffset().get("lsn_commit")
    return 0 if found is None else int(found)
