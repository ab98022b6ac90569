"""`frazil reset` and `frazil verify` as somebody types them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.running import clean_environment
from tests.stream.trail import Trail

from frazil.stream.config import load_pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frazil(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "frazil.cli", *arguments],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_verify_and_reset(kafka: Any, spark: SparkSession, frazil_sqlite: Any, tmp_path: Path) -> None:
    trail = Trail.make(kafka, spark, frazil_sqlite)
    name = trail.config.name
    file = tmp_path / "pipelines.yaml"
    document = {
        "catalog": {"uri": frazil_sqlite.uri},
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
        "spark": {"master": "local[1]"},
        "pipelines": {
            name: {
                "source": {"topics": [trail.topic]},
                "schema": {"id": "long required", "word": "string", "tags": "list<int>"},
                "table": f"trail.{trail.config.table.name}",
            }
        },
    }
    file.write_text(json.dumps(document))
    trail.config = replace(load_pipelines(file).pipelines[0], freshness=0.1)
    trail.produce(20)
    trail.run()

    verified = frazil("verify", str(file))
    assert verified.returncode == 0, verified.stderr
    assert verified.stdout.startswith(f"{name}: ok\n")
    assert "20 rows are those of the log" in verified.stdout
    assert f"{trail.topic}-1: offsets 0 to 10, 10 records" in verified.stdout

    asked = frazil("reset", str(file), name, "--to-offsets", f"{trail.topic}=0:4")
    assert asked.returncode == 2
    assert "6 offsets are read again" in asked.stdout
    assert "--yes" in asked.stderr
    assert trail.stamp().positions[trail.topic].next == (10, 10)

    done = frazil("reset", str(file), name, "--to-offsets", f"{trail.topic}=0:4", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["read-again"], told["left-out"], told["epoch"]) == (6, 0, trail.stamp().epoch)
    assert trail.stamp().positions[trail.topic].next == (4, 10)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--to-stamp", "x"],
        ["--to-time", "noon"],
        ["--to-offsets", "latest", "--to-stamp"],
        ["--to-offsets", "x"],
    ],
)
def test_where_to_must_be_said_once_and_well(arguments: list[str], tmp_path: Path) -> None:
    done = frazil("reset", str(tmp_path / "none.yaml"), "orders", *arguments)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "none.yaml" not in done.stderr
