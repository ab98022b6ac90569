"""A generic table: plain files that the catalog knows, and keys that reach these files and no others.

    make example

starts a store and a server of its own. To use yours, set LAKEKEEPER to its address and WAREHOUSE (or
FRAZIL_WAREHOUSE) to the name of a warehouse on S3 that vends credentials; if it asks who you are, also TOKEN,
or OAUTH_CLIENT_ID and so on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from frazil.client import Client, VendedCredentials
from frazil.lake import use_s3a
from frazil.lake.session import spark_session


def main() -> None:
    with connection() as client:
        keys = register(client)
        write_with_pyarrow(keys)
        # Any session does that has hadoop-aws on its class path.
        spark = spark_session({"spark.log.level": "OFF"}, s3a=True)
        write_with_spark(spark, keys)
        step_outside(spark, keys)
        spark.stop()


def register(client: Client) -> VendedCredentials:
    """Make the table known. The server chooses where its files go; if it is there already, that is fine."""
    client.namespaces.create("sensors", exist_ok=True)
    table = client.generic_tables.create("sensors", "readings", "parquet", doc="what the sensors said")
    print(f"registered  sensors.readings ({table.format}) at {table.location}")
    # The keys reach this table only, and not for long. Printing them does not show them.
    keys = client.generic_tables.credentials("sensors", "readings")
    print(f"keys        {keys}")
    return keys


def write_with_pyarrow(keys: VendedCredentials) -> None:
    readings = pa.table({"sensor": ["a", "b"], "celsius": [-1.5, 0.25]})
    pq.write_table(readings, f"{keys.path}/day=1/part.parquet", filesystem=keys.to_pyarrow())
    print(f"pyarrow     wrote {readings.num_rows} rows for day 1")


def write_with_spark(spark: SparkSession, keys: VendedCredentials) -> None:
    """Through Hadoop's S3A. A job that outlasts its keys calls `use_s3a` again between two steps."""
    use_s3a(spark, keys)
    here = f"s3a://{keys.path}"
    readings = spark.createDataFrame([("c", 3.0)], "sensor string, celsius double")
    readings.write.mode("overwrite").parquet(f"{here}/day=2")
    print("Spark       wrote 1 row for day 2")
    for day, rows in spark.read.parquet(here).groupBy("day").count().orderBy("day").collect():
        print(f"Spark       reads {rows} of day {day}")


def step_outside(spark: SparkSession, keys: VendedCredentials) -> None:
    """The same keys open nothing else: the store itself refuses."""
    parent = keys.path.rpartition("/")[0]

    def write_beside() -> None:
        pq.write_table(pa.table({"x": [1]}), f"{parent}/mine.parquet", filesystem=keys.to_pyarrow())

    attempts: dict[str, Callable[[], object]] = {
        "pyarrow may not write beside the table": write_beside,
        "Spark may not read what is above it": lambda: spark.read.parquet(f"s3a://{parent}"),
    }
    for what, attempt in attempts.items():
        try:
            attempt()
        except (OSError, Py4JJavaError) as refusal:
            if not re.search("access.?denied|forbidden", str(refusal), re.IGNORECASE):
                raise
            print(f"refused     {what}")
        else:
            raise SystemExit(f"not refused: {what}. Does this store enforce session policies?")


@contextmanager
def connection() -> Iterator[Client]:
    """A client of your server, or of one that lives as long as this program."""
    if "LAKEKEEPER" in os.environ:
        warehouse = os.environ.get("WAREHOUSE") or os.environ.get("FRAZIL_WAREHOUSE")
        with Client(warehouse=warehouse) as client:
            yield client
        return
    from frazil.devstack.frazil_server import FrazilServer
    from frazil.devstack.seaweed import ObjectStore

    with ObjectStore() as store, FrazilServer() as server, Client(server.uri, warehouse="lake") as client:
        profile = {
            "type": "s3",
            "bucket": store.create_bucket("lake"),
            "region": store.region,
            "endpoint": store.endpoint,
            "flavor": "s3-compat",
            "path-style-access": True,
            "sts-enabled": True,
            "sts-role-arn": store.role_arn,
        }
        # The server keeps these keys, encrypted; nobody else ever sees them.
        credential = {
            "type": "s3",
            "credential-type": "access-key",
            "access-key-id": store.catalog.access,
            "secret-access-key": store.catalog.secret,
        }
        client.warehouses.create("lake", profile, credential)
        yield client


if __name__ == "__main__":
    main()
