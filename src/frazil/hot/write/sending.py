"""Records into the topic of a hot table: each once, in order for each key, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer

from frazil.core.errors import FrazilError, InvalidConfig, InvalidInput, NotAllowed
from frazil.stream.kafka.settings import admin_settings, kafka_error, logger

#: Retries do not repeat a record nor change the order, and a partition is that of Java's producers.
_OWN: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
}
_DEFAULTS: dict[str, Any] = {
    "linger.ms": 10,
    "queue.buffering.max.messages": 500_000,
    "queue.buffering.max.kbytes": 256 * 1024,
    # Somebody waits.
    "delivery.timeout.ms": 60_000,
}
_LARGEST = 1_000_000
_POLL_SECONDS = 0.1
#: Errors are asked for once in so many records.
_EVERY = 10_000
_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class Sender:
    """A producer of one topic. For one thread."""

    def __init__(self, topic: str, kafka: Mapping[str, str]) -> None:
        self._topic = topic
        self._kafka = dict(kafka)
        #: Bytes of key and value together.
        self.largest = int(self._kafka.get("message.max.bytes", _LARGEST))
        self._failed: KafkaError | None = None
        self._lost = 0
        settings = {**_DEFAULTS, **admin_settings(self._kafka), **_OWN}
        settings |= {"on_delivery": self._note, "error_cb": self._fatal}
        try:
            self._producer = Producer(settings, logger=logger)
        except (KafkaException, ValueError, TypeError):
            # The text could repeat a value.
            raise InvalidConfig("Kafka's settings are not legal; legal are those of librdkafka") from None

    def send(self, keys: Iterable[bytes | None], values: Iterable[bytes | None]) -> int:
        """Queue them, in order; an error says that some before them were not delivered."""
        produce, topic, count = self._producer.produce, self._topic, 0
        # However few rows a call has: they may come by ones, and for days.
        self._producer.poll(0)
        self._check()
        for key, value in zip(keys, values, strict=True):
            while True:
                try:
                    produce(topic, value, key)
                    break
                except BufferError:
                    self._producer.poll(_POLL_SECONDS)
                    self._check()
                except KafkaException as error:
                    raise self._translated(error.args[0]) from None
            count += 1
            if count % _EVERY == 0:
                self._producer.poll(0)
                self._check()
        return count

    def flush(self) -> None:
        """Wait until all are there."""
        while self._producer.flush(_POLL_SECONDS):
            if self._failed is not None and self._failed.fatal():
                break
        self._check()

    def close(self) -> None:
        """Deliver what is left."""
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, Exception):
            # What was put was put, and if not, that is told as well.
            self._producer.flush(_DEFAULTS["delivery.timeout.ms"] / 1000)
            if self._failed is not None and isinstance(error, FrazilError):
                error.message += f". {self._translated(self._failed).message}"
                error.args = (error.message,)

    def _note(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._lost += 1
            self._failed = self._failed or error

    def _fatal(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = error

    def _check(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise self._translated(failed)

    def _translated(self, error: KafkaError) -> FrazilError:
        lost = f"{self._lost} records were not delivered" if self._lost else "could not send"
        self._lost = 0
        tried = f"{lost} to the topic {self._topic}"
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return InvalidInput(
                f"{tried}: {error.str()}; Kafka's `max.message.bytes` of the topic is the limit"
            )
        if error.code() in _REFUSED:
            return NotAllowed(f"{tried}: {error.str()}. The user needs Write on the topic")
        return kafka_error(error, tried, self._kafka)
