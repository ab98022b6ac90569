"""PySpark with Iceberg, connected to a REST catalog: here, on a cluster, or inside `spark-submit`."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.jvm.jars import HADOOP_S3A, SPARK_ICEBERG, jars
from frazil.jvm.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import Client

_JARS, _PATH = "spark.jars", "spark.driver.extraClassPath"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
#: Settings whose values are shown nowhere, by their names; Python and Java read it alike.
SECRETS = "(?i)secret|password|passwd|token|access[.]?key|account[.]key|connection.string|credential|sasl"
#: Set by `spark-submit` for the program that it runs.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


def spark_settings(
    catalog_uri: str,
    warehouse: str | None = None,
    name: str = "frazil",
    properties: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The settings that make a REST catalog the Spark catalog `name`."""
    prefix = f"spark.sql.catalog.{name}"
    settings = {
        "spark.sql.extensions": _EXTENSIONS,
        prefix: _CATALOG,
        f"{prefix}.type": "rest",
        f"{prefix}.uri": catalog_uri,
        # With the cache on, a session does not see what cloned sessions commit.
        f"{prefix}.cache-enabled": "false",
    }
    if warehouse is not None:
        settings[f"{prefix}.warehouse"] = warehouse
    return settings | {f"{prefix}.{key}": value for key, value in (properties or {}).items()}


def spark_session(
    settings: Mapping[str, str] | None = None,
    *,
    master: str = "local[2]",
    memory: str = "1g",
    app: str = "frazil",
    s3a: bool = False,
) -> SparkSession:
    """A session with the Iceberg jars and `settings`, on this machine unless `master` or they say otherwise.

    `s3a` adds Hadoop's file system for s3a:// locations, for files that are not Iceberg tables. In a program
    that `spark-submit` runs, master, jars and memory are those that it was given.

    >>> spark = spark_session(spark_settings("http://127.0.0.1:8181/catalog"))  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    wanted = _BASE | dict(settings or {})
    builder = SparkSession.builder.appName(app)
    if _SUBMITTED not in os.environ:
        # A setting counts more than what is usual, and decides how libraries reach the tasks.
        master = wanted.get("spark.master", master)
        wanted = _here(master, memory) | wanted | _libraries(master, wanted, s3a)
        os.environ["PYSPARK_PYTHON"] = python_of_workers(master, wanted)
        builder = builder.master(master)
    private = {} if _java_runs() else {key: value for key, value in wanted.items() if is_secret(key)}
    for key, value in wanted.items():
        if key not in private:
            builder = builder.config(key, value)
    # Spark asks Python data sources for their plan on this machine, by a program that has no packages.
    path = {} if master.startswith("local") else {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with _variables(path), _beside_the_command_line(private):
        return builder.getOrCreate()


def is_secret(setting: str) -> bool:
    """Whether the value of a setting is to be shown nowhere."""
    return re.search(SECRETS, setting) is not None


def runs_here(master: str | None) -> bool:
    """Whether tasks run in the driver's own process."""
    return master is not None and (master == "local" or master.startswith("local["))


def session_jars(*, s3a: bool = False) -> list[Path]:
    """The Java libraries of a session, on the driver and on executors."""
    return [*jars(SPARK_ICEBERG), *(jars(HADOOP_S3A) if s3a else ())]


_BASE = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": _EXTENSIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "WARN",
    # What is told to the catalog or to Kafka through settings is not shown again.
    "spark.redaction.regex": SECRETS,
}


def _here(master: str, memory: str) -> dict[str, str]:
    """Of a JVM that this process starts."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    found = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *java.options)),
    }
    if master.startswith("local"):
        # The executors of a cluster have to reach the driver; here nobody else shall.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return found


def _libraries(master: str, given: Mapping[str, str], s3a: bool) -> dict[str, str]:
    """Java libraries beside those that were asked for."""
    if not runs_here(master):
        return {_JARS: _listed(",", session_jars(s3a=s3a), given.get(_JARS))}
    # As jars for tasks they would be copied at every start, a hundred megabytes.
    found = {_PATH: _listed(os.pathsep, jars(SPARK_ICEBERG), given.get(_PATH))}
    if s3a:
        found[_JARS] = _listed(",", jars(HADOOP_S3A), given.get(_JARS))
    return found


def _listed(between: str, ours: Iterable[Path], others: str | None) -> str:
    return between.join([*map(str, ours), *([others] if others else [])])


def python_of_workers(master: str, settings: Mapping[str, str]) -> str:
    """The program of Python's workers: on a cluster a path of this machine says nothing."""
    if master.startswith("local"):
        return sys.executable
    named = os.environ.get("PYSPARK_PYTHON")
    if named == sys.executable:
        # Left by a session on this machine.
        named = None
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return settings.get("spark.pyspark.python") or named or version


def _java_runs() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None  # noqa: SLF001 - there is no other way to know


@contextlib.contextmanager
def _beside_the_command_line(settings: Mapping[str, str]) -> Iterator[None]:
    """A JVM that starts meanwhile reads these from a file: PySpark would write them where `ps` shows them."""
    if not settings:
        yield
        return
    before = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    with tempfile.NamedTemporaryFile("w", prefix="frazil-", suffix=".conf", encoding="utf-8") as file:
        file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
        file.flush()
        options = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        with _variables({"PYSPARK_SUBMIT_ARGS": f"{options} {before}"}):
            yield


@contextlib.contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """The environment of a JVM that starts meanwhile."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _escaped(text: str) -> str:
    """As Java's properties want it."""
    return re.sub(r"[\\:=#! \t]", r"\\\g<0>", text).replace("\n", "\\n").replace("\r", "\\r")


def use_catalog(spark: SparkSession, name: str, client: Client) -> None:
    """Let this session, and no other, see the client's warehouse as the Spark catalog `name`.

    The caller's proof of identity is then a setting of the session; `spark.redaction.regex` hides it.
    """
    prefix = f"spark.sql.catalog.{name}"
    wanted = {
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
        **{f".{key}": value for key, value in client.iceberg_properties().items()},
        # Whatever the client's owner wrote, what is committed elsewhere is to be seen here.
        "": _CATALOG,
        ".type": "rest",
        ".cache-enabled": "false",
    }
    for key, value in wanted.items():
        spark.conf.set(f"{prefix}{key}", value)
