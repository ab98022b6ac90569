"""Databases at work and their copies: in the end every row is compared, by three engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from tests.stream.cdc.compare import Readers
from tests.stream.cdc.sources import MariaDbSource, PostgresSource, Source
from tests.stream.cdc.workload import WEIGHTS, Workload
from tests.stream.crash.runs import Run

from frazil.devstack.connect import KafkaConnect
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]
#: The registry has other APIs as well: Debezium is told of one, and frazil of this.
_CONFLUENT = "/apis/ccompat/v7"
#: Of one the region is part of the key, of the other it is not: what is deleted may be in any partition.
_BY_REGION = ("customers", "orders")


@pytest.fixture
def source(request: pytest.FixtureRequest, kafka: Kafka, connect: KafkaConnect) -> Iterator[Source]:
    """By database and the form of messages."""
    database, form = request.param
    registry: str | None = None
    if form == "avro":
        registry = f"http://127.0.0.1:{request.getfixturevalue('registry').port}"
    made: Source
    if database == "postgres":
        server = request.getfixturevalue("postgres_source")
        made = PostgresSource(server, kafka, connect, format=form, registry=registry)
    else:
        server = request.getfixturevalue("mariadb")
        made = MariaDbSource(server, kafka, connect, format=form, registry=registry)
    with made:
        yield made


def config(source: Source, server: FrazilServer, version: int) -> dict[str, Any]:
    avro = source.capture.format == "avro"
    encoded = {"registry": f"{source.capture.registry}{_CONFLUENT}"} if avro else {}
    name, topics = source.name.replace("_", "-"), f"{source.name}\\.{source.namespace}\\."
    line = {
        "format": {"debezium": {"encoding": "avro" if avro else "json"}},
        **encoded,
        "table": f"{source.name}.{{table}}",
        "format_version": version,
        "freshness": "500ms",
        "limits": {"records_per_round": 100, "records_per_task": 10},
    }
    return {
        "catalog": {"uri": server.uri},
        "kafka": {"bootstrap.servers": source.kafka.bootstrap_servers},
        "spark": {"master": "local[2]"},
        "pipelines": {
            name: {"source": {"pattern": f"{topics}(?!({'|'.join(_BY_REGION)})$).*"}, **line},
            # Updates move their rows from partition to partition.
            f"{name}-by-region": {
                "source": {"pattern": f"{topics}({'|'.join(_BY_REGION)})"},
                "partitioning": ["region"],
                **line,
            },
        },
    }


def landed(run: Run, records: int) -> None:
    """Wait until the run has taken so many records more."""

    def enough() -> bool:
        assert run.process.poll() is None, run.story()
        return bool(sum(event["read"] for event in run.events("round-committed")) >= records)

    run.until(enough, f"{records} records")


@pytest.mark.parametrize(
    ("source", "version", "seed"),
    [
        # Seeds with which every kind of step comes.
        pytest.param(("postgres", "json-schema"), 3, 12, id="postgres"),
        pytest.param(("mariadb", "json-schema"), 2, 11, id="mariadb"),
        pytest.param(("postgres", "avro"), 2, 15, id="postgres-2", marks=pytest.mark.exhaustive),
        pytest.param(("mariadb", "avro"), 3, 13, id="mariadb-3", marks=pytest.mark.exhaustive),
    ],
    indirect=["source"],
)
def test_a_copy_of_a_database(
    source: Source,
    version: int,
    seed: int,
    connect: KafkaConnect,
    frazil_sqlite: FrazilServer,
    spark: SparkSession,
) -> None:
    """With kill -9 of the pipeline and of the connector, and a compaction, in the middle."""
    workload = Workload(source, seed=seed)
    workload.create()
    source.start()
    given = config(source, frazil_sqlite, version)
    with Run(given) as run:
        workload.run(60)
        landed(run, 60)
        run.process.kill()
    workload.run(30)
    connect.kill()
    workload.run(30)
    connect.start()
    with Run(given) as run, Readers(frazil_sqlite, spark) as readers:
        landed(run, 40)
        workload.run(30)
        compact(spark, source.name, workload.tables[0])
        workload.run(30)
        assert workload.kinds >= WEIGHTS.keys()
        source.settle()
    with Run(given, "--once") as run, Readers(frazil_sqlite, spark) as readers:
        assert run.wait() == 0, run.story()
        readers.compare(source, workload.tables, namespace=source.name)


def compact(spark: SparkSession, namespace: str, table: str) -> None:
    """As somebody else would, beside the pipeline; where the two meet, this one is refused."""
    for _ in range(20):
        try:
            spark.sql(
                f"CALL compare.system.rewrite_data_files(table => '{namespace}.{table}', "
                "options => map('rewrite-all', 'true', 'use-starting-sequence-number', 'false'))"
            )
            return
        except Py4JJavaError as error:
            assert "conflicted" in str(error)  # noqa: PT017 - one of many tries
    raise AssertionError("the compaction met the pipeline at every try")
