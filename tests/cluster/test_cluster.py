"""Pipelines on a standalone cluster: no disk in common, keys that nobody reads, a worker that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.stream.crash import world
from tests.stream.crash.conftest import bucket_shelf
from tests.stream.crash.records import Feed
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, caught_up, fresh

import frazil
from frazil.devstack.confined import can_confine
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore
from frazil.devstack.spark_cluster import SparkCluster
from frazil.jvm.java import java_home

pytestmark = [pytest.mark.slow, pytest.mark.services, pytest.mark.jvm]

#: Kafka has no use for it; it goes where all of Kafka's settings go.
MARK = "a-password-that-is-nowhere-else"
PIPELINE = """
kafka: {bootstrap.servers: "127.0.0.1:1"}
pipelines:
  orders: {source: {topics: orders}, table: shop.orders, schema: {id: long}}
"""
#: By way of a shuffle, whose files a dead worker takes along.
SHUFFLED = "SELECT id, part, seq, at, note FROM source DISTRIBUTE BY id"
TRANSFORMS = (Path(__file__).parent / "transforms.py").read_text()


@pytest.fixture(scope="module")
def shelf(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Shelf:
    return bucket_shelf(frazil_sqlite, object_store)


@pytest.fixture
def feed(kafka: Kafka) -> Feed:
    return Feed(kafka.bootstrap_servers, kafka.create_topic(fresh("cluster"), partitions=2), 2)


def config(*lines: Line) -> dict[str, Any]:
    found = world.config(*lines)
    found["kafka"]["sasl.password"] = MARK
    found["spark"] = {
        "settings": {
            # Executors have to find the driver, and nobody else shall.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            # Of files on a worker that is gone.
            "spark.shuffle.io.retryWait": "1s",
        }
    }
    return found


def test_pipelines_outlive_a_worker(cluster: SparkCluster, shelf: Shelf, feed: Feed) -> None:
    fused = Line(fresh("fused"), shelf, feed, records_per_round=500)
    sql = Line(fresh("sql"), shelf, feed, records_per_round=500)
    witness = Line(fresh("witness"), shelf, feed, records_per_round=10_000, partitioning=())
    written = config(fused, sql, witness)
    written["pipelines"][sql.name]["transform"] = SHUFFLED
    written["pipelines"][witness.name]["transform"] = {"python": "transforms:witness"}
    feed.produce(3000)
    options = ("--master", cluster.master, "--secret-file", str(cluster.secret_file))
    modules = {"transforms.py": TRANSFORMS, "elsewhere.py": "WORD = 'ice'\n"}
    with Run(written, *options, command="submit", modules=modules) as run:
        for line in (fused, sql):
            run.until_event("round-committed", 2, line.name)
        run.until(lambda: all(executors(cluster, number) for number in (0, 1)), "executors on both workers")
        cluster.workers[0].kill()
        # All that there was may be done by now.
        feed.produce(1000)
        for line in (fused, sql):
            caught_up(run, line)
        log = run.directory / "spark.log"
        run.until(lambda: "Lost executor" in log.read_text(errors="replace"), "the driver to notice")
        run.until_event("round-committed", 1, witness.name)
        assert not in_files(cluster)
        assert not in_commands(cluster.secret, MARK)
        run.signal(signal.SIGTERM)
        assert run.wait() == 0, run.story()
        check_witness(cluster, shelf, witness.table, run.directory)
    cluster.workers[0].start()


@pytest.mark.exhaustive
def test_spark_submit_does_what_the_dry_run_says(
    cluster: SparkCluster, shelf: Shelf, feed: Feed, tmp_path: Path
) -> None:
    """The command for other cluster managers is made the same way; those are not run."""
    line = Line(fresh("submitted"), shelf, feed)
    feed.produce(300)
    file = tmp_path / "pipelines.yaml"
    file.write_text(json.dumps(config(line)))
    options = ["--master", cluster.master, "--secret-file", str(cluster.secret_file), "--once"]
    command = [sys.executable, "-m", "frazil.cli", "submit", str(file), *options, "--dry-run", "--json"]
    shown = json.loads(subprocess.run(command, capture_output=True, check=True, cwd=tmp_path).stdout)
    assert shown["withheld"] == ["spark.authenticate.secret"]
    defaults = tmp_path / "spark-defaults.conf"
    defaults.touch(0o600)
    defaults.write_text(f"spark.authenticate.secret {cluster.secret}\n")
    program, *words = shown["command"]
    home = Path(pyspark.__file__).parent
    done = subprocess.run(
        [home / "bin" / program, *words],
        env=os.environ
        | {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(tmp_path), "JAVA_HOME": str(java_home())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "rows in" in done.stdout
    line.check()


@pytest.mark.exhaustive
def test_python_data_sources_are_planned_here_and_read_there(cluster: SparkCluster, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(PIPELINE)
    program = Path(__file__).parent / "data_source.py"
    done = subprocess.run(
        [sys.executable, program, file, cluster.master, cluster.secret_file],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    planned, read = json.loads(done.stdout)
    assert planned == frazil.__file__
    assert read.startswith(str(cluster.directory))


def executors(cluster: SparkCluster, number: int) -> list[Path]:
    return list(cluster.workers[number].work.glob("app-*/*"))


def check_witness(cluster: SparkCluster, shelf: Shelf, table: str, driver: Path) -> None:
    """What the tasks of a worker saw was sent to them, or is on every machine."""
    found = shelf.load(table).scan().to_arrow()
    seen = [json.loads(text) for text in set(found.column("seen").to_pylist())]
    assert seen
    machine = (*map(str, (cluster.directory, sys.base_prefix)), "/usr/", "/lib", "/dev/", "/memfd:")
    for one in seen:
        assert one["frazil"] == f"{one['cwd']}/code/frazil/__init__.py"
        assert one["beside"] == "ice"
        strange = [path for path in one["files"] if not path.startswith(machine)]
        assert not strange
        assert not any(path.startswith(str(driver)) for path in one["files"])
        if can_confine():
            assert one["ours"] == "PermissionError"


def in_files(cluster: SparkCluster) -> list[str]:
    """Where executors hold a secret in the clear."""
    wanted = [cluster.secret.encode(), MARK.encode(), b"s3.secret-access-key"]
    found = []
    for path in held(cluster):
        # Executors are at work: what they needed for a round is deleted meanwhile.
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            found += [f"{path}: {word.decode()}" for word in wanted if word in content]
    return found


def held(cluster: SparkCluster) -> Iterator[Path]:
    """The files of workers, but for those that were unpacked for them: these name keys in their source."""
    for worker in cluster.workers:
        # It passes over folders that vanish.
        for folder, _, names in os.walk(worker.directory):
            for path in (Path(folder, name) for name in names):
                sent = {"code", "packages", "spark"}.intersection(path.relative_to(worker.directory).parts)
                if path.is_file() and not sent and path.suffix not in (".jar", ".gz"):
                    yield path


def in_commands(*secrets: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue
        found += [secret for secret in secrets if secret.encode() in words]
    return found
