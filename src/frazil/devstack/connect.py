"""Kafka Connect with Debezium's connectors: the changes of databases, into Kafka."""

from __future__ import annotations

import os
import shutil
import tarfile
import time
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import httpx
import msgspec

from frazil.core.cache import cache_dir, exclusive
from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import AVRO_CONVERTER, DEBEZIUM, KAFKA_CONNECT, classpath, jars
from frazil.jvm.java import java_command

#: Apicurio's; Confluent's is not on Maven Central.
AVRO = "io.apicurio.registry.utils.converter.AvroConverter"
_MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
_FILES = "org.apache.kafka.common.config.provider.FileConfigProvider"
JSON = "org.apache.kafka.connect.json.JsonConverter"
_SECONDS = 90.0
_POLL_SECONDS = 0.1
_LOGGING = """\
<Configuration status="warn"><Appenders>
<Console name="out"><PatternLayout pattern="%d %p %c{1}: %m%n"/></Console>
</Appenders><Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""


class KafkaConnect(Service):
    """One worker; its connectors and their offsets are in Kafka, so they outlast a kill and a restart.

    >>> with KafkaConnect(kafka.bootstrap_servers) as connect:  # doctest: +SKIP
    ...     connect.create_connector("shop", config, secrets={"database.password": password})
    ...     connect.wait_running("shop")
    """

    name: ClassVar[str] = "kafka-connect"
    start_seconds: ClassVar[float] = 300

    def __init__(
        self,
        bootstrap_servers: str,
        directory: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` are added to the worker's own, or replace them."""
        super().__init__(directory)
        self.port = free_port()
        self.bootstrap_servers = bootstrap_servers
        self._settings = dict(settings or {})
        # Its three topics: several workers may share a broker.
        self._prefix = f"connect-{uuid.uuid4().hex[:8]}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Command:
        logging = self.directory / "log4j2.xml"
        logging.write_text(_LOGGING)
        properties = self.directory / "connect.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        # It lives for minutes: compiling for speed would cost more than it saves.
        options = ["-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx400m", f"-Dlog4j2.configurationFile={logging}"]
        java = java_command(*options, "-cp", classpath(KAFKA_CONNECT), _MAIN, str(properties))
        return Command(java, keep, self.directory)

    def healthy(self) -> bool:
        return status(self.port, "/health") == 200

    def create_connector(
        self, name: str, config: Mapping[str, str], *, secrets: Mapping[str, str] | None = None
    ) -> str:
        """Create the connector, or give it another configuration; the worker starts it soon after.

        `secrets` are settings too, but stay in a file that only this user can read: neither Connect's
        topics nor its answers have them.
        """
        hidden = self._hide(name, secrets or {})
        self._call("PUT", f"/connectors/{name}/config", {**config, **hidden})
        return name

    def connectors(self) -> list[str]:
        found: list[str] = self._call("GET", "/connectors")
        return found

    def config(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self._call("GET", f"/connectors/{name}/config")
        return found

    def offset(self, name: str) -> dict[str, Any] | None:
        """Where the connector would go on after a crash; None: it would begin anew."""
        found = self._call("GET", f"/connectors/{name}/offsets")["offsets"]
        return found[0]["offset"] if found else None

    def status(self, name: str) -> dict[str, Any]:
        """As Connect tells it: `connector.state`, and `tasks` with `state` and, when failed, `trace`."""
        found: dict[str, Any] = self._call("GET", f"/connectors/{name}/status")
        return found

    def wait_running(self, name: str, *, seconds: float = _SECONDS) -> None:
        """Return when connector and task run; ServiceError with the reason when it failed.

        Right after a kill and a start Connect still tells what was before them.
        """
        deadline = time.monotonic() + seconds
        while True:
            states, trace = self._states(name)
            if "FAILED" in states:
                raise ServiceError(f"the connector {name} failed: {trace[:2000]}")
            if states and states == {"RUNNING"}:
                return
            if time.monotonic() > deadline:
                raise ServiceError(f"the connector {name} does not run after {seconds:g} s: {sorted(states)}")
            time.sleep(_POLL_SECONDS)

    def wait_streaming(self, name: str, *, seconds: float = _SECONDS) -> None:
        """Return when it is on record that the first snapshot is done: a crash does not begin it anew.

        A snapshot that finds no row in any table leaves no record.
        """
        deadline = time.monotonic() + seconds
        while (offset := self.offset(name)) is None or (
            "snapshot" in offset and not offset.get("snapshot_completed")
        ):
            self.wait_running(name, seconds=seconds)
            if time.monotonic() > deadline:
                raise ServiceError(f"the connector {name} still makes its snapshot after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def restart_connector(self, name: str) -> None:
        """Restart the connector with its tasks; it goes on from its last stored offset."""
        self._call("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=false")

    def stop_connector(self, name: str, *, seconds: float = _SECONDS) -> None:
        """Stop the connector and wait; `resume_connector` goes on where it ended."""
        self._call("PUT", f"/connectors/{name}/stop")
        deadline = time.monotonic() + seconds
        while self.status(name)["connector"]["state"] != "STOPPED" or self.status(name)["tasks"]:
            if time.monotonic() > deadline:
                raise ServiceError(f"the connector {name} did not stop within {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def resume_connector(self, name: str) -> None:
        self._call("PUT", f"/connectors/{name}/resume")

    def delete_connector(self, name: str) -> None:
        """Remove the connector; what it wrote and what it made in the database stay."""
        self._call("DELETE", f"/connectors/{name}")
        (self.directory / f"{name}.secrets").unlink(missing_ok=True)

    def send_signal(self, topic: str, prefix: str, kind: str, data: Mapping[str, Any]) -> None:
        """A Debezium signal to the connector with that `topic.prefix` which reads signals from `topic`."""
        from confluent_kafka import Producer

        value = msgspec.json.encode({"id": uuid.uuid4().hex, "type": kind, "data": data})
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        producer.produce(topic, value, key=prefix, partition=0)
        if producer.flush(_SECONDS):
            raise ServiceError(f"Kafka did not take a signal for {topic} within {_SECONDS:g} s")

    def snapshot_tables(self, topic: str, prefix: str, tables: Iterable[str]) -> None:
        """Ask for an incremental snapshot of `tables`, named as the connector does (`schema.table`)."""
        data = {"type": "incremental", "data-collections": list(tables)}
        self.send_signal(topic, prefix, "execute-snapshot", data)

    def _properties(self) -> dict[str, str]:
        topics = {
            name: value
            for kind in ("config", "offset", "status")
            for name, value in (
                (f"{kind}.storage.topic", f"{self._prefix}-{kind}"),
                (f"{kind}.storage.replication.factor", "1"),
                (f"{kind}.storage.partitions", "1"),
            )
            if name != "config.storage.partitions"
        }
        return {
            "bootstrap.servers": self.bootstrap_servers,
            # A group of its own for each start: the member that was killed is not waited for.
            "group.id": f"{self._prefix}-{uuid.uuid4().hex[:8]}",
            **topics,
            "key.converter": JSON,
            "value.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "1000",
            "listeners": self.url,
            "plugin.path": str(plugins()),
            # Looking into every class of every jar would take most of the start.
            "plugin.discovery": "service_load",
            "config.providers": "file",
            "config.providers.file.class": _FILES,
            "config.providers.file.param.allowed.paths": str(self.directory),
            **self._settings,
        }

    def _hide(self, name: str, secrets: Mapping[str, str]) -> dict[str, str]:
        path = self.directory / f"{name}.secrets"
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}={value}\n" for key, value in secrets.items()))
        return {key: f"${{file:{path}:{key}}}" for key in secrets}

    def _states(self, name: str) -> tuple[set[str], str]:
        try:
            found = self.status(name)
        except ServiceError:
            # Just created: the worker has not told its status yet.
            return set(), ""
        parts = [found["connector"], *found["tasks"]]
        states = {part["state"] for part in parts} if found["tasks"] else set()
        return states, " ".join(part.get("trace", "") for part in parts)

    def _call(self, method: str, path: str, body: object = None) -> Any:
        deadline = time.monotonic() + _SECONDS
        with httpx.Client(trust_env=False, timeout=_SECONDS) as client:
            # 409: the worker is distributing its work just now, and says to ask again.
            while (answer := client.request(method, self.url + path, json=body)).status_code == 409:
                if time.monotonic() > deadline:
                    break
                time.sleep(_POLL_SECONDS)
        if answer.is_error:
            raise ServiceError(
                f"Kafka Connect answered {method} {path} with {answer.status_code}: {answer.text[:500]}"
            )
        return answer.json() if answer.content else None


def plugins() -> Path:
    """Debezium's connectors and the Avro converter, each in a folder of its own, unpacked once."""
    archives, converter = jars(DEBEZIUM), jars(AVRO_CONVERTER)
    versions = [path.parent.name for path in (archives[0], converter[0])]
    directory = cache_dir("connect", "-".join(versions))
    complete = directory / ".complete"
    with exclusive(directory.parent / f"{directory.name}.lock"):
        if not complete.is_file():
            for archive in archives:
                with tarfile.open(archive) as packed:
                    packed.extractall(directory, filter="data")
            _place_converter(converter, directory / AVRO_CONVERTER)
            complete.touch()
    return directory


def _place_converter(jars: Iterable[Path], directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for jar in jars:
        shutil.copy(jar, directory)
    # Its own jar does not say what it offers, and classes are not searched for.
    with zipfile.ZipFile(directory / "services.jar", "w") as manifest:
        manifest.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", AVRO + "\n")
