"""The topics of a Kafka cluster: which of them a metric means, in whose names dots are written `_`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from frazil.core.errors import InvalidConfig
from frazil.lineage.flink.resolve.metrics import filtered


class KafkaTopics:
    """Names only, asked once. Brokers that do not answer are reported once, and then tell nothing.

    That a topic has the name of a table is no evidence: a table of that name can be anything.
    """

    def __init__(self, properties: Mapping[str, str], timeout: float, failed: Callable[[str], None]) -> None:
        self._properties = {**properties, "log_level": "0"}
        self._timeout = timeout
        self._failed = failed
        self._lock = threading.Lock()
        self._names: frozenset[str] | None = None
        if properties:
            _require_client()

    def __bool__(self) -> bool:
        return len(self._properties) > 1

    def __contains__(self, name: str) -> bool:
        return name in self.names()

    def meant(self, metric: str) -> list[str]:
        """The topics that are written like this in the name of a metric."""
        return sorted(name for name in self.names() if filtered(name) == metric)

    def names(self) -> frozenset[str]:
        with self._lock:
            if self._names is None:
                self._names = self._asked() if self else frozenset()
            return self._names

    def _asked(self) -> frozenset[str]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            listed = AdminClient(dict(self._properties)).list_topics(timeout=self._timeout)
        except KafkaException as error:
            self._failed(f"the topics could not be listed: {error.args[0].str()}")
            return frozenset()
        return frozenset(listed.topics)


def _require_client() -> None:
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise InvalidConfig(
            "kafka: asking the brokers needs confluent-kafka: pip install 'frazil[stream]'"
        ) from None
