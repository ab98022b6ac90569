"""The example, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "generic_table.py"
pytestmark = [pytest.mark.jvm, pytest.mark.services, pytest.mark.slow]


def test_it_runs_by_itself(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, str(PROGRAM)],
        env={name: value for name, value in os.environ.items() if name != "LAKEKEEPER"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    told = answer.stdout.splitlines()
    assert told[0].startswith("registered  sensors.readings (parquet) at s3://lake/")
    assert told[-2:] == [
        "refused     pyarrow may not write beside the table",
        "refused     Spark may not read what is above it",
    ]
    assert "Spark       reads 2 of day 1" in told
    assert "Spark       reads 1 of day 2" in told
