"""Keep the classes of Spark in a form that a JVM maps into memory: `tools/class_archive.py FILE`.

Tests start some hundred JVMs that live for seconds, and most of that time would go into reading classes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

import frazil
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.session import spark_session, spark_settings

_PATIENCE = 120


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        written = Path(directory) / archive.name
        # What a JVM has loaded by its end.
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={written} -XX:+UseSerialGC -Xlog:disable"
        with FrazilServer() as server:
            _work(server)
            java = SparkContext._gateway  # noqa: SLF001 - there is no other way to its process
            assert java is not None
            java.shutdown()
            java.proc.stdin.close()
            java.proc.wait(_PATIENCE)
        # Not every Java can; tests then take longer.
        if written.is_file():
            written.replace(archive)


def _work(server: FrazilServer) -> None:
    """Some of everything that tests do."""
    settings = spark_settings(server.catalog_uri) | {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    spark = spark_session(settings)
    spark.range(1000).selectExpr("id % 7 AS k", "id").groupBy("k").sum("id").orderBy("k").collect()
    spark.range(10).mapInArrow(lambda batches: batches, "id BIGINT").toArrow()
    readings = frazil.Pipeline(
        "readings",
        source={"sensors": {"records": 100, "rate": 1_000_000}},
        table="classes.readings",
        freshness="1s",
    )
    frazil.run(readings, catalog={"uri": server.uri}, spark=spark, once=True)
    spark.sql("SELECT sensor_id, count(*) FROM frazil.classes.readings GROUP BY 1 ORDER BY 1").collect()
    spark.sql("CREATE TABLE frazil.classes.copy AS SELECT * FROM frazil.classes.readings")
    spark.sql("DELETE FROM frazil.classes.copy WHERE sensor_id = 'sensor-1'")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
