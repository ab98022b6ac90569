"""Commits, merges and expires until it is killed: `python -m tests.maintenance.worker URI TABLE`."""

from __future__ import annotations

import sys

from tests.lake.support import commit, first
from tests.maintenance.support import SIZE, plan_of

from frazil.client import Client
from frazil.lake.catalog import Lake
from frazil.lake.session import spark_session
from frazil.lake.writers import PipelineWriter
from frazil.maintenance.actions import expire, merge_files


def main(uri: str, name: str) -> None:
    spark = spark_session()
    lake = Lake(spark, Client(uri))
    writer = PipelineWriter.claim(lake, lake.load(("kept",), name), "orders", first, "config")
    own = lake.load_for_jobs(("kept",), name)
    while True:
        for _ in range(8):
            commit(writer, [writer.stamp.written])
        print("merging", flush=True)
        merge_files(spark, own, SIZE, 1000)
        print("expiring", flush=True)
        expire(own, plan_of(own).expire)


if __name__ == "__main__":
    main(*sys.argv[1:])
