"""All jobs of a cluster, many of them, some of which fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.lineage.standin import CAPTURED, Reply, StandIn, captured, visible

from frazil.core.errors import Unavailable
from frazil.lineage.flink.config import flink_config
from frazil.lineage.flink.read import FlinkReader, Problem
from frazil.lineage.flink.resolve.facts import JobFacts
from frazil.lineage.flink.resolve.found import Found
from frazil.lineage.flink.resolve.resolver import Resolver
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.model import Direction, JobLineage, TracedJob

MANY = tuple(f"{name}#{number}" for number in range(200) for name in CAPTURED)


def read(standin: StandIn, *, gateway: bool = True, **more: Any) -> tuple[list[JobLineage], list[Problem]]:
    connection = {"rest_api_url": standin.url, "max_retries": 1}
    if gateway:
        connection["sql_gateway_url"] = standin.url
    found: list[Problem] = []
    with FlinkReader(flink_config({"connection": connection, **more}), found.append) as reader:
        return [one.lineage for one in reader.jobs()], found


def names(lineage: JobLineage, direction: Direction) -> list[str]:
    return [str(dataset) for dataset in lineage.datasets(direction)]


def test_captured_jobs() -> None:
    with StandIn(statements=visible()) as standin:
        jobs, found = read(standin)
    assert found == []
    by_name = {job.job.name: job for job in jobs}
    edges = {name: (names(job, Direction.READ), names(job, Direction.WRITE)) for name, job in by_name.items()}
    assert edges == {
        "datagen_to_blackhole": (["datagen:default_database.gen"], ["blackhole:default_database.bh"]),
        "iceberg_statement_set": (["iceberg:db.orders"], ["kafka:orders_out"]),
        "kafka_to_iceberg": (["kafka:orders"], ["iceberg:db.orders"]),
        "kafka_to_iceberg_v2sink": (["kafka:orders"], ["iceberg:db.orders2"]),
        "kafka_to_kafka": (["kafka:orders"], ["kafka:orders_out"]),
    }
    columns = {
        (edge.upstream_column, edge.downstream_column, edge.derivation.name)
        for edge in by_name["kafka_to_iceberg"].columns
    }
    assert columns == {
        ("order_id", "order_id", "COPY"),
        ("customer", "customer", "COPY"),
        ("amount", "amount", "COPY"),
        ("ts", "ts", "TRANSFORMATION"),
    }
    assert by_name["kafka_to_kafka"].job.state == "CANCELED"
    assert by_name["kafka_to_kafka"].job.started == 1794774508347


def test_without_a_gateway_the_plans_tell_what_is_icebergs() -> None:
    with StandIn() as standin:
        jobs, _ = read(standin, gateway=False)
    written = {name for job in jobs for name in names(job, Direction.WRITE)}
    assert written == {"iceberg:db.orders", "iceberg:db.orders2"}
    assert {name for job in jobs for name in names(job, Direction.READ)} == {"iceberg:db.orders"}


def test_states_and_names_are_chosen() -> None:
    with StandIn() as standin:
        jobs, _ = read(standin, gateway=False, include_job_states=["RUNNING"])
        assert jobs == []
        jobs, _ = read(standin, gateway=False, job_name_pattern={"deny": ["kafka_.*"]})
        assert [job.job.name for job in jobs] == ["datagen_to_blackhole", "iceberg_statement_set"]


def test_without_lineage_nothing_is_resolved() -> None:
    with StandIn() as standin:
        jobs, _ = read(standin, include_lineage=False)
        assert len(jobs) == 5
        assert not any(job.uses or job.unresolved for job in jobs)
        assert standin.count("/sessions") == 0


def test_a_cluster_that_is_away_is_an_error() -> None:
    with (
        StandIn(faults=[("overview", [Reply(500)] * 9)]) as standin,
        pytest.raises(Unavailable, match="Flink's JobManager"),
    ):
        read(standin)


def of_one_name(state: str) -> Callable[[str, Any], Any]:
    """What a cluster says of jobs that nobody gave a name to tell them by."""

    def change(path: str, answer: Any) -> Any:
        for job in answer["jobs"] if path.endswith("overview") else [answer] if "plan" in answer else []:
            job |= {"name": "same", "state": state, "end-time": -1 if state == "RUNNING" else 1794774599999}
        return answer

    return change


def test_jobs_of_one_name_that_run_at_the_same_time_are_read_together() -> None:
    """Flink names those of SQL after what they write: two statements may write the same."""
    two = ("kafka_to_iceberg", "kafka_to_kafka")
    with StandIn(jobs=two, statements=visible(), change=of_one_name("RUNNING")) as standin:
        (job,), found = read(standin)
    assert found == []
    assert set(names(job, Direction.WRITE)) == {"iceberg:db.orders", "kafka:orders_out"}
    assert {str(edge.downstream) for edge in job.edges} == {"iceberg:db.orders", "kafka:orders_out"}
    written = {(str(edge.downstream), edge.downstream_column) for edge in job.columns}
    assert written == {
        *(("iceberg:db.orders", column) for column in ("order_id", "customer", "amount", "ts")),
        *(("kafka:orders_out", column) for column in ("order_id", "customer", "amount")),
    }


def test_of_jobs_of_one_name_that_have_ended_the_newest_counts() -> None:
    two = ("kafka_to_iceberg", "kafka_to_kafka")
    with StandIn(jobs=two, statements=visible(), change=of_one_name("FINISHED")) as standin:
        (job,), _ = read(standin)
        assert standin.count(r"/jobs/[0-9a-f]{32}$") == 1
    newest = max(two, key=lambda name: captured("jobs", name, "job.json")["start-time"])
    assert job.job.id == standin.job_id(newest)


def test_what_is_unresolved_in_one_of_several_executions_is_told() -> None:
    two = ("kafka_to_iceberg", "kafka_to_kafka")
    with StandIn(jobs=two, change=of_one_name("RUNNING")) as standin:
        (job,), _ = read(standin, gateway=False)
    told = {item.where for item in job.unresolved}
    assert {"writes k_out", "columns of iceberg:db.orders"} <= told


def test_only_what_a_job_wrote_since_it_began_is_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int | None]] = []

    def written_by(self: IcebergCatalogs, job: str, since: int | None) -> list[Found]:
        asked.append((job, since))
        return []

    monkeypatch.setattr(IcebergCatalogs, "written_by", written_by)
    with StandIn(jobs=("kafka_to_kafka",)) as standin:
        read(standin, gateway=False)
        assert set(asked) == {(standin.job_id("kafka_to_kafka"), 1794774508347)}


@pytest.mark.parametrize("jobs", [MANY[:100], pytest.param(MANY, marks=pytest.mark.slow)], ids=len)
def test_many_jobs_of_which_some_fail(jobs: tuple[str, ...]) -> None:
    """Each is read or named."""
    with StandIn(jobs=jobs, statements=visible()) as standin:
        bad = {
            "kafka_to_kafka#7": [Reply(500)] * 9,
            "kafka_to_kafka#8": [Reply(404, b'{"errors":["gone"]}')],
            "kafka_to_kafka#9": [Reply(body=b'{"jid":"x')],
        }
        for name, replies in bad.items():
            standin.faults.append((f"/jobs/{standin.job_id(name)}$", replies))
        read_jobs, found = read(standin)
    assert len(read_jobs) == len(jobs) - len(bad)
    assert sorted(problem.where.split()[1] for problem in found) == sorted(bad)


@pytest.mark.parametrize(("job", "time"), [("kafka_to_kafka", 1), ("iceberg_statement_set", 2)])
def test_an_error_of_our_own_costs_one_job_and_is_told(
    job: str, time: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second time is after all jobs were read, for one that waited for what they tell."""
    resolve, seen = Resolver.resolve, list[str]()

    def failing(self: Resolver, traced: TracedJob, facts: JobFacts) -> Any:
        seen.append(traced.job.name)
        if seen.count(job) == time and traced.job.name == job:
            raise RuntimeError("Set changed size during iteration")
        return resolve(self, traced, facts)

    monkeypatch.setattr(Resolver, "resolve", failing)
    with StandIn() as standin:
        jobs, found = read(standin, gateway=False, max_workers=1)
    assert {lineage.job.name for lineage in jobs} == set(CAPTURED) - {job}
    (problem,) = found
    assert problem.where.split()[1] == job
    assert problem.message.endswith("RuntimeError: Set changed size during iteration")
    (logged,) = caplog.records
    assert logged.exc_info is not None, "where it was is to be found"


def test_only_so_many_jobs_are_held_as_the_workers_need() -> None:
    """Whoever takes jobs slowly does not find all of them in memory."""
    with StandIn(jobs=MANY, statements=visible()) as standin:
        config = flink_config({"connection": {"rest_api_url": standin.url}, "max_workers": 3})
        found: list[Problem] = []
        with FlinkReader(config, found.append) as reader:
            jobs = reader.jobs()
            next(jobs)
            jobs.close()  # type: ignore[attr-defined]
        assert standin.count(r"/jobs/[0-9a-f]{32}$") <= 2 * 3 + 1
