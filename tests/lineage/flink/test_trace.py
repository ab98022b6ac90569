"""Plans of real jobs in five releases of Flink, against what their statements say.

Those of 2.1.3 are a JobManager's answers to `/jobs/:id`. Those of the older releases were made by each
release's own planner and plan generator (what its JobManager answers with), without starting a cluster.
What clusters of all five answered is in `test_releases.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.lineage.flink.truth import TRUTH, UNTOLD

from frazil.core.errors import InvalidInput
from frazil.lineage.flink.plan.reading import read_plan
from frazil.lineage.flink.trace import trace
from frazil.lineage.model import Derivation, Direction, Endpoint, OutputColumn, TracedJob

FIXTURES = Path(__file__).parents[1] / "fixtures"
#: By release, then by job: the statement, and the answer of `/jobs/:id` without times and counts.
PLANS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text()) for path in sorted((FIXTURES / "plans").glob("*.json"))
}
CAPTURED = [(release, job) for release, jobs in PLANS.items() for job in jobs]
_MARKS = {Derivation.COPY: "", Derivation.TRANSFORMATION: "*", Derivation.AGGREGATION: "+"}


def _traced(release: str, job: str) -> TracedJob:
    return trace(read_plan(PLANS[release][job]["answer"]))


def _written(column: OutputColumn, names: dict[str, str]) -> frozenset[str]:
    return frozenset(
        ".".join((names[read.endpoint], read.column, *read.path)) + _MARKS[read.derivation]
        for read in column.inputs
    )


def _sinks(traced: TracedJob) -> dict[str, list[list[tuple[frozenset[str], str | None]]]]:
    """For each sink's name and writer, its columns in order: what they are made of, why that is not all."""
    names = {endpoint.id: endpoint.name for endpoint in traced.endpoints}
    found: dict[str, list[list[tuple[frozenset[str], str | None]]]] = {}
    for endpoint in traced.endpoints:
        if endpoint.direction is Direction.WRITE:
            columns = [column for column in traced.columns if column.endpoint == endpoint.id]
            found.setdefault(endpoint.name, []).append(
                [(_written(column, names), column.unknown) for column in columns]
            )
    return found


@pytest.mark.parametrize(("release", "job"), [pair for pair in CAPTURED if pair[1] in TRUTH])
def test_every_column_is_made_of_what_the_statement_says(release: str, job: str) -> None:
    traced = _traced(release, job)
    found = _sinks(traced)
    assert {sink: len(writers) for sink, writers in found.items()} == {
        sink: len(writers) for sink, writers in TRUTH[job].items()
    }
    for sink, writers in TRUTH[job].items():
        wanted = [[(frozenset(column.split()), None) for column in columns] for columns in writers]
        assert found[sink] == wanted, PLANS[release][job]["statement"]
    assert traced.unresolved == ()


@pytest.mark.parametrize(("release", "job"), [pair for pair in CAPTURED if pair[1] in UNTOLD])
def test_what_a_plan_does_not_tell_is_unknown_and_never_wrong(release: str, job: str) -> None:
    traced = _traced(release, job)
    found = _sinks(traced)
    assert set(found) == set(UNTOLD[job])
    for sink, writers in found.items():
        possible = {
            part.rstrip("*+")
            for columns in UNTOLD[job][sink]
            for column in columns
            for part in _parts(column)
        }
        for columns in writers:
            for read, _ in columns:
                assert {part.rstrip("*+") for part in read} <= possible
    told = all(unknown is None for writers in found.values() for columns in writers for _, unknown in columns)
    assert job == "shared_two_ways" or traced.unresolved or not told


def _parts(column: str) -> list[str]:
    # Names with blanks in them stand alone in the truth.
    return [column] if ", " in column or " AS " in column else column.split()


def test_every_captured_job_has_its_truth() -> None:
    assert PLANS
    assert {job for _, job in CAPTURED} <= set(TRUTH) | set(UNTOLD)


@pytest.mark.parametrize(("release", "job"), [pair for pair in CAPTURED if pair[1] != "batch_unfinished"])
def test_every_table_that_is_read_flows_to_the_sink(release: str, job: str) -> None:
    traced = _traced(release, job)
    names = {endpoint.id: endpoint.name for endpoint in traced.endpoints}
    statement = PLANS[release][job]["statement"].replace("doubled", "orders").replace("`", "")
    for flow in traced.flows:
        assert f" {names[flow.source]}" in statement
    reading = {endpoint.id for endpoint in traced.endpoints if endpoint.direction is Direction.READ}
    assert {flow.source for flow in traced.flows} == reading


def _capture(job: str) -> TracedJob:
    return trace(read_plan(json.loads((FIXTURES / "flink-2.1.3" / "jobs" / job / "job.json").read_text())))


def _of(traced: TracedJob, direction: Direction) -> list[Endpoint]:
    return [endpoint for endpoint in traced.endpoints if endpoint.direction is direction]


_ORDERS = ["k_orders.order_id", "k_orders.customer", "k_orders.amount"]


@pytest.mark.parametrize(
    ("job", "path", "truth"),
    [
        ("datagen_to_blackhole", (), {"bh": ["gen.id", "gen.v", "gen.ts"]}),
        ("kafka_to_iceberg", ("ice", "db", "orders"), {"orders": [*_ORDERS, "k_orders.ts*"]}),
        ("kafka_to_iceberg_v2sink", ("ice", "db", "orders2"), {"orders2": [*_ORDERS, "k_orders.ts*"]}),
        ("kafka_to_kafka", (), {"k_out": _ORDERS}),
        (
            "iceberg_statement_set",
            (),
            {
                "k_out": ["orders.order_id", "orders.customer", "orders.amount"],
                "bh2": ["orders.customer", "", "orders.amount+"],
            },
        ),
    ],
)
def test_jobs_with_kafka_and_iceberg(job: str, path: tuple[str, ...], truth: dict[str, list[str]]) -> None:
    traced = _capture(job)
    assert {sink: [read for read, _ in writers[0]] for sink, writers in _sinks(traced).items()} == {
        sink: [frozenset(column.split()) for column in columns] for sink, columns in truth.items()
    }
    assert _of(traced, Direction.WRITE)[0].path == path
    assert traced.unresolved == ()
    assert len(traced.flows) == len(truth)


def test_an_endpoint_says_what_its_operators_say() -> None:
    (source,) = _of(_capture("iceberg_statement_set"), Direction.READ)
    assert source.path == ("ice", "db", "orders")
    assert source.columns == ("order_id", "customer", "amount")
    assert source.hints == {"options.streaming": "true", "options.monitor-interval": "5s"}
    (sink,) = _of(_capture("kafka_to_iceberg"), Direction.WRITE)
    assert sink.hints == {"connector": "iceberg"}
    assert (
        sink.operator == "IcebergStreamWriter -> IcebergFilesCommitter -> IcebergSink ice.db.orders: Writer"
    )


def test_writer_aggregator_and_committer_in_three_vertices_are_one_sink() -> None:
    traced = _capture("kafka_to_iceberg_v2sink")
    assert len(_of(traced, Direction.WRITE)) == 1
    assert len(traced.job.vertices) == 3


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a JobManager's plan"):
        read_plan({"errors": ["Not found."]})
