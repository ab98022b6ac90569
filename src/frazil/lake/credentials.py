"""Vended keys in Spark: how S3A gets them, how tasks get them.

Neither way passes through rows, options or settings of the session, because plans, event logs and the UI show
those.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from frazil.client import Renewing, VendedCredentials, hadoop_configuration
from frazil.client.translate.table import S3_SCHEMES, require_scheme
from frazil.core.errors import Unsupported
from frazil.lake.session import runs_here

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

_UNCACHED = "fs.s3a.impl.disable.cache"


def use_s3a(spark: SparkSession, *credentials: VendedCredentials) -> None:
    """Let jobs that start from now on use these keys at `s3a://{credentials.path}`.

    Call it before each job of a long program; the same keys again change nothing. S3A reads its keys when it
    opens a bucket and keeps that open, so with new keys the open one is closed: no other job may be using it
    then. On a cluster the executors keep theirs, out of reach: new keys are refused there.
    """
    for given in credentials:
        require_scheme(given, "S3A", *S3_SCHEMES)
    settings = hadoop_configuration(credentials)
    context = spark.sparkContext
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None, "a running session has a JVM"
    stale = [
        bucket
        for bucket in sorted(_buckets(credentials))
        if hadoop.get(_key(bucket)) not in (None, settings[_key(bucket)])
    ]
    if stale and not _can_reopen(spark, hadoop.getBoolean(_UNCACHED, False)):
        raise Unsupported(
            f"S3A on the executors of {context.master} keeps the keys with which it opened "
            f"{', '.join(stale)}. For jobs that outlive their keys use Iceberg's S3FileIO, or pyarrow in the "
            "tasks with TaskKeys"
        )
    for name, value in settings.items():
        hadoop.set(name, value)
    for bucket in stale:
        # Only this one: FileSystem.closeAll would end those of everybody else in this JVM.
        jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI(f"s3a://{bucket}/"), hadoop).close()


class TaskKeys:
    """Keys for the tasks of jobs, sent by broadcast and renewed between jobs.

    >>> keys = TaskKeys(spark, Renewing(lambda: client.generic_tables.credentials("sensors", "raw")))
    ... # doctest: +SKIP
    >>> sent = keys.broadcast()  # before each job  # doctest: +SKIP
    >>> rows.foreachPartition(lambda part: write(part, sent.value.to_pyarrow()))  # doctest: +SKIP

    `sent.value` prints without keys. Let the margin of the `Renewing` be longer than a job takes.
    """

    def __init__(self, spark: SparkSession, keys: Renewing) -> None:
        self._context = spark.sparkContext
        self._keys = keys
        self._sent: list[tuple[VendedCredentials, Broadcast[VendedCredentials]]] = []
        self._lock = threading.Lock()

    def broadcast(self) -> Broadcast[VendedCredentials]:
        """The keys of now, for the job that is about to start."""
        with self._lock:
            current = self._keys.current()
            if not self._sent or self._sent[-1][0] is not current:
                self._forget_expired()
                self._sent.append((current, self._context.broadcast(current)))
            return self._sent[-1][1]

    def _forget_expired(self) -> None:
        """Jobs may still run with older keys, but not with those that have ended."""
        for keys, sent in self._sent:
            if keys.expires_soon(0.0):
                sent.destroy()
        self._sent = [entry for entry in self._sent if not entry[0].expires_soon(0.0)]


def _buckets(credentials: tuple[VendedCredentials, ...]) -> set[str]:
    return {given.path.partition("/")[0] for given in credentials}


def _key(bucket: str) -> str:
    return f"fs.s3a.bucket.{bucket}.access.key"


def _can_reopen(spark: SparkSession, uncached: bool) -> bool:
    """Whether this process holds every open file system, or none is kept at all."""
    return uncached or runs_here(spark.sparkContext.master)
