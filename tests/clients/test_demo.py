"""`frazil demo`: what it prints for scripts, that it stays up when asked to, and that it cleans up."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.clients.support import call

from frazil.cli.main import cli


@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.slow
def test_it_runs_stays_up_and_cleans_up(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "frazil.cli", "demo", "--json", "--keep", "--seconds", "4"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            break
    try:
        assert lines, process.communicate()[1]
        document = json.loads("".join(lines))
        steps = {step["step"]: step for step in document["steps"]}
        assert list(steps) == [
            "services",
            "warehouse",
            "produce",
            "plan",
            "run",
            "spark",
            "pyiceberg",
            "duckdb",
            "sensors",
            "verify",
            "hot",
        ]
        produced = steps["run"]["produced"]
        assert produced > steps["produce"]["orders"] == 50_000
        assert {steps[name]["orders"] for name in ("spark", "pyiceberg", "duckdb")} == {produced}
        assert len({steps[name]["amount"] for name in ("spark", "pyiceberg", "duckdb")}) == 1
        assert steps["services"]["s3"] is True
        assert steps["sensors"]["files"] > 1
        assert steps["sensors"]["readings"] > 100
        looks = [(look["union"], look["iceberg"]) for look in steps["hot"]["looks"]]
        assert [union for union, _ in looks[:4]] == [1000, 2000, 2000, 1500]
        assert looks[0][1] == 0, "the union read has rows that Iceberg has not"
        assert any(union != iceberg for union, iceberg in looks[1:])
        assert looks[-1] == (1500, 1500), "both are the same after the commit"
        status, info = call("GET", f"{document['uri']}/management/v1/info")
        assert (status, info["bootstrapped"]) == (200, True)
        process.send_signal(signal.SIGINT)
        story = process.communicate(timeout=180)[1]
    finally:
        process.kill()
    assert process.returncode == 0, story
    assert f"Log and engines agree on {produced:,} orders" in story
    assert re.search(r"put 1,000 +1,000 +0\n", story)
    assert f"spark.sql.catalog.lake.uri={document['uri']}/catalog" in story
    # Spark's own chatter does not get between the lines.
    assert "WARN" not in story
    with pytest.raises(OSError, match="refused"):
        call("GET", document["uri"])
    assert [path for path in tmp_path.iterdir() if path.name.startswith("frazil-")] == []


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 1
    assert "the demo needs pyspark: pip install 'frazil[demo]'" in str(result.exception)
