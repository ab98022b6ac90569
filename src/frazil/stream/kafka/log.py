"""What a Kafka cluster has to read: the driver's view, by the administration client alone."""

from __future__ import annotations

import contextlib
import difflib
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec, TimestampSpec

from frazil.core.errors import FrazilError, InvalidConfig, NotFound, Unavailable, Unsupported
from frazil.core.stamp import Position
from frazil.stream.config.model import KafkaSource, PipelineConfig, Start
from frazil.stream.kafka.settings import addresses, admin_settings, kafka_error, logger

#: By topic, one offset for each partition.
Offsets: TypeAlias = Mapping[str, tuple[int, ...]]

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_FATAL = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001
#: Leaders are being chosen or found.
_MOVING = (
    KafkaError._NOENT,  # noqa: SLF001
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
_POLL_SECONDS = 0.05
_SETTLE_SECONDS = 0.1
_SIMILAR = 5
#: The timeout of commands: somebody waits, and that a broker is down is to be said soon.
COMMAND_SECONDS = 5.0
T = TypeVar("T")


@dataclass(frozen=True)
class Topic:
    name: str
    #: A topic that was deleted and made again has another one.
    id: str
    partitions: int


@dataclass(frozen=True)
class LogView:
    """The log at one moment."""

    source: str
    topics: Mapping[str, Topic]
    #: Asked for by name, and not there.
    missing: tuple[str, ...]
    beginnings: Offsets
    #: Last stable offsets: what lies below them is decided, committed or aborted.
    ends: Offsets
    #: Of `look_at_each`: topics that it cannot tell the offsets of, neither empty nor gone, and why not.
    failed: Mapping[str, FrazilError] = field(default_factory=dict)


def kafka_source(config: PipelineConfig, work: str) -> KafkaSource:
    """The pipeline's source; Unsupported if it is another one, for `work` that needs a log and a table."""
    if config.dataset is not None:
        raise Unsupported(
            f"pipeline '{config.name}' writes a dataset, whose files are its only record: {work} is for "
            "pipelines that write tables. To begin anew, give the pipeline another name"
        )
    if config.changes is not None and work != "reset":
        raise Unsupported(
            f"pipeline '{config.name}' writes rows as they are now, which are not as many as its records: "
            f"{work} is for pipelines that append. Compare with the source itself"
        )
    if not isinstance(config.source, KafkaSource):
        raise Unsupported(
            f"pipeline '{config.name}' does not read Kafka: {work} is for pipelines that do, because it "
            "needs a log that can be read again"
        )
    return config.source


class KafkaLog:
    """The topics of a source and how far they go.

    A look takes two round trips. Nothing of it is kept but the list of all topics, for a pattern.
    """

    def __init__(
        self, source: KafkaSource, *, timeout_seconds: float = 10.0, pattern_seconds: float = 5.0
    ) -> None:
        """`pattern_seconds`: a new topic that matches the pattern is noticed within this time."""
        self._source = source
        self._timeout = timeout_seconds
        self._pattern_seconds = pattern_seconds
        self._listed: tuple[float, tuple[str, ...]] | None = None
        # Not a method of this object: the client would then be part of a cycle, and Python might come to
        # destroy it in one of the client's own threads, which does not survive that.
        self._faults = _Faults()
        self._admin = self._connect()
        #: Whether somebody did not answer.
        self._stale = False

    def select(self, topics: Iterable[str]) -> None:
        """From now on these, instead of those of the source."""
        self._source = replace(self._source, topics=tuple(topics), pattern=None)

    def identity(self) -> str:
        """`kafka:<cluster id>`"""
        return f"kafka:{self._wait('ask for the cluster id', self._cluster()).cluster_id}"

    def topics(self) -> dict[str, Topic]:
        """Those selected by names or by the pattern; NotFound for a name that there is no topic of."""
        topics, missing = self._describe(self._selected())
        self.require(missing)
        return topics

    def beginnings(self, topics: Mapping[str, Topic]) -> dict[str, tuple[int, ...]]:
        return self._settled(lambda: self._offsets(topics, self._ask(topics, _EARLIEST)))

    def ends(self, topics: Mapping[str, Topic]) -> dict[str, tuple[int, ...]]:
        """Last stable offsets."""
        return self._settled(lambda: self._offsets(topics, self._ask(topics, _LATEST)))

    def look(self) -> LogView:
        """All of it."""
        return self._settled(self._look)

    def look_at_each(self, *, wait: bool = False) -> LogView:
        """The same, but that a topic which cannot be told of keeps nothing from the others: see `failed`.

        `wait`: for leaders that are being chosen. An error is not of one topic: nothing is known of any.
        """
        if wait:
            with contextlib.suppress(FrazilError):
                return self.look()
        failed: dict[str, FrazilError] = {}
        view = self._look(failed)
        if failed and not view.ends:
            raise next(iter(failed.values()))
        return view

    def start(self, start: Start) -> dict[str, Position]:
        """Where a pipeline that never ran begins.

        `latest` is the last stable offset, a time the first record at or after it, or the end where there is
        none. Of given offsets, topics and partitions that are not named begin at their earliest record.
        """
        view = self.look()
        self.require(view.missing)
        offsets = self._at(start.at, view)
        return {name: Position(id=topic.id, next=offsets[name]) for name, topic in view.topics.items()}

    def require(self, missing: Iterable[str]) -> None:
        """NotFound if there are any, with names that look like them."""
        missing = sorted(missing)
        if not missing:
            return
        there = self._all_topics()
        similar = list(
            dict.fromkeys(near for name in missing for near in difflib.get_close_matches(name, there))
        )
        hint = f"similar: {', '.join(similar[:_SIMILAR])}" if similar else f"it has {len(there)} topics"
        names = ", ".join(missing)
        raise NotFound(
            f"no topic {names} on the Kafka cluster at {addresses(self._source.settings)} ({hint}); "
            "correct the name, create it, or let this user describe it"
        )

    def _look(self, failed: dict[str, FrazilError] | None = None) -> LogView:
        """`failed` takes the errors of topics; without it they are raised."""
        if self._stale:
            # A client goes on for minutes with the leaders and the controller that it knew.
            self._admin, self._stale = self._connect(), False
        cluster = self._cluster()
        topics, missing = self._describe(self._selected(), failed)
        source = f"kafka:{self._wait('ask for the cluster id', cluster).cluster_id}"
        first, last = self._ask(topics, _EARLIEST), self._ask(topics, _LATEST)
        beginnings, ends = self._offsets(topics, first, failed), self._offsets(topics, last, failed)
        return LogView(source, topics, missing, beginnings, ends, failed or {})

    def _at(self, at: object, view: LogView) -> Offsets:
        if at == "earliest":
            return view.beginnings
        if at == "latest":
            return view.ends
        if isinstance(at, datetime):
            millis = max(0, math.ceil(at.timestamp() * 1000))
            spec = TimestampSpec(millis)
            found = self._settled(lambda: self._offsets(view.topics, self._ask(view.topics, spec)))
            return {name: _bounded(found[name], view.ends[name]) for name in view.topics}
        if isinstance(at, Mapping):
            return _given(at, view)
        raise InvalidConfig(f"cannot start at {at!r}: use earliest, latest, a time, or offsets by topic")

    def _selected(self) -> tuple[str, ...]:
        if self._source.pattern is None:
            return self._source.topics
        now = time.monotonic()
        if self._listed is None or now - self._listed[0] >= self._pattern_seconds:
            pattern = re.compile(self._source.pattern)
            names = (name for name in self._all_topics() if pattern.fullmatch(name))
            self._listed = now, tuple(names)
        return self._listed[1]

    def _all_topics(self) -> list[str]:
        # Waits for a connection: `list_topics` would go on waiting where the user is refused.
        self._wait("list the topics", self._cluster())
        try:
            listed = self._admin.list_topics(timeout=self._timeout)
        except KafkaException as error:
            raise self._translated("list the topics", error) from None
        return sorted(name for name in listed.topics if not name.startswith("__"))

    def _connect(self) -> AdminClient:
        settings = {**admin_settings(self._source.settings), "error_cb": self._faults.note}
        try:
            return AdminClient(settings, logger=logger)
        except (KafkaException, ValueError, TypeError) as error:
            told = _reason(error)
            for value in filter(None, self._source.settings.values()):
                told = told.replace(f'"{value}"', "what was given")
            raise InvalidConfig(f"the settings of the Kafka source: {told}") from None

    def _cluster(self) -> Future[Any]:
        return self._admin.describe_cluster(request_timeout=self._timeout)

    def _describe(
        self, names: tuple[str, ...], failed: dict[str, FrazilError] | None = None
    ) -> tuple[dict[str, Topic], tuple[str, ...]]:
        """Topics by name in order, and the names of which there is none."""
        if not names:
            return {}, ()
        asked = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=self._timeout)
        topics, missing = {}, []
        for name in sorted(asked):
            try:
                found = self._wait(f"describe the topic {name}", asked[name])
            except _UnknownTopic:
                missing.append(name)
                continue
            except FrazilError as error:
                _note(failed, name, error)
                continue
            if not (found.is_internal and self._source.pattern is not None):
                topics[name] = Topic(name, str(found.topic_id), len(found.partitions))
        # One that a pattern found a moment ago and that is gone was not asked for.
        return topics, () if self._source.pattern is not None else tuple(missing)

    def _ask(self, topics: Mapping[str, Topic], spec: OffsetSpec) -> dict[tuple[str, int], Future[Any]]:
        wanted = {
            TopicPartition(topic.name, partition): spec
            for topic in topics.values()
            for partition in range(topic.partitions)
        }
        if not wanted:
            return {}
        asked = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._timeout
        )
        return {(found.topic, found.partition): future for found, future in asked.items()}

    def _offsets(
        self,
        topics: Mapping[str, Topic],
        asked: Mapping[tuple[str, int], Future[Any]],
        failed: dict[str, FrazilError] | None = None,
    ) -> dict[str, tuple[int, ...]]:
        found = {}
        for name, topic in topics.items():
            try:
                found[name] = tuple(
                    self._offset(f"{name}-{partition}", asked[name, partition])
                    for partition in range(topic.partitions)
                )
            except FrazilError as error:
                _note(failed, name, error)
        return found

    def _offset(self, where: str, asked: Future[Any]) -> int:
        tried = f"ask for offsets of {where}"
        offset: int = self._wait(tried, asked).offset
        if offset == OFFSET_INVALID:
            # What the client makes of a leader that did not answer in time: no error, and no offset either.
            self._stale = True
            raise _Unsettled(
                f"could not {tried} at {addresses(self._source.settings)}: its leader does not answer"
            )
        return offset

    def _settled(self, ask: Callable[[], T]) -> T:
        """Asks again while leaders move, as after a restart or when partitions were added."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return ask()
            except _Unsettled:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_SETTLE_SECONDS)

    def _wait(self, tried: str, future: Future[Any]) -> Any:
        """The result; log lines and errors of the connection are served meanwhile."""
        while True:
            try:
                found = future.result(_POLL_SECONDS)
            except TimeoutError:
                self._admin.poll(0)
                fault = self._faults.last
                # It would go on trying to log in until the time is over.
                if fault is not None and fault.code() in _FATAL:
                    self._faults.last = None
                    raise kafka_error(fault, f"could not {tried}", self._source.settings) from None
            except KafkaException as error:
                raise self._translated(tried, error) from None
            else:
                self._admin.poll(0)
                self._faults.last = None
                return found

    def _translated(self, tried: str, error: KafkaException) -> FrazilError:
        self._admin.poll(0)
        told: KafkaError = error.args[0]
        if told.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return _UnknownTopic(f"could not {tried}: {told.str()}")
        if told.code() in _MOVING:
            return _Unsettled(f"could not {tried} at {addresses(self._source.settings)}: {told.str()}")
        self._stale = self._stale or told.code() == KafkaError._TIMED_OUT  # noqa: SLF001
        # What the connection said is nearer to the cause than "timed out".
        cause = self._faults.last if told.code() < 0 and self._faults.last is not None else told
        self._faults.last = None
        return kafka_error(cause, f"could not {tried}", self._source.settings)


class _Faults:
    """The last error of the connection that tells something."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        known = self.last is not None and self.last.code() in _FATAL
        if not known and error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.last = error


class _Unsettled(Unavailable):
    """The broker answered that it cannot tell now."""


class _UnknownTopic(_Unsettled):
    """To a question that came after the topic was seen, a reason to ask again."""


def _note(failed: dict[str, FrazilError] | None, topic: str, error: FrazilError) -> None:
    if failed is None:
        raise error
    failed[topic] = error


def _bounded(found: tuple[int, ...], ends: tuple[int, ...]) -> tuple[int, ...]:
    """Kafka answers -1 where no record is that young."""
    return tuple(end if offset < 0 else min(offset, end) for offset, end in zip(found, ends, strict=True))


def _given(at: Mapping[str, tuple[int, ...]], view: LogView) -> Offsets:
    for name, offsets in at.items():
        if name not in view.topics:
            known = ", ".join(view.topics) or "none"
            raise InvalidConfig(f"offsets are given for {name}, which this source does not read ({known})")
        first, last = view.beginnings[name], view.ends[name]
        if len(offsets) > len(first):
            raise InvalidConfig(
                f"{len(offsets)} offsets are given for {name}: it has {len(first)} partitions"
            )
        for partition, offset in enumerate(offsets):
            if not first[partition] <= offset <= last[partition]:
                raise InvalidConfig(
                    f"offset {offset} of {name}-{partition} is not in the log, which goes from "
                    f"{first[partition]} to {last[partition]}"
                )
    return {
        name: tuple(at.get(name, ())) + first[len(at.get(name, ())) :]
        for name, first in view.beginnings.items()
    }


def _reason(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return cause.str() if isinstance(cause, KafkaError) else str(cause)
