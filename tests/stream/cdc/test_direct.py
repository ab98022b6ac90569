"""PostgreSQL at work and its copy, with no Kafka between; every row is compared, by three engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.stream.cdc.compare import Readers
from tests.stream.cdc.sources import PostgresDatabase
from tests.stream.cdc.test_databases import compact, landed
from tests.stream.cdc.workload import WEIGHTS, Workload
from tests.stream.crash.runs import Run

from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.postgres import Postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def config(database: PostgresDatabase, server: FrazilServer, version: int) -> dict[str, Any]:
    postgres = {
        "host": "127.0.0.1",
        "port": database.server.port,
        "database": database.name,
        "user": database.server.user,
        "password": database.server.password,
        "tables": "public.*",
    }
    return {
        "catalog": {"uri": server.uri},
        "spark": {"master": "local[2]"},
        "pipelines": {
            database.name.replace("_", "-"): {
                "source": {"postgres": postgres},
                "table": f"{database.name}.{{table}}",
                "format_version": version,
                "freshness": "500ms",
                "limits": {"records_per_round": 100, "records_per_task": 10},
            }
        },
    }


# Seeds with which every kind of step comes.
@pytest.mark.exhaustive
@pytest.mark.parametrize(("version", "seed"), [(3, 17), (2, 18)], ids=["3", "2"])
def test_a_copy_of_a_database(
    version: int, seed: int, postgres_source: Postgres, frazil_sqlite: FrazilServer, spark: SparkSession
) -> None:
    """With kill -9 of the pipeline, a crash of the server, and a compaction, in the middle."""
    with PostgresDatabase(postgres_source) as database:
        workload = Workload(database, seed=seed)
        workload.create()
        first = sum(len(database.rows(table)) for table in workload.tables)
        given = config(database, frazil_sqlite, version)
        with Run(given) as run:
            landed(run, first)
            workload.run(60)
            landed(run, first + 60)
            run.process.kill()
        workload.run(30)
        postgres_source.kill()
        postgres_source.start()
        database.disconnect()
        workload.run(30)
        with Run(given) as run, Readers(frazil_sqlite, spark) as readers:
            landed(run, 40)
            workload.run(30)
            compact(spark, database.name, workload.tables[0])
            workload.run(30)
            assert workload.kinds >= WEIGHTS.keys()
        with Run(given, "--once") as run, Readers(frazil_sqlite, spark) as readers:
            assert run.wait() == 0, run.story()
            readers.compare(database, workload.tables, namespace=database.name)
