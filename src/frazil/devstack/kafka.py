"""Kafka: one broker that is its own controller (KRaft), on loopback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from frazil.core.errors import ServiceError
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import KAFKA, classpath
from frazil.jvm.java import java_command

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_NODE = 1
_SECONDS = 30.0
_HEALTH_SECONDS = 2.0
_LOGGING = """\
<Configuration status="warn"><Appenders>
<Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console>
</Appenders><Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


class Kafka(Service):
    """A broker whose topics live in its directory: they outlast a kill and a restart.

    >>> with Kafka() as kafka:  # doctest: +SKIP
    ...     kafka.create_topic("orders", partitions=2)
    ...     print(kafka.bootstrap_servers)
    """

    name: ClassVar[str] = "kafka"

    def __init__(self, directory: Path | None = None, *, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are added to the broker's own, or replace them."""
        super().__init__(directory)
        self.port = free_port()
        self._controller_port = free_port()
        self._settings = dict(settings or {})
        self._admin: AdminClient | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def admin(self) -> AdminClient:
        """Kafka's own administration client."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            # It reconnects by itself; without a logger it would complain about every restart on stderr.
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        return self._admin

    def command(self) -> Command:
        logging = self.directory / "log4j2.xml"
        logging.write_text(_LOGGING)
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(properties)
        return Command(
            self._java("-Xms256m", "-Xmx512m", main=["kafka.Kafka", str(properties)]),
            _environment(),
            self.directory,
        )

    def healthy(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            return bool(self.admin.list_topics(timeout=_HEALTH_SECONDS).brokers)
        except KafkaException:
            return False

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """A new topic; ServiceError if there is one of that name."""
        from confluent_kafka import KafkaException
        from confluent_kafka.cimpl import NewTopic

        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        (made,) = self.admin.create_topics([topic], operation_timeout=_SECONDS).values()
        try:
            made.result(_SECONDS)
        except KafkaException as error:
            raise ServiceError(f"Kafka did not create the topic {name}: {error.args[0].str()}") from None
        self._await_topic(name)
        return name

    def _await_topic(self, name: str) -> None:
        """The controller made it; on a busy machine the broker hears of that a moment later."""
        from confluent_kafka import KafkaException, TopicCollection

        deadline = time.monotonic() + _SECONDS
        while True:
            (asked,) = self.admin.describe_topics(TopicCollection([name])).values()
            with contextlib.suppress(KafkaException):
                if all(partition.leader is not None for partition in asked.result(_SECONDS).partitions):
                    return
            if time.monotonic() > deadline:
                raise ServiceError(f"Kafka made the topic {name}, and does not tell of it")
            time.sleep(0.02)

    def _properties(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": str(_NODE),
            "controller.quorum.voters": f"{_NODE}@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self._controller_port}",
            "log.dirs": str(self.directory / "data"),
            # One broker holds the only copy of everything.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A misspelt topic is an error, not a new topic.
            "auto.create.topics.enable": "false",
            **self._settings,
        }

    def _format(self, properties: Path) -> None:
        """The directory gets a cluster id, once."""
        main = ["kafka.tools.StorageTool", "random-uuid"]
        made = subprocess.run(
            self._java(main=main), capture_output=True, text=True, check=False, env=_environment()
        )
        cluster = made.stdout.strip()
        main = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        done = subprocess.run(
            self._java(main=main), capture_output=True, text=True, check=False, env=_environment()
        )
        if made.returncode or done.returncode:
            raise ServiceError(
                f"Kafka could not prepare {self.directory}: {made.stderr}{done.stdout}{done.stderr}"
            )

    def _java(self, *options: str, main: list[str]) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.xml'}"
        # It lives for minutes: compiling for speed would cost more than it saves.
        return java_command("-XX:TieredStopAtLevel=1", logging, *options, "-cp", classpath(KAFKA), *main)


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
