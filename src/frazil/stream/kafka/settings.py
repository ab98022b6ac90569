"""The driver's client: its settings, its log lines, and librdkafka's errors in words.

Values may be secrets: messages name settings and addresses, never a value.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError

from frazil.core.errors import FrazilError, NotAllowed, Unauthenticated, Unavailable

_AGAIN_SECONDS = 30.0


class _Repeated(logging.Filter):
    """While a broker is away, librdkafka says so several times a second; once in a while is enough."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        line = _VARYING.sub("", record.getMessage())
        self._said = {said: when for said, when in self._said.items() if now - when < _AGAIN_SECONDS}
        return now == self._said.setdefault(line, now)


_VARYING = re.compile(r"\(after .*|\[thrd:[^]]*\]")
#: librdkafka's own lines.
logger = logging.getLogger("frazil.kafka")
logger.addFilter(_Repeated())
# Errors are told by what is raised; these lines are for programs that have set up a log.
logger.addHandler(logging.NullHandler())

_CONSUMER_ONLY = (
    "fetch.",
    "queued.",
    "max.partition.fetch.",
    "group.",
    "session.",
    "heartbeat.",
    "max.poll.",
)
#: Shorter than librdkafka's defaults, which are made for producers that must not lose a message.
_DEFAULTS = {"client.id": "frazil", "socket.keepalive.enable": "true", "reconnect.backoff.max.ms": "2000"}

_UNKNOWN_USER = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)  # noqa: SLF001
_NO_CHANNEL = (KafkaError._SSL, KafkaError.UNSUPPORTED_SASL_MECHANISM)  # noqa: SLF001
_REFUSED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
)


def admin_settings(settings: Mapping[str, str]) -> dict[str, Any]:
    """Of the driver's administration client: those of readers would only be complained about."""
    kept = {name: value for name, value in settings.items() if not name.startswith(_CONSUMER_ONLY)}
    return {**_DEFAULTS, **kept}


def addresses(settings: Mapping[str, str]) -> str:
    """The brokers, as messages name them."""
    return settings.get("bootstrap.servers") or settings.get("metadata.broker.list", "(no broker named)")


def kafka_error(error: KafkaError, tried: str, settings: Mapping[str, str]) -> FrazilError:
    """librdkafka's error as one of ours."""
    told = f"{tried} at {addresses(settings)}: {error.str()}"
    code = error.code()
    if code in _UNKNOWN_USER:
        return Unauthenticated(f"{told}. Check the `sasl.*` settings of the source")
    if code in _NO_CHANNEL:
        return Unauthenticated(f"{told}. Check the `security.protocol`, `ssl.*` and `sasl.*` settings")
    if code in _REFUSED:
        return NotAllowed(f"{told}. The user of this pipeline needs Describe and Read on its topics")
    return Unavailable(f"{told}. Is the broker up, and reachable from here?")
