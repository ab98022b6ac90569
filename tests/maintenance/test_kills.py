"""kill -9 while files are merged and snapshots expire: the table stays whole, and the next one goes on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.lake.support import Reader, commit
from tests.maintenance.conftest import Claim
from tests.maintenance.support import SIZE, plan_of

from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.table import LakeTable
from frazil.maintenance.actions import expire, merge_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def killed(server: FrazilServer, table: LakeTable, step: str, seed: int) -> None:
    """Start a worker and kill it, JVM included, some time after it began the step."""
    point = {"FRAZIL_FAILPOINT": step} if "." in step else {}
    chance = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.maintenance.worker", server.uri, table.name],
        cwd=ROOT,
        env=os.environ | point,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as worker:
        try:
            assert worker.stdout is not None
            wanted = chance.randint(2, 3)
            for line in worker.stdout:
                wanted -= line.strip() == step
                if not wanted:
                    time.sleep(chance.uniform(0, 1.0 if step == "merging" else 0.3))
                    break
        finally:
            # Python may be dead already; its JVM is not.
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
    assert worker.returncode == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "seed"),
    [
        ("expiring", 2),
        *(
            pytest.param(step, seed, marks=pytest.mark.exhaustive)
            for step in (
                "merging",
                "expiring",
                "merge.before",
                "merge.after",
                "expire.before",
                "expire.after",
            )
            for seed in range(3, 6 if "." not in step else 4)
        ),
    ],
)
def test_killed_at_work(
    spark: SparkSession,
    frazil_sqlite: FrazilServer,
    table: LakeTable,
    reader: Reader,
    claim: Claim,
    step: str,
    seed: int,
) -> None:
    killed(frazil_sqlite, table, step, seed)
    # Until somebody takes over, what the killed one sent last may land.
    writer = claim("orders")
    written = writer.stamp.written
    assert written >= 8
    assert reader.check("orders", list(range(written))) == writer.stamp
    for _ in range(12):
        commit(writer, [writer.stamp.written])
    own = table.lake.load_for_jobs(table.namespace, table.name)
    assert merge_files(spark, own, SIZE, 1000).files >= 12
    expire(own, plan_of(own).expire)
    assert reader.check("orders", list(range(written + 12))) == writer.stamp
