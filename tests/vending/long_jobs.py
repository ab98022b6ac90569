"""Spark jobs that outlive their keys. `test_long_jobs` runs this in a process of its own, for its logs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import InheritableThread
from pyspark.errors import PySparkException

from frazil.client import Client, Renewing, VendedCredentials
from frazil.lake import TaskKeys, use_s3a
from frazil.lake.session import spark_session, spark_settings

if TYPE_CHECKING:
    from pyspark import Broadcast
    from pyspark.sql import SparkSession

BATCH = 1000
NAMESPACE = "jobs"


def main(uri: str, warehouse: str, events: str, lifetime: float) -> None:
    settings = spark_settings(
        f"{uri}/catalog", warehouse, "lake", {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
    )
    settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    settings |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    spark = spark_session(settings, master="local[3]", s3a=True)
    # Spark hides what is below WARN from Python's shell until the level changes.
    for level in ("ERROR", "INFO"):
        spark.sparkContext.setLogLevel(level)
    with Client(uri, warehouse=warehouse) as client:
        print(json.dumps(run(spark, client, lifetime)))
    spark.stop()


def run(spark: SparkSession, client: Client, lifetime: float) -> dict[str, object]:
    def keys(name: str) -> Renewing:
        return Renewing(lambda: client.generic_tables.credentials(NAMESPACE, name), margin=lifetime / 2)

    s3a, tasks = keys("by_s3a"), TaskKeys(spark, keys("by_tasks"))
    warm_up(spark, s3a.current())
    started = time.time()
    end = started + 2 * lifetime + 2
    alone = InheritableThread(target=append_slowly, args=(spark, end))
    alone.start()
    rounds, held = 0, set()
    while time.time() < end:
        held.add(s3a.current().expires_at)
        use_s3a(spark, s3a.current())
        here = f"s3a://{s3a.current().path}"
        spark.range(rounds * BATCH, (rounds + 1) * BATCH, 1, 2).write.mode("append").json(here)
        write_in_tasks(spark, tasks.broadcast(), rounds)
        rounds += 1
    alone.join()
    use_s3a(spark, s3a.current())
    spark.read.json(here).explain("extended")
    spark.table(f"lake.{NAMESPACE}.by_fileio").explain("extended")
    return {"rounds": rounds, "s3a_keys": len(held), "seconds": time.time() - started}


def warm_up(spark: SparkSession, keys: VendedCredentials) -> None:
    """Load classes, so that the first round takes no longer than others do and its keys last.

    Readers pass over what begins with an underscore.
    """
    use_s3a(spark, keys)
    with contextlib.suppress(PySparkException):
        spark.range(10).write.json(f"s3a://{keys.path}/_warm_up")


def append_slowly(spark: SparkSession, end: float) -> None:
    """One append from one load of the table: file after file until `end`, then the commit."""

    def trickle(firsts: Iterable[int]) -> Iterator[tuple[int]]:
        for number in firsts:
            while time.time() < end:
                # Iceberg looks every thousand rows whether a file is large enough.
                for _ in range(BATCH):
                    yield (number,)
                    number += 1
                time.sleep(1)

    rows = spark.sparkContext.parallelize([0], 1).mapPartitions(trickle)
    spark.createDataFrame(rows, "id long").writeTo(f"lake.{NAMESPACE}.by_fileio").append()


def write_in_tasks(spark: SparkSession, sent: Broadcast[VendedCredentials], number: int) -> None:
    """A file from each task, written by pyarrow with the keys of the broadcast."""

    def write(part: int) -> None:
        keys = sent.value
        print("a task has", keys, file=sys.stderr)
        first = (2 * number + part) * BATCH
        rows = pa.table({"id": range(first, first + BATCH)})
        pq.write_table(rows, f"{keys.path}/{number}-{part}.parquet", filesystem=keys.to_pyarrow())

    print("the driver has", sent, sent.value)
    spark.sparkContext.parallelize([0, 1], 2).foreach(write)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
