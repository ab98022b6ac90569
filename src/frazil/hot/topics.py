"""The topic of a hot table: made, looked at and deleted by Kafka's administration client."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from frazil.core.errors import AlreadyExists, Conflict, FrazilError, InvalidConfig, NotAllowed, Unavailable
from frazil.stream.config.model import KafkaSource
from frazil.stream.kafka.log import COMMAND_SECONDS, KafkaLog, LogView
from frazil.stream.kafka.settings import addresses, admin_settings, kafka_error, logger

#: Records go when tiering says so and for no other reason, and their time is that of their arrival.
SETTINGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
}
#: Making and deleting take longer than asking.
_SECONDS = 30.0
_POLL_SECONDS = 0.05
_REPLICAS_OF_THE_BROKER = -1
_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_IMPOSSIBLE = (
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_CONFIG,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
)


@dataclass(frozen=True)
class HotTopic:
    """A topic as it is now."""

    name: str
    id: str
    partitions: int
    #: How many records there are, about: offsets that no record has count.
    records: int
    #: Whether records were removed that were there once: offsets do not begin at 0.
    trimmed: bool
    #: By setting of ours: what it is, where it is something else.
    others: Mapping[str, str]


class Topics:
    """Topics of one cluster; Unavailable if it does not answer in time."""

    def __init__(self, kafka: Mapping[str, str], *, timeout_seconds: float = COMMAND_SECONDS) -> None:
        self._kafka = dict(kafka)
        self._timeout = timeout_seconds
        # It says what is wrong with the settings.
        self._identity = KafkaLog(KafkaSource(self._kafka), timeout_seconds=timeout_seconds)
        self._admin = AdminClient(admin_settings(self._kafka), logger=logger)

    def identity(self) -> str:
        """`kafka:<cluster id>`"""
        return self._identity.identity()

    def find(self, name: str) -> HotTopic | None:
        """The topic of that name."""
        view = self.look(name)
        topic = view.topics.get(name)
        if topic is None:
            return None
        first = view.beginnings[name]
        records = sum(view.ends[name]) - sum(first)
        found = self._settings(name)
        others = {key: found.get(key, "") for key, wanted in SETTINGS.items() if found.get(key) != wanted}
        return HotTopic(name, topic.id, topic.partitions, records, any(first), others)

    def create(self, name: str, partitions: int, replicas: int | None = None) -> HotTopic:
        """A new topic, once all brokers know it; AlreadyExists."""
        wanted = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=_REPLICAS_OF_THE_BROKER if replicas is None else replicas,
            config=dict(SETTINGS),
        )
        self._done(f"create the topic {name}", self._admin.create_topics([wanted])[name])
        deadline = time.monotonic() + _SECONDS
        while (found := self.find(name)) is None or found.partitions != partitions:
            if time.monotonic() > deadline:
                raise Unavailable(f"the topic {name} was created, and no broker knows of it; try again")
            time.sleep(_POLL_SECONDS)
        return found

    def delete(self, name: str) -> None:
        """Delete a topic, and wait until it is gone; one that is not there is fine."""
        try:
            self._done(f"delete the topic {name}", self._admin.delete_topics([name])[name])
        except _Gone:
            return
        deadline = time.monotonic() + _SECONDS
        while self.look(name).topics:
            if time.monotonic() > deadline:
                raise Unavailable(f"the topic {name} is still there, {_SECONDS:.0f}s after it was deleted")
            time.sleep(_POLL_SECONDS)

    def look(self, name: str) -> LogView:
        """The cluster, as far as this topic goes."""
        return KafkaLog(KafkaSource(self._kafka, topics=(name,)), timeout_seconds=self._timeout).look()

    def _settings(self, name: str) -> dict[str, str]:
        asked = self._admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
        (future,) = asked.values()
        entries = self._done(f"ask for the settings of the topic {name}", future)
        return {key: entry.value for key, entry in entries.items()}

    def _done(self, tried: str, future: Future[Any]) -> Any:
        try:
            return future.result(_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"could not {tried} at {addresses(self._kafka)}: no answer in {_SECONDS:.0f}s"
            ) from None
        except KafkaException as error:
            raise self._translated(tried, error.args[0]) from None

    def _translated(self, tried: str, error: KafkaError) -> FrazilError:
        told = f"could not {tried} at {addresses(self._kafka)}: {error.str()}"
        if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return AlreadyExists(told)
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return _Gone(told)
        if error.code() in _REFUSED:
            return NotAllowed(
                f"{told}. The user needs Create, Delete, Describe and DescribeConfigs on topics"
            )
        if error.code() in _IMPOSSIBLE:
            return InvalidConfig(told)
        return kafka_error(error, f"could not {tried}", self._kafka)


class _Gone(Conflict):
    """There is no such topic any more."""
