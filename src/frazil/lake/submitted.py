"""Java libraries for a program that `spark-submit` runs."""

from __future__ import annotations

import os
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from frazil.core.errors import Unsupported
from frazil.jvm.jars import HADOOP_S3A, SPARK_ICEBERG, jars

#: Set by `spark-submit` for the program that it runs.
GATEWAY = "PYSPARK_GATEWAY_PORT"
#: A class of each set of jars.
_CLASSES = {
    SPARK_ICEBERG: "org.apache.iceberg.spark.SparkCatalog",
    HADOOP_S3A: "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


def submitted() -> bool:
    """Whether `spark-submit` runs this program."""
    return GATEWAY in os.environ


def load_jars() -> None:
    """Let the JVM of `spark-submit` know Iceberg and S3A, before a session is made.

    What it was given by --packages or --jars stays. Executors of a cluster are out of reach: what they have
    to know must be given so.
    """
    from pyspark import SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - connects to the JVM that is there
    jvm: Any = SparkContext._jvm  # noqa: SLF001
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for name, example in _CLASSES.items():
        try:
            loader.loadClass(example)
        except Py4JJavaError:
            _add(jvm, loader, name)


def _add(jvm: Any, loader: Any, name: str) -> None:
    try:
        for jar in jars(name):
            loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    except Py4JError:
        raise Unsupported(
            f"this Spark lacks the jars of {name} and does not let them be added: name them to spark-submit "
            "by --packages or --jars"
        ) from None
