"""The most memory that our source ever takes for many jobs, where it has to keep all of them.

`python -m bench.lineage.memory URL FILE` is the run that is measured: a process of its own, without the
stand-in and without what other measurements left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lineage.standin import StandIn

from bench.lineage.sides import ingest
from bench.processes import tree

#: Of a vertex: its operators have some dozens each, for every subtask.
_METRICS = [{"id": f"{n // 50}.Calc[{n % 50}].numRecordsOutPerSecond"} for n in range(2_000)]
#: Seconds that the last job is held back at most: less than the source waits for an answer.
_PATIENCE = 20.0


def peak_mb(jobs: int, folder: Path) -> float:
    """For so many jobs of the stand-in: all but the last one read what only the last one's plan tells."""
    names = (*(f"iceberg_statement_set#{number}" for number in range(jobs - 1)), "kafka_to_iceberg")

    def changed(path: str, answer: Any) -> Any:
        if path == f"/v1/jobs/{standin.job_id(names[-1])}":
            # Several are read at the same time: those that came behind it would not have to wait.
            _await(lambda: standin.count("/metrics$") >= jobs - 1)
        return _METRICS if path.endswith("/metrics") else answer

    with StandIn(jobs=names, change=changed) as standin:
        command = [sys.executable, "-m", "bench.lineage.memory", standin.url, str(folder / "memory.json")]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        asked = standin.count("/metrics$")
    if done.returncode != 0 or asked < jobs - 1:
        raise RuntimeError(f"{asked:,} of {jobs:,} jobs were asked for metrics:\n{done.stderr[-2000:]}")
    return float(done.stdout.split()[-1])


def _await(reached: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not reached() and time.monotonic() < end:
        time.sleep(0.02)


def _main(url: str, file: str) -> None:
    ingest("frazil-flink", {"connection": {"rest_api_url": url}, "max_workers": 10}, Path(file))
    print(tree(os.getpid())[0].peak_mb)


if __name__ == "__main__":
    _main(*sys.argv[1:])
