"""Keys on a cluster, where executors are processes that only Spark can talk to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.vending.support import NAMESPACE, Lake

PROGRAM = Path(__file__).with_name("cluster_job.py")


@pytest.mark.jvm
@pytest.mark.exhaustive
def test_keys_reach_executors_once(lake: Lake, fresh: Callable[[str], str], tmp_path: Path) -> None:
    name = fresh("g1")
    keys = lake.generic(name)
    command = [sys.executable, str(PROGRAM), lake.server.uri, lake.warehouse, NAMESPACE, name]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr[-4000:]
    where, refused = answer.stdout.splitlines()
    assert where == "elsewhere"
    assert "use Iceberg's S3FileIO, or pyarrow in the tasks with TaskKeys" in refused
    read = pq.read_table(keys.path, filesystem=lake.owner_files())
    assert sorted(read["id"].to_pylist()) == sorted([*range(100), *range(102)])
