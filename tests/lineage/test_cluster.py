"""Jobs on a real Flink cluster with Kafka, PostgreSQL and, through frazil's catalog, Iceberg.

What each job really does is written by hand in `bench.lineage.jobs`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench.lineage import jobs
from bench.lineage.jobs import JOBS
from bench.lineage.place import ROWS, Place, cluster
from bench.lineage.score import Said, Score, flows, score, truth
from pyiceberg.catalog.rest import RestCatalog

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.postgres import Postgres
from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.read import FlinkReader, Problem
from frazil.lineage.model import Derivation, Direction, JobLineage

pytestmark = pytest.mark.slow

_MARKS = {Derivation.COPY: "", Derivation.TRANSFORMATION: "*", Derivation.AGGREGATION: "+"}


@pytest.fixture(scope="module")
def place(kafka: Kafka, frazil_sqlite: FrazilServer, postgres: Postgres) -> Iterator[Place]:
    with cluster(kafka, frazil_sqlite, postgres) as found:
        yield found


def read(settings: dict[str, Any]) -> dict[str, JobLineage]:
    problems: list[Problem] = []
    with FlinkReader(flink_config(settings), problems.append) as reader:
        found = {one.lineage.job.name: one.lineage for one in reader.jobs()}
    assert problems == []
    return found


def scored(lineages: dict[str, JobLineage]) -> Score:
    return score({name: said(lineage) for name, lineage in lineages.items()})


def said(lineage: JobLineage) -> Said:
    return Said(
        frozenset(map(str, lineage.datasets(Direction.READ))),
        frozenset(map(str, lineage.datasets(Direction.WRITE))),
        frozenset(
            (
                str(edge.upstream),
                edge.upstream_column,
                str(edge.downstream),
                edge.downstream_column,
                _MARKS[edge.derivation],
            )
            for edge in lineage.columns
        ),
    )


@pytest.mark.parametrize("gateway", [True, False], ids=["gateway", "no gateway"])
def test_every_source_sink_and_column(place: Place, gateway: bool) -> None:
    lineages = read(place.settings(gateway=gateway, told=True))
    found = scored(lineages)
    assert (found.wrong, found.missing) == ([], [])
    for job in JOBS:
        edges = {(str(edge.upstream), str(edge.downstream)) for edge in lineages[job.name].edges}
        assert edges == flows(job), job.name
        assert lineages[job.name].unresolved == ()
        assert lineages[job.name].job.state == job.state


@pytest.mark.parametrize("gateway", [True, False], ids=["gateway", "no gateway"])
def test_what_nothing_names_is_reported_and_not_guessed(place: Place, gateway: bool) -> None:
    """Without the tables of the jobs' own session. Catalogs are seen through the gateway alone."""
    lineages = read(place.settings(gateway=gateway, told=False))
    assert scored(lineages).wrong == []
    seen = ("iceberg:", "postgres:") if gateway else ("iceberg:",)
    from_catalogs = ("iceberg_to_iceberg", "jdbc_read") if gateway else ("iceberg_to_iceberg",)
    for job in JOBS:
        right, answer = truth(job), said(lineages[job.name])
        assert answer.writes == {name for name in right.writes if name.startswith(seen)}, job.name
        assert answer.reads == (right.reads if job.name in from_catalogs else set()), job.name
        missing = (right.reads - answer.reads) | (right.writes - answer.writes)
        reported = {item.endpoint for item in lineages[job.name].unresolved}
        assert len(reported) >= len(missing), job.name


def test_the_brokers_tell_which_topic_a_metric_means(place: Place) -> None:
    brokers = {"bootstrap.servers": place.kafka.bootstrap_servers}
    settings = place.settings(gateway=False, told=False) | {"kafka": brokers}
    deadline = time.monotonic() + 120
    # Flink collects metrics some time after it was first asked for them.
    while not said((lineages := read(settings))["running"]).reads and time.monotonic() < deadline:
        time.sleep(0.2)
    assert said(lineages["running"]).reads == {f"kafka:{jobs.ORDERS}"}
    assert scored(lineages).wrong == []


def test_the_catalog_knows_which_tables_a_job_wrote(place: Place) -> None:
    with Client(place.server.uri) as client:
        for job in JOBS:
            tables = {
                f"iceberg:{'.'.join(table.namespace)}.{table.name}"
                for table in client.jobs.tables("flink", place.ids[job.name])
            }
            written = {name for name in truth(job).writes if name.startswith("iceberg:")}
            assert tables == (written if job.state == "FINISHED" else set()), job.name


def test_rows_that_flink_wrote_through_the_catalog(place: Place) -> None:
    catalog = RestCatalog("test", uri=place.server.catalog_uri)
    appended = catalog.load_table(f"{jobs.NAMESPACE}.orders").scan().to_arrow()
    assert sorted(appended["order_id"].to_pylist()) == list(range(ROWS))
    # PyIceberg does not read the deletes by key that Flink's upserts leave. Flink's reading is a job, too.
    place.flink.execute("SET 'pipeline.name'='select'")
    upserted = place.flink.execute(f"SELECT customer_id, order_id FROM ice.{jobs.NAMESPACE}.latest")
    assert sorted(upserted) == [[customer, ROWS - 5 + customer] for customer in range(5)]
