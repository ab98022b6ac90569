"""What a reader needs of librdkafka, and the way to it through Kafka's Python client."""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin._metadata import TopicMetadata

from frazil.core.errors import InvalidConfig, Unsupported
from frazil.stream.source import RawBatch, Slice

#: A slice that was read to its end: the topic and the partition.
Ended = tuple[str, int]
#: Of one record: names and values.
Headers = list[tuple[str, bytes | None]]

#: As a column of the table would be (`MetadataColumns.headers`).
HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

_log = logging.getLogger(__name__)
_MESSAGES = 10_000
#: The client forgets to fail at a name that is no UTF-8, and the list it then gives must not be looked at.
#: Python notices that in a call like this; in `message.headers()`, once the loop is hot, it does not.
_read_headers = operator.methodcaller("headers")
#: What a header takes besides its bytes.
_HEADER_BYTES = 8
_SECONDS = 0.2
_METADATA_SECONDS = 5.0

#: Good defaults, which a user may change.
_DEFAULTS = {
    "client.id": "frazil",
    # What is read ahead; the limits are those of one reader, however many partitions it reads.
    "queued.min.messages": "30000",
    "queued.max.messages.kbytes": "32768",
    "fetch.message.max.bytes": "2097152",
    # The log already holds what a slice asks for: an answer that waits for more only costs freshness.
    "fetch.wait.max.ms": "20",
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "100",
    "reconnect.backoff.ms": "50",
    "reconnect.backoff.max.ms": "2000",
    # A round is planned on topics that were just seen.
    "topic.metadata.propagation.max.ms": "5000",
    "socket.keepalive.enable": "true",
    # Errors come as events; its log would complain about every restart of a broker on stderr.
    "log_level": "0",
}
#: What the promise rests on: not for the user to change.
_OURS = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}
#: Only for the Python client, which insists on one. It is never joined, and nothing is committed to it.
_GROUP = {"group.id": "frazil-unused"}


def consumer_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The user's settings, with our defaults and what a reader insists on."""
    merged = {**_DEFAULTS, **settings, **_OURS}
    merged.pop("group.id", None)
    return merged


class Code(IntEnum):
    """The error codes of librdkafka (below zero) and of Kafka that mean something here."""

    FATAL = -150
    AUTHENTICATION = -169
    ALL_BROKERS_DOWN = -187
    UNKNOWN_TOPIC = -188
    PARTITION_EOF = -191
    UNKNOWN_PARTITION = -190
    BAD_COMPRESSION = -198
    BAD_MESSAGE = -199
    AUTO_OFFSET_RESET = -140
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    SASL_AUTHENTICATION_FAILED = 58


@dataclass(frozen=True)
class Extras:
    """What is wanted of a record besides its value."""

    keys: bool = False
    headers: bool = False


@dataclass(frozen=True)
class Fault:
    """An error as librdkafka reports it; `topic` is None when it is not about a partition."""

    code: int
    text: str
    topic: str | None = None
    partition: int = -1


Event = RawBatch | Fault | Ended


class Fetcher(Protocol):
    """Reads one slice of each of several partitions at once."""

    def assign(self, slices: Sequence[Slice]) -> None:
        """Start reading; at most one slice of a partition."""

    def poll(self, seconds: float) -> Sequence[Event]:
        """What happened; waits if nothing did. The last batch of a slice comes before its end.

        Batches are full, unless no more came in that time.
        A slice ends by position: with the record at its last offset, or when a record or the end of the log
        turns up at or beyond the slice's end, for there may be no record at its last offset.
        """

    def unassign(self) -> None:
        """Stop reading, and forget what was read ahead."""

    def close(self) -> None:
        """Let go of connections and threads."""


@dataclass
class _Part:
    """What was read of a slice and not handed out."""

    slice: Slice
    extras: Extras
    size: int = 0
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)

    def take(self) -> RawBatch:
        batch = RawBatch(
            self.slice.topic,
            self.slice.partition,
            pa.array(self.values, pa.binary()),
            pa.array(self.offsets, pa.int64()),
            pa.array(self.timestamps, pa.int64()),
            pa.array(self.keys, pa.binary()) if self.extras.keys else None,
            pa.array(self.headers, HEADERS) if self.extras.headers else None,
            slice_start=self.slice.start,
        )
        self.size, self.values, self.offsets, self.timestamps = 0, [], [], []
        self.keys, self.headers = [], []
        return batch


class PythonFetcher:
    """Over `confluent_kafka`: works wherever it does, at the cost of an object for every record."""

    def __init__(
        self, settings: Mapping[str, str], extras: Extras, *, batch_records: int, batch_bytes: int
    ) -> None:
        self._extras = extras
        self._records = batch_records
        self._bytes = batch_bytes
        self._size = 0
        self._parts: dict[tuple[str, int], _Part] = {}
        self._events: list[Event] = []
        try:
            self._consumer = Consumer({**settings, **_GROUP, "error_cb": self._on_error})
        except KafkaException as error:
            raise refused(error.args[0].str(), settings) from None

    def assign(self, slices: Sequence[Slice]) -> None:
        self._parts = {(s.topic, s.partition): _Part(s, self._extras) for s in slices}
        self._consumer.assign([TopicPartition(s.topic, s.partition, s.start) for s in slices])

    def poll(self, seconds: float) -> Sequence[Event]:
        deadline = time.monotonic() + seconds
        while not self._events:
            left = deadline - time.monotonic()
            first = self._consumer.poll(max(0.0, min(left, _SECONDS)))
            if first is not None:
                self._accept(first)
                for message in self._consumer.consume(_MESSAGES, timeout=0):
                    self._accept(message)
            elif left <= 0:
                for part in self._parts.values():
                    self._flush(part)
                break
        events, self._events = self._events, []
        return events

    def unassign(self) -> None:
        self._parts = {}
        self._events = []
        self._size = 0
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()

    def _accept(self, message: Message) -> None:
        topic, partition = message.topic(), message.partition()
        part = None if topic is None or partition is None else self._parts.get((topic, partition))
        error = message.error()
        offset = message.offset()
        if error is not None and error.code() == Code.GROUP_AUTHORIZATION_FAILED:
            return  # it looks for the group that we do not use
        if error is not None and error.code() != Code.PARTITION_EOF:
            self._events.append(
                Fault(error.code(), error.str(), topic, -1 if partition is None else partition)
            )
        elif part is None or offset is None:
            return  # read ahead beyond the end of a slice
        elif offset >= part.slice.end:
            self._end(part)
        elif error is None:
            self._append(part, message, offset)
            if offset + 1 == part.slice.end:
                self._end(part)

    def _append(self, part: _Part, message: Message, offset: int) -> None:
        value = message.value()
        key = message.key() if self._extras.keys else None
        headers = _headers(message) if self._extras.headers else []
        size = len(value or b"") + len(key or b"") + _headers_size(headers)
        if part.values and (part.size + size > self._bytes or len(part.values) >= self._records):
            self._flush(part)
        part.values.append(value)
        part.offsets.append(offset)
        part.timestamps.append(message.timestamp()[1])
        if self._extras.keys:
            part.keys.append(key)
        if self._extras.headers:
            part.headers.append(headers)
        part.size += size
        self._size += size
        if self._size > self._bytes:
            # Many partitions together hold no more than one would.
            self._flush(max(self._parts.values(), key=lambda part: part.size))

    def _flush(self, part: _Part) -> None:
        if not part.values:
            return
        self._size -= part.size
        self._events.append(part.take())

    def _end(self, part: _Part) -> None:
        self._flush(part)
        ended = (part.slice.topic, part.slice.partition)
        del self._parts[ended]
        self._consumer.incremental_unassign([TopicPartition(*ended)])
        self._events.append(ended)

    def _on_error(self, error: KafkaError) -> None:
        _log.debug("%s", error.str())
        self._events.append(Fault(error.code(), error.str()))


def _headers(message: Message) -> Headers:
    try:
        # As read, they are always a list, and their values bytes.
        return cast("Headers", _read_headers(message) or [])
    except (SystemError, UnicodeDecodeError):
        where = f"{message.topic()}[{message.partition()}] at offset {message.offset()}"
        raise Unsupported(
            f"a header of {where} has a name that is no UTF-8, which Kafka's Python client cannot read; "
            "frazil's native reader can (install a C compiler and frazil again), or leave the headers out"
        ) from None


def _headers_size(headers: Headers) -> int:
    return sum(len(name) + len(value or b"") + _HEADER_BYTES for name, value in headers)


def refused(reason: str, settings: Mapping[str, str]) -> InvalidConfig:
    """librdkafka does not take the settings; it names the one, and we keep its value to ourselves."""
    for value in filter(None, settings.values()):
        reason = reason.replace(f'"{value}"', "what was given")
    return InvalidConfig(
        f"The Kafka client does not accept the settings of the source: {reason}. "
        "The settings are those of librdkafka (its CONFIGURATION.md lists them)."
    )


def doubt(settings: Mapping[str, str], slices: Iterable[Slice]) -> Fault | None:
    """What the brokers' metadata have against reading a slice; None also if they do not answer.

    librdkafka waits for a topic that it may not see, and for a partition that is not there (yet).
    """
    consumer = Consumer({**settings, **_GROUP})
    try:
        topics: dict[str, TopicMetadata] = {}
        for part in slices:
            if part.topic not in topics:
                found = consumer.list_topics(part.topic, timeout=_METADATA_SECONDS)
                topics[part.topic] = found.topics[part.topic]
            error = topics[part.topic].error
            if error is not None:
                return Fault(error.code(), error.str(), part.topic, part.partition)
            if part.partition not in topics[part.topic].partitions:
                count = len(topics[part.topic].partitions)
                text = f"the topic has {count} partition{'s' if count != 1 else ''}"
                return Fault(Code.UNKNOWN_PARTITION, text, part.topic, part.partition)
    except KafkaException:
        return None
    finally:
        consumer.close()
    return None
