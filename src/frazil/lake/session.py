"""PySpark on this machine with Iceberg, connected to a REST catalog."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from frazil.jvm.jars import HADOOP_S3A, SPARK_ICEBERG, jars
from frazil.jvm.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import Client

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


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
    """A session with the Iceberg jars and `settings`; on this machine unless `master` says otherwise.

    `s3a` adds Hadoop's file system for s3a:// locations, for files that are not Iceberg tables.

    >>> spark = spark_session(spark_settings("http://127.0.0.1:8181/catalog"))  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    libraries = [*jars(SPARK_ICEBERG), *(jars(HADOOP_S3A) if s3a else ())]
    base = {
        "spark.jars": ",".join(str(jar) for jar in libraries),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *java.options)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": _EXTENSIONS,
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.log.level": "WARN",
        # What is told to the catalog or to Kafka through settings is not shown again.
        "spark.redaction.regex": "(?i)secret|password|passwd|token|access[.]?key|credential|sasl",
    }
    if master.startswith("local"):
        # The executors of a cluster have to reach the driver; here nobody else shall.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        base |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName(app)
    for key, value in (base | dict(settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def use_catalog(spark: SparkSession, name: str, client: Client) -> None:
    """Let this session, and no other, see the client's warehouse as the Spark catalog `name`.

    The caller's proof of identity is then a setting of the session; `spark.redaction.regex` hides it.
    """
    prefix = f"spark.sql.catalog.{name}"
    wanted = {
        "": _CATALOG,
        ".type": "rest",
        ".cache-enabled": "false",
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
        **{f".{key}": value for key, value in client.iceberg_properties().items()},
    }
    for key, value in wanted.items():
        spark.conf.set(f"{prefix}{key}", value)
