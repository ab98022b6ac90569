"""A standalone Spark cluster: a master and workers as processes, each worker with a disk of its own.

A worker has what a machine of a cluster has: Java, Spark, and a Python of the driver's version with nothing
installed. Where the kernel can do it, the driver's files do not even open for it.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import Any, ClassVar, Self

from frazil.core.errors import ServiceError
from frazil.devstack.confined import can_confine, confined
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.spawn import Command
from frazil.jvm.java import find_java

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
#: What a machine has of its own.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys")
_DEVICES = "/dev"
_OPENS = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
)
_OPENED = (*_OPENS, "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs")
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
#: Of Spark 4; its scripts would say so.
_SCALA = "2.13"
_SECONDS = 5.0


class SparkCluster(Service):
    """The master; it starts and stops its workers with it. Everybody has to know the secret.

    >>> with SparkCluster(workers=2) as cluster:  # doctest: +SKIP
    ...     print(cluster.master, cluster.secret_file)
    """

    name: ClassVar[str] = "spark-master"
    start_seconds: ClassVar[float] = 180

    def __init__(
        self, directory: Path | None = None, *, workers: int = 2, cores: int = 1, memory: str = "512m"
    ) -> None:
        """`cores` and `memory` are what each worker offers."""
        super().__init__(directory)
        self.port = free_port()
        self.ui_port = free_port()
        self.secret = secrets.token_hex(32)
        self.secret_file = self.directory / "secret"
        self.secret_file.touch(0o600)
        self.secret_file.write_text(self.secret)
        self.workers = tuple(
            SparkWorker(self, number, cores=cores, memory=memory) for number in range(workers)
        )

    @property
    def master(self) -> str:
        """The address for `spark.master`."""
        return f"spark://127.0.0.1:{self.port}"

    def command(self) -> Command:
        address = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.ui_port)]
        arguments = daemon(self.directory / "spark", "-Dspark.master.rest.enabled=false", _MASTER, *address)
        return Command(
            arguments, daemon_environment(self.directory, self.secret, "127.0.0.1"), self.directory
        )

    def healthy(self) -> bool:
        return status(self.ui_port, "/json/") == 200

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ui_port}/json/", timeout=_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def start(self) -> Self:
        super().start()
        try:
            with ThreadPoolExecutor(len(self.workers)) as pool:
                list(pool.map(SparkWorker.start, self.workers))
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        super().stop()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
        super().kill()


class SparkWorker(Service):
    """One worker and the executors it starts; `kill` ends all of them, as when a machine goes."""

    name: ClassVar[str] = "spark-worker"
    start_seconds: ClassVar[float] = 180

    def __init__(self, cluster: SparkCluster, number: int, *, cores: int, memory: str) -> None:
        super().__init__(cluster.directory / f"worker-{number}")
        # Of workers on one host, executors would read each other's files.
        self.host = f"127.0.0.{number + 2}" if sys.platform == "linux" else "127.0.0.1"
        self.port = free_port()
        self.ui_port = free_port()
        self._cluster = cluster
        self._offer = ["--cores", str(cores), "--memory", memory]

    @property
    def work(self) -> Path:
        """Where executors live: a folder for each application and executor."""
        return self.directory / "work"

    def command(self) -> Command:
        address = ["--host", self.host, "--port", str(self.port), "--webui-port", str(self.ui_port)]
        main = [_WORKER, *address, *self._offer, "--work-dir", str(self.work), self._cluster.master]
        arguments = daemon(self.directory / "spark", *main)
        if can_confine():
            arguments = confined(arguments, read=_installed(), write=[str(self.directory), _DEVICES])
        environment = daemon_environment(self.directory, self._cluster.secret, self.host)
        return Command(arguments, environment, self.directory)

    def healthy(self) -> bool:
        """Whether the master knows it; its own page is there before that."""
        try:
            workers = self._cluster.state()["workers"]
        except (OSError, ValueError):
            # A master that is slow to answer is asked again.
            return False
        return any(worker["port"] == self.port and worker["state"] == "ALIVE" for worker in workers)


def daemon(home: Path, *main: str) -> list[str]:
    """The command of one of Spark's own servers, with Spark installed at `home`."""
    _install(home)
    java = find_java()
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    options = ["-Xmx256m", "-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"]
    return [java.command, *java.options, *options, *opened, "-cp", f"{home / 'jars'}/*", *main]


def daemon_environment(directory: Path, secret: str, host: str) -> dict[str, str]:
    """Nothing of the caller's; the secret is seen by the user who runs the cluster, and not in `ps`."""
    for name in ("tmp", "local"):
        (directory / name).mkdir(exist_ok=True)
    return {
        "PATH": f"{_python().parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(directory),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "TMPDIR": str(directory / "tmp"),
        "JAVA_HOME": str(find_java().home),
        # Of executors too. They live for minutes: compiling for speed would cost more than it saves.
        "JDK_JAVA_OPTIONS": f"{_JAVA_OPTIONS} -Djava.io.tmpdir='{directory / 'tmp'}'",
        "SPARK_HOME": str(directory / "spark"),
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_LOCAL_IP": host,
        "SPARK_SCALA_VERSION": _SCALA,
        "_SPARK_AUTH_SECRET": secret,
    }


def _install(home: Path) -> None:
    """Spark as a cluster has it: its jars, and of Python only the library for workers."""
    if (home / "jars").exists():
        return
    distribution = _distribution()
    (home / "python").mkdir(parents=True)
    shutil.copytree(distribution / "python" / "lib", home / "python" / "lib")
    (home / "jars").symlink_to(distribution / "jars")


def _distribution() -> Path:
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServiceError("pyspark is not installed, and Spark comes with it: pip install 'frazil[spark]'")
    return Path(spec.origin).parent


def _installed() -> list[str]:
    jars = (_distribution() / "jars").resolve()
    java = find_java().home
    return [*_SYSTEM, str(java), str(java.resolve()), str(jars), str(_python().parent.parent)]


def _python() -> Path:
    """The Python below any virtual environment: nothing of ours is installed in it."""
    return Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}").resolve()
