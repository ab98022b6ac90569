"""The same jobs on clusters of five releases of Flink, against what their statements say.

The answers are of real clusters (`fixtures/clusters`): JobManager, TaskManager and SQL Gateway, asked by our
reader in the session that made the tables, without what nobody reads. The gateway is of a neighbouring patch
where a release's own is not to be had: 1.16.1 beside 1.16.3, 1.19.1 beside 1.19.3, 1.20.3 beside 1.20.5; so
is the Kafka connector of 1.20, which is that for 1.19. There was no broker: no job with Kafka moved a row.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from tests.lineage.standin import CLUSTERS, StandIn, recorded

from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.read import FlinkReader, Problem
from frazil.lineage.model import Derivation, Direction, JobLineage

RELEASES = sorted(path.stem for path in CLUSTERS.glob("*.json"))
_MARKS = {Derivation.COPY: "", Derivation.TRANSFORMATION: "*", Derivation.AGGREGATION: "+"}

ORDERS, CUSTOMERS = "datagen:default_database.orders", "datagen:default_database.customers"
SHOWN, HOLE = "print:default_database.shown", "blackhole:default_database.hole"
FILES, FILES_OUT = "file:/data/csv", "file:/data/w/files_out"
KAFKA, KAFKA_OUT = "kafka:orders", "kafka:orders_out"
ICE, TOTALS, NOTES = "iceberg:db.orders", "iceberg:db.totals", "iceberg:db.notes"
_DEFAULT = "default_catalog.default_database"
_SET = f"insert-into_{_DEFAULT}.files_out,{_DEFAULT}.k_out,ice.db.orders"

#: By job: what it reads, and for each table that it writes, the columns of each column: `*` computed with,
#: `+` aggregated. Columns that are made of nothing are left out.
Truth = dict[str, tuple[set[str], dict[str, dict[str, str]]]]
TRUTH: Truth = {
    "join": (
        {ORDERS, CUSTOMERS},
        {SHOWN: {"id": "orders.id", "name": "customers.name", "note": "orders.note* customers.city*"}},
    ),
    "window": (
        {ORDERS},
        {HOLE: {"customer_id": "orders.customer_id", "ends": "orders.ts*", "total": "orders.amount+"}},
    ),
    "to_kafka": (
        {ORDERS},
        {KAFKA_OUT: {"id": "orders.id", "customer": "orders.note", "amount": "orders.amount*"}},
    ),
    "kafka_to_iceberg": (
        {KAFKA},
        {ICE: {"id": "orders.id", "customer": "orders.customer*", "amount": "orders.amount"}},
    ),
    "iceberg_totals": ({ICE}, {TOTALS: {"customer": "orders.customer", "total": "orders.amount+"}}),
    "iceberg_v2sink": (
        {ORDERS},
        {ICE: {"id": "orders.id", "customer": "orders.note", "amount": "orders.amount"}},
    ),
    # With two tasks each, which breaks the chains between writers and committers.
    "two_icebergs": (
        {ORDERS},
        {
            ICE: {"id": "orders.id", "customer": "orders.note", "amount": "orders.amount"},
            NOTES: {"note": "orders.note*", "id": "orders.id"},
        },
    ),
    # Jobs that nobody named, so Flink named them after their tables.
    f"insert-into_{_DEFAULT}.files_out": (
        {FILES},
        {FILES_OUT: {"id": "csv.id", "v": "csv.v*", "note": "csv.note"}},
    ),
    _SET: (
        {ORDERS},
        {
            FILES_OUT: {"id": "orders.id", "v": "orders.customer_id", "note": "orders.note"},
            KAFKA_OUT: {"id": "orders.id", "customer": "orders.note", "amount": "orders.amount"},
            ICE: {"id": "orders.id", "customer": "orders.note", "amount": "orders.amount"},
        },
    ),
    # Named by their users, and the filesystem's sink does not say what it writes.
    "files_batch": ({FILES}, {}),
    "statement_set": ({ORDERS}, {SHOWN: {"id": "orders.id", "name": "orders.note"}}),
}
NAMELESS = {"files_batch": "writes Filesystem", "statement_set": "writes StreamingFileWriter"}


@cache
def read(release: str, *, gateway: bool) -> tuple[str, dict[str, JobLineage], list[Problem]]:
    problems: list[Problem] = []
    with StandIn(recorded=recorded(release)) as standin:
        connection = {"rest_api_url": standin.url, "max_retries": 1}
        if gateway:
            connection["sql_gateway_url"] = standin.url
        config = flink_config({"connection": connection})
        with FlinkReader(config, problems.append) as reader:
            jobs = {one.lineage.job.name: one.lineage for one in reader.jobs()}
            return reader.version(), jobs, problems


def _columns(job: JobLineage) -> dict[str, dict[str, set[str]]]:
    found: dict[str, dict[str, set[str]]] = {}
    for edge in job.columns:
        table = edge.upstream.name.replace("/", ".").rpartition(".")[2]
        column = found.setdefault(str(edge.downstream), {}).setdefault(edge.downstream_column, set())
        column.add(f"{table}.{edge.upstream_column}{_MARKS[edge.derivation]}")
    return found


def test_every_release_and_every_job_is_there() -> None:
    assert [release.rpartition(".")[0] for release in RELEASES] == [
        f"flink-{version}" for version in ("1.16", "1.18", "1.19", "1.20", "2.1")
    ]
    for release in RELEASES:
        version, jobs, problems = read(release, gateway=True)
        assert f"flink-{version}" == release
        assert set(jobs) == set(TRUTH)
        assert problems == []


@pytest.mark.parametrize("job", TRUTH)
@pytest.mark.parametrize("release", RELEASES)
def test_a_job_reads_and_writes_what_its_statement_says(release: str, job: str) -> None:
    lineage = read(release, gateway=True)[1][job]
    sources, sinks = TRUTH[job]
    assert {str(dataset) for dataset in lineage.datasets(Direction.READ)} == sources
    assert {str(dataset) for dataset in lineage.datasets(Direction.WRITE)} == set(sinks)
    assert {(str(edge.upstream), str(edge.downstream)) for edge in lineage.edges} == {
        (source, sink) for source in sources for sink in sinks
    }
    assert _columns(lineage) == {
        sink: {column: set(made_of.split()) for column, made_of in columns.items()}
        for sink, columns in sinks.items()
    }
    assert [entry.where for entry in lineage.unresolved] == ([NAMELESS[job]] if job in NAMELESS else [])
    assert lineage.job.state == ("FINISHED" if sources == {FILES} else "RUNNING")
    assert lineage.job.streaming is (job != "files_batch")


@pytest.mark.parametrize("release", RELEASES)
def test_without_a_gateway_a_plan_tells_its_iceberg_tables_and_all_else_is_named(release: str) -> None:
    _, jobs, problems = read(release, gateway=False)
    assert problems == []
    for name, job in jobs.items():
        sources, sinks = TRUTH[name]
        wanted = {table for table in {*sources, *sinks} if table.startswith("iceberg:")}
        assert {str(use.dataset) for use in job.uses} == wanted
        unresolved = [entry.where for entry in job.unresolved if entry.where.startswith(("reads", "writes"))]
        nameless = 1 if name in NAMELESS else 0
        assert len(unresolved) == len(sources) + len(sinks) - len(wanted) + nameless


def test_a_sink_without_a_name_is_reported_with_what_would_name_it() -> None:
    (entry,) = read("flink-1.20.5", gateway=True)[1]["statement_set"].unresolved
    assert "leave pipeline.name unset" in entry.remedy
    assert "lineage.StreamingFileWriter" in entry.remedy


def test_evidence_tells_that_the_jobs_name_was_asked() -> None:
    uses: Any = {str(use.dataset): use for use in read("flink-1.16.3", gateway=True)[1][_SET].uses}
    assert f"the job's name has {_DEFAULT}.files_out" in uses[FILES_OUT].evidence[0].detail
