"""`frazil submit` as far as it gets without a cluster: what is packed, and what Spark is told."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command

from frazil.jvm.jars import SPARK_ICEBERG, jars
from frazil.stream.packing import python_tag

pytestmark = pytest.mark.slow

FILE = """
kafka: {bootstrap.servers: "127.0.0.1:1"}
pipelines:
  orders: {source: {topics: orders}, table: shop.orders, schema: {id: long}}
  clicks: {source: {topics: clicks}, table: shop.clicks, schema: {id: long}}
"""
KUBERNETES = ("--conf", "spark.kubernetes.container.image=spark:4.1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "pipelines.yaml"
    found.write_text(FILE)
    return found


def dry_run(command: Command, file: Path, *options: str) -> dict[str, Any]:
    shown = command("submit", str(file), *options, "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def settings(found: dict[str, Any]) -> dict[str, str]:
    words = found["command"]
    pairs = [words[number + 1] for number, word in enumerate(words) if word == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_yarn(command: Command, file: Path) -> None:
    found = dry_run(command, file, "orders", "--master", "yarn", "--deploy-mode", "cluster", "--once")
    words = found["command"]
    assert words[:7] == ["spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "frazil"]
    assert words[words.index("--files") + 1] == str(file)
    assert words[words.index("--jars") + 1] == ",".join(map(str, jars(SPARK_ICEBERG)))
    # On the cluster the file lies in the driver's own folder.
    assert words[-4:] == ["run", "pipelines.yaml", "orders", "--once"]
    assert Path(words[-5]).read_text() == "from frazil.cli import main\n\nmain()\n"
    packages, code = found["archives"]
    assert settings(found) == {
        "spark.archives": f"{packages}#packages,{code}#code",
        "spark.executorEnv.PYTHONPATH": "code:packages",
        "spark.yarn.appMasterEnv.PYTHONPATH": "code:packages",
        "spark.pyspark.python": python_tag(),
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    }
    assert found["packages"]["pyarrow"]
    assert found["bytes"] == sum(Path(path).stat().st_size for path in (packages, code))


def test_kubernetes(command: Command, file: Path) -> None:
    place = ("--conf", "spark.kubernetes.file.upload.path=s3a://bucket/spark")
    cluster = ("--master", "k8s://https://head:6443", "--deploy-mode", "cluster")
    found = settings(dry_run(command, file, *cluster, *KUBERNETES, *place))
    assert found["spark.kubernetes.driverEnv.PYTHONPATH"] == "code:packages"
    assert found["spark.kubernetes.file.upload.path"] == "s3a://bucket/spark"
    assert found["spark.kubernetes.container.image"] == "spark:4.1"
    failed = command("submit", str(file), *cluster, *KUBERNETES, "--dry-run")
    assert failed.returncode == 1
    assert "Kubernetes needs spark.kubernetes.file.upload.path" in failed.stderr
    # A driver here uploads nothing, and has its own Python.
    here = dry_run(command, file, "--master", "k8s://https://head:6443", *KUBERNETES)
    assert settings(here)["spark.pyspark.driver.python"] == sys.executable
    assert here["command"][-2:] == ["run", str(file)]


def test_a_standalone_cluster_wants_its_secret(command: Command, file: Path, tmp_path: Path) -> None:
    address = ("--master", "spark://head:7077")
    failed = command("submit", str(file), *address, "--dry-run")
    assert failed.returncode == 1
    assert "--secret-file" in failed.stderr
    secret = tmp_path / "secret"
    secret.write_text("melt-water\n")
    found = dry_run(command, file, *address, "--secret-file", str(secret))
    assert found["withheld"] == ["spark.authenticate.secret"]
    assert "melt-water" not in json.dumps(found)
    plain = command("submit", str(file), *address, "--secret-file", str(secret), "--dry-run")
    assert "Not on the command line: spark.authenticate.secret" in plain.stdout
    open_one = settings(dry_run(command, file, *address, "--insecure"))
    assert open_one["spark.authenticate"] == open_one["spark.network.crypto.enabled"] == "false"
    assert open_one["spark.io.encryption.enabled"] == "true"


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\x8b", b"two\nlines"])
def test_a_file_that_holds_no_secret(command: Command, file: Path, tmp_path: Path, content: bytes) -> None:
    """Also not with --insecure: whoever names a file does not mean to go without."""
    secret = tmp_path / "secret"
    secret.write_bytes(content)
    options = ("--master", "spark://head:7077", "--secret-file", str(secret), "--insecure", "--dry-run")
    failed = command("submit", str(file), *options)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"frazil: --secret-file {secret}: it holds no secret")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "'local[*]' is no cluster"),
        (("--master", "mesos://head:5050"), "'mesos://head:5050' is no cluster"),
        (("--master", "yarn", "--conf", "spark.x"), "write --conf spark.KEY=VALUE"),
        (("--master", "yarn", "--conf", "spark.hadoop.fs.s3a.secret.key=melt-water"), "under spark.settings"),
    ],
)
def test_what_is_refused(command: Command, file: Path, options: tuple[str, ...], reason: str) -> None:
    failed = command("submit", str(file), *options, "--dry-run")
    assert failed.returncode == 1
    assert reason in failed.stderr
    assert "melt-water" not in failed.stderr


def test_no_python_driver_on_a_standalone_cluster(command: Command, file: Path) -> None:
    options = ("--master", "spark://head:7077", "--insecure", "--deploy-mode", "cluster")
    failed = command("submit", str(file), *options)
    assert failed.returncode == 1
    assert "Spark runs no Python driver on a standalone cluster" in failed.stderr


def test_secrets_do_not_reach_spark_submit(command: Command, file: Path) -> None:
    file.write_text("spark: {settings: {spark.hadoop.fs.s3a.secret.key: melt-water}}\n" + FILE)
    options = ("--master", "yarn", "--deploy-mode", "cluster")
    found = dry_run(command, file, *options)
    assert found["withheld"] == ["spark.hadoop.fs.s3a.secret.key"]
    assert "melt-water" not in json.dumps(found)
    failed = command("submit", str(file), *options)
    assert failed.returncode == 1
    assert "secrets do not go on the command line" in failed.stderr


def test_cluster_mode_starts_spark_submit(command: Command, file: Path, tmp_path: Path) -> None:
    options = ("--master", "yarn", "--deploy-mode", "cluster", "--once")
    program = tmp_path / "bin" / "spark-submit"
    nothing = command("submit", str(file), *options, environment={"SPARK_HOME": str(tmp_path)})
    assert nothing.returncode == 1
    assert f"there is no {program}" in nothing.stderr
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\nexit 3\n')
    program.chmod(0o755)
    assert command("submit", str(file), *options).returncode == 3
    words = (tmp_path / "words").read_text().splitlines()
    assert ["spark-submit", *words] == dry_run(command, file, *options)["command"]


def test_the_command_can_be_pasted(command: Command, file: Path) -> None:
    shown = command("submit", str(file), "--master", "yarn", "--dry-run", "--metrics-port", "9100").stdout
    assert "spark-submit \\\n  --master yarn \\\n  --deploy-mode client \\\n" in shown
    assert shown.rstrip().endswith("--metrics-port 9100")


def test_archives_of_ones_own_come_along(command: Command, file: Path) -> None:
    own = ("--conf", "spark.archives=model.zip#model", "--conf", "spark.executorEnv.PYTHONPATH=model")
    found = dry_run(command, file, "--master", "yarn", *own)
    packages, code = found["archives"]
    assert settings(found)["spark.archives"] == f"{packages}#packages,{code}#code,model.zip#model"
    assert settings(found)["spark.executorEnv.PYTHONPATH"] == "code:packages:model"


def test_a_free_port_is_asked_for(command: Command, file: Path) -> None:
    options = ("--master", "yarn", "--deploy-mode", "cluster", "--metrics-port", "0")
    assert dry_run(command, file, *options)["command"][-2:] == ["--metrics-port", "0"]


def test_a_schema_beside_the_file_does_not_come_along(command: Command, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(
        '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}]}'
    )
    file = tmp_path / "avro.yaml"
    file.write_text("""
kafka: {bootstrap.servers: "127.0.0.1:1"}
pipelines:
  orders: {source: {topics: orders}, format: {avro: {schema_file: order.avsc}}, table: shop.orders}
""")
    refused = command("submit", str(file), "--master", "yarn", "--deploy-mode", "cluster", "--dry-run")
    assert refused.returncode == 1
    assert "has a schema_file, which a driver on the cluster does not see" in refused.stderr
    assert dry_run(command, file, "--master", "yarn")["command"]
