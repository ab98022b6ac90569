"""A job on a cluster: executors in JVMs of their own. `test_cluster` runs it in a process of its own."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.client import Client, Renewing
from frazil.core.errors import Unsupported
from frazil.lake import TaskKeys, use_s3a
from frazil.lake.session import spark_session


def main(uri: str, warehouse: str, namespace: str, table: str) -> None:
    settings = {"spark.master": "local-cluster[1,1,1024]", "spark.executor.memory": "512m"}
    spark = spark_session(settings, s3a=True)
    with Client(uri, warehouse=warehouse) as client:
        keys = client.generic_tables.credentials(namespace, table)
        for _ in range(2):
            use_s3a(spark, keys)
            spark.range(0, 100, 1, 2).write.mode("append").parquet(f"s3a://{keys.path}")
        sent = TaskKeys(
            spark, Renewing(lambda: client.generic_tables.credentials(namespace, table))
        ).broadcast()

        def write(part: int) -> int:
            rows = pa.table({"id": [100 + part]})
            pq.write_table(rows, f"{sent.value.path}/{part}.parquet", filesystem=sent.value.to_pyarrow())
            return os.getppid()

        parents = spark.sparkContext.parallelize([0, 1], 2).map(write).collect()
        print("elsewhere" if os.getpid() not in parents else "here")
        try:
            use_s3a(spark, client.generic_tables.credentials(namespace, table, read_only=True))
        except Unsupported as refused:
            print("refused", refused)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
