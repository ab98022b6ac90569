"""The cluster in devstack; pipelines on it are in tests/cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frazil.devstack.confined import can_confine, confined
from frazil.devstack.spark_cluster import SparkCluster

LOOK = "import pathlib, sys; print(pathlib.Path(sys.argv[1]).read_text())"
WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('ice')"


@pytest.mark.skipif(not can_confine(), reason="no Landlock on this machine")
def test_a_confined_program_sees_only_its_folders(tmp_path: Path) -> None:
    for name in ("own", "shown", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    python = Path(sys.base_prefix, "bin", "python3").resolve()
    system = ["/usr", "/lib", "/lib64", "/etc", str(python.parent.parent)]

    def run(program: str, folder: str) -> subprocess.CompletedProcess[str]:
        inner = [str(python), "-I", "-c", program, str(tmp_path / folder / "file")]
        command = confined(inner, read=[*system, str(tmp_path / "shown")], write=[str(tmp_path / "own")])
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")

    assert run(LOOK, "own").stdout == "own\n"
    assert run(LOOK, "shown").stdout == "shown\n"
    assert "PermissionError" in run(LOOK, "hidden").stderr
    assert run(WRITE, "own").returncode == 0
    assert "PermissionError" in run(WRITE, "shown").stderr
    assert (tmp_path / "own" / "file").read_text() == "ice"
    assert (tmp_path / "shown" / "file").read_text() == "shown"


@pytest.mark.slow
@pytest.mark.services
@pytest.mark.jvm
def test_workers_come_and_go() -> None:
    with SparkCluster(workers=1) as cluster:
        (worker,) = cluster.workers
        assert [known["port"] for known in cluster.state()["workers"]] == [worker.port]
        assert (cluster.secret_file.stat().st_mode & 0o777, cluster.secret_file.read_text()) == (
            0o600,
            cluster.secret,
        )
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (cluster.pid, worker.pid)]
        assert not any(cluster.secret.encode() in command for command in commands)
        worker.kill()
        assert not worker.running
        assert cluster.healthy()
    assert not cluster.running
    assert not cluster.directory.exists()
