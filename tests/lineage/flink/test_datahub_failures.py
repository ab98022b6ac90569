"""What the source does without when something fails: that much, and what DataHub knows stays there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lineage.flink.ingesting import Records, edges, ingest, removed
from tests.lineage.standin import CAPTURED, Reply, StandIn, visible

from frazil.lineage.datahub.jobs import job_proposals
from frazil.lineage.flink.datahub_source import FrazilFlinkSource
from frazil.lineage.flink.read import FlinkReader
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.model import JobLineage
from frazil.lineage.tables import CatalogTable

#: What Flink gives in the place of a plan, of a job that failed before it was made.
NO_PLAN = {"1.x": {}, "2.x": {"jid": "", "name": "", "type": "", "nodes": []}, "null": None}


def failed_early(plan: Any, state: str = "FAILED") -> Callable[[str, Any], Any]:
    """`kafka_to_kafka#1` is a newer execution of `kafka_to_kafka`, and has no plan."""

    def change(path: str, answer: Any) -> Any:
        for job in answer["jobs"] if path.endswith("overview") else [answer] if "plan" in answer else []:
            if job["name"].endswith("#1"):
                started = job["start-time"] + 60_000
                job |= {
                    "name": "kafka_to_kafka",
                    "state": state,
                    "start-time": started,
                    "end-time": started + 9,
                }
                job |= {"plan": plan, "vertices": []} if "plan" in job else {}
        return answer

    return change


def results(records: Records) -> list[str]:
    """How executions ended."""
    return [
        record["aspect"]["json"]["result"]["type"]
        for record in records
        if record["aspectName"] == "dataProcessInstanceRunEvent" and "result" in record["aspect"]["json"]
    ]


@pytest.mark.parametrize("plan", NO_PLAN.values(), ids=NO_PLAN)
@pytest.mark.parametrize("granularity", ["job", "vertex"])
def test_lineage_of_a_job_that_failed_before_its_plan_is_that_of_the_execution_before(
    tmp_path: Path, granularity: str, plan: Any
) -> None:
    state, jobs = tmp_path / "state.json", ("kafka_to_kafka", "kafka_to_kafka#1")
    with StandIn(jobs=jobs[:1], statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, state=state, operator_granularity=granularity)
    with StandIn(jobs=jobs, statements=visible(), change=failed_early(plan)) as standin:
        records, report = ingest(standin, tmp_path, state=state, operator_granularity=granularity)
    assert not report.failures
    assert edges(before)
    assert edges(records) == edges(before)
    assert sorted(results(records)) == ["FAILURE", "SKIPPED"]
    inputs = [record for record in records if record["aspectName"] == "dataProcessInstanceInput"]
    assert len(inputs) == 1, "the one without a plan read nothing that is known"
    assert removed(records) == []
    (flow,) = [record for record in records if record["aspectName"] == "dataFlowInfo"]
    assert flow["aspect"]["json"]["customProperties"]["job_state"] == "FAILED"


@pytest.mark.parametrize("plan", NO_PLAN.values(), ids=NO_PLAN)
@pytest.mark.parametrize("granularity", ["job", "vertex"])
def test_without_any_plan_what_is_known_of_a_job_stays(tmp_path: Path, granularity: str, plan: Any) -> None:
    state = tmp_path / "state.json"
    with StandIn(jobs=("kafka_to_kafka",), statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, state=state, operator_granularity=granularity)
    with StandIn(jobs=("kafka_to_kafka#1",), statements=visible(), change=failed_early(plan)) as standin:
        records, report = ingest(standin, tmp_path, state=state, operator_granularity=granularity)
    assert edges(before)
    assert edges(records) == {}
    assert removed(records) == []
    assert "urn:li:dataFlow:(flink,kafka_to_kafka,PROD)" in {record["entityUrn"] for record in records}
    assert len(report.unresolved) == 1
    if granularity == "job":
        assert not report.failures
        assert results(records) == ["FAILURE"]
    else:
        assert any("its vertices are not known" in str(entry) for entry in report.failures)


def test_lineage_stays_while_a_job_runs_of_which_flink_has_no_plan(tmp_path: Path) -> None:
    change, jobs = failed_early({}, "RUNNING"), ("kafka_to_kafka", "kafka_to_kafka#1")
    with StandIn(jobs=jobs, statements=visible(), change=change) as standin:
        records, report = ingest(standin, tmp_path)
    assert edges(records) == {}
    assert len(report.unresolved) == 1


FAULTS: dict[str, list[Reply]] = {
    "500": [Reply(500)] * 9,
    "401": [Reply(401, b"")] * 9,
    "truncated": [Reply(body=b'{"jid":"9b6e0f02755b36f7')],
    "not a job": [Reply(body=b'{"jid":[],"plan":{"nodes":[{"description":7,"inputs":3}]}}')],
    "vanished": [Reply(404, b'{"errors":["Job could not be found."]}')],
    "stalled": [Reply(stall=True)],
}


def test_a_job_that_cannot_be_read_is_reported_and_nothing_is_removed(tmp_path: Path) -> None:
    """Its DataFlow was there in the run before: it stays until a run that is whole does not find it."""
    state, lost = tmp_path / "state.json", "datagen_to_blackhole"
    with StandIn(statements=visible()) as standin:
        ingest(standin, tmp_path, state=state)
        for fault, replies in FAULTS.items():
            standin.faults = [(f"/jobs/{standin.job_id(lost)}$", replies)]
            # Patient enough for all the other answers, also on a busy machine.
            impatient = {"timeout_seconds": 5, "max_retries": 1} if fault == "stalled" else {}
            records, report = ingest(standin, tmp_path, state=state, connection=impatient)
            assert report.jobs == 4, fault
            assert any(lost in str(entry) for entry in report.failures), fault
            assert removed(records) == [], fault
    with StandIn(jobs=CAPTURED[1:], statements=visible()) as standin:
        records, report = ingest(standin, tmp_path, state=state)
    assert not report.failures
    assert sorted(removed(records)) == [
        "urn:li:dataFlow:(flink,datagen_to_blackhole,PROD)",
        "urn:li:dataJob:(urn:li:dataFlow:(flink,datagen_to_blackhole,PROD),datagen_to_blackhole)",
    ], "datasets belong to other platforms: they are never removed"


@pytest.mark.parametrize(
    "reply",
    [Reply(500), Reply(403), Reply(404), Reply(body=b'{"mode":'), Reply(body=b"[7]")],
    ids=["500", "403", "404", "truncated", "odd"],
)
@pytest.mark.parametrize("granularity", ["job", "vertex"])
@pytest.mark.parametrize("path", ["checkpoints/config", "config", "metrics"])
def test_what_else_is_asked_of_a_job_and_fails_removes_nothing(
    tmp_path: Path, path: str, granularity: str, reply: Reply
) -> None:
    """Neither the job, nor another one that is really gone, nor lineage."""
    state, job = tmp_path / "state.json", "kafka_to_kafka"
    metric = "0.Source__k_orders[9].KafkaSourceReader.topic.orders.partition.0.currentOffset"
    more: dict[str, Any] = {"state": state, "operator_granularity": granularity}
    # With a gateway nobody asks for metrics.
    more |= {"gateway": path != "metrics"}

    def change(path: str, answer: Any) -> Any:
        return [{"id": metric}] if path.endswith("/metrics") else answer

    with StandIn(jobs=(job, "datagen_to_blackhole"), statements=visible(), change=change) as standin:
        before, _ = ingest(standin, tmp_path, **more)
    with StandIn(jobs=(job,), statements=visible(), change=change) as standin:
        standin.faults = [(f"/{standin.job_id(job)}/(.*/)?{path}$", [reply] * 99)]
        records, report = ingest(standin, tmp_path, **more)
    known = {urn: told for urn, told in edges(before).items() if job in urn}
    assert any(told["inputDatasetEdges"] for told in known.values())
    if reply.status == 404 and path == "checkpoints/config":
        assert not report.failures, "a batch job has none"
        assert removed(records)
    else:
        assert report.failures
        assert removed(records) == []
    assert {record["entityUrn"] for record in before if job in record["entityUrn"]} <= {
        record["entityUrn"] for record in records
    }
    # What is not sent stays.
    sent = path == "checkpoints/config" or (path == "config" and reply.status in (403, 404))
    assert edges(records) == (known if sent else {})


@pytest.mark.parametrize(("status", "sent"), [(500, False), (403, True)])
def test_a_parameter_that_cannot_be_had_is_not_taken_for_none(
    tmp_path: Path, status: int, sent: bool
) -> None:
    """It would come before what the gateway says of the same table."""

    def change(path: str, answer: Any) -> Any:
        if path.endswith("/config") and "execution-config" in answer:
            answer["execution-config"]["user-config"] = {"lineage.k_orders": "kinesis:clicks"}
        return answer

    with StandIn(jobs=("kafka_to_kafka",), statements=visible(), change=change) as standin:
        before, _ = ingest(standin, tmp_path)
        (told,) = edges(before).values()
        assert "kinesis,clicks" in told["inputDatasetEdges"][0]["destinationUrn"]
        standin.faults = [(f"/{standin.job_id('kafka_to_kafka')}/config$", [Reply(status)] * 99)]
        records, report = ingest(standin, tmp_path)
    assert report.failures
    assert bool(edges(records)) is sent, "where nobody may read parameters, there are none that count"


def test_an_error_of_our_own_costs_one_job_and_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, lost = tmp_path / "state.json", CAPTURED[0]

    def failing(orchestrator: Any, lineage: JobLineage, *rest: Any, **more: Any) -> Any:
        if lineage.job.name == lost:
            raise RuntimeError("nobody thought of this")
        return job_proposals(orchestrator, lineage, *rest, **more)

    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, state=state)
        monkeypatch.setattr("frazil.lineage.flink.datahub_source.job_proposals", failing)
        records, report = ingest(standin, tmp_path, state=state)
    (failure,) = report.failures
    assert lost in str(failure)
    assert "RuntimeError: nobody thought of this" in str(failure)
    assert removed(records) == []
    assert edges(records) == {urn: found for urn, found in edges(before).items() if lost not in urn}


def test_an_error_among_the_tables_of_catalogs_costs_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: FlinkReader) -> Iterator[CatalogTable]:
        raise KeyError("fields")

    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, include_catalog_metadata=True)
        monkeypatch.setattr(FlinkReader, "catalog_tables", failing)
        records, report = ingest(standin, tmp_path, include_catalog_metadata=True)
    (failure,) = report.failures
    assert "the tables of catalogs" in str(failure)
    assert edges(records) == edges(before)


def test_an_error_of_our_own_in_a_test_of_the_connection_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: IcebergCatalogs, catalog: str) -> None:
        raise KeyError("fields")

    monkeypatch.setattr(IcebergCatalogs, "check", failing)
    with StandIn() as standin:
        catalogs = {"ice": {"uri": "http://127.0.0.1:9"}}
        config = {"connection": {"rest_api_url": standin.url}, "iceberg_catalogs": catalogs}
        report = FrazilFlinkSource.test_connection(config)
    assert report.capability_report is not None
    assert "KeyError: 'fields'" in (report.capability_report["iceberg_catalogs.ice"].failure_reason or "")


@pytest.mark.parametrize("path", ["/v1/config", "/v1/jobs/overview", "/v1/sessions", "/result/"])
def test_a_service_that_is_away_removes_nothing(tmp_path: Path, path: str) -> None:
    state = tmp_path / "state.json"
    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, state=state)
    with StandIn(jobs=("kafka_to_kafka",), faults=[(path, [Reply(503)] * 99)]) as standin:
        records, report = ingest(standin, tmp_path, state=state)
    assert report.failures
    assert removed(records) == []
    assert edges(before)
    assert edges(records) == {}, "what is known of the job stays"


def test_lineage_that_a_job_told_which_cannot_be_read_stays(tmp_path: Path) -> None:
    """Without a gateway, that a table is Iceberg's is known from the plan of the job that writes it."""
    reading, writing = "iceberg_statement_set", "kafka_to_iceberg"
    with StandIn() as standin:
        before, _ = ingest(standin, tmp_path, gateway=False)
        standin.faults = [(f"/jobs/{standin.job_id(writing)}$", [Reply(500)] * 9)]
        records, report = ingest(standin, tmp_path, gateway=False)
    (failure,) = report.failures
    assert writing in str(failure)
    (urn,) = (urn for urn in edges(before) if reading in urn)
    assert edges(before)[urn]["inputDatasetEdges"]
    assert edges(records) == {
        urn: told for urn, told in edges(before).items() if reading not in urn and f"{writing}," not in urn
    }


def in_state(job: str, state: str) -> Callable[[str, Any], Any]:
    def change(path: str, answer: Any) -> Any:
        for one in answer["jobs"] if path.endswith("overview") else [answer] if "plan" in answer else []:
            if one["name"] == job:
                one["state"] = state
        return answer

    return change


@pytest.mark.parametrize("granularity", ["job", "vertex"])
@pytest.mark.parametrize("state", ["RESTARTING", "FAILING", "RECONCILING"])
def test_a_job_that_restarts_is_not_gone(tmp_path: Path, state: str, granularity: str) -> None:
    """Its state is none of those that are asked for, and it is in it for a moment."""
    file, passing = tmp_path / "state.json", "kafka_to_iceberg"
    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path, state=file, operator_granularity=granularity)
    with StandIn(jobs=CAPTURED[1:], statements=visible(), change=in_state(passing, state)) as standin:
        records, report = ingest(standin, tmp_path, state=file, operator_granularity=granularity)
    assert not report.failures
    assert removed(records)
    assert all(CAPTURED[0] in urn for urn in removed(records))
    assert edges(records) == {
        urn: told
        for urn, told in edges(before).items()
        if f"{passing}," not in urn and CAPTURED[0] not in urn
    }


def test_lineage_that_a_job_told_which_restarts_stays(tmp_path: Path) -> None:
    reading, passing = "iceberg_statement_set", "kafka_to_iceberg"
    with StandIn(change=in_state(passing, "RESTARTING")) as standin:
        records, report = ingest(standin, tmp_path, gateway=False)
    assert not report.failures
    assert not any(reading in urn for urn in edges(records))
    assert sum("kafka_to" in urn for urn in edges(records)) == 2


def test_lineage_of_an_execution_that_restarts_is_not_that_of_one_that_ended(tmp_path: Path) -> None:
    """`kafka_to_kafka#1` is a newer execution of `kafka_to_kafka`."""
    with StandIn(jobs=("kafka_to_kafka", "kafka_to_kafka#1"), statements=visible()) as standin:
        standin.change = failed_early({}, "RESTARTING")
        records, report = ingest(standin, tmp_path)
        assert not report.failures
        assert edges(records) == {}, "what is known of it stays"
        assert results(records) == ["SKIPPED"]
        records, _ = ingest(standin, tmp_path, include_job_states=["CANCELED"])
        assert edges(records), "running ones are not asked for"


def test_what_a_gateway_that_stumbles_tells_is_the_same(tmp_path: Path) -> None:
    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path)
        standin.faults = [
            (path, [Reply(503), Reply(502)]) for path in ("/sessions$", "/statements", "/result/")
        ]
        records, report = ingest(standin, tmp_path)
    assert not report.failures
    assert edges(records) == edges(before)


def test_jobs_that_are_resolved_are_told_of_while_a_service_is_away(tmp_path: Path) -> None:
    with StandIn(statements=visible()) as standin:
        before, _ = ingest(standin, tmp_path)
        catalogs = {"ice": {"uri": "http://127.0.0.1:9"}}
        records, report = ingest(standin, tmp_path, iceberg_catalogs=catalogs)
    assert report.failures
    open_ones = {str(item).split()[0] for item in report.unresolved}
    assert open_ones == {"iceberg_statement_set"}
    known = {urn: found for urn, found in edges(before).items() if "iceberg_statement_set" not in urn}
    assert len(known) == len(CAPTURED) - 1
    assert edges(records) == known


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES FROM `ice`.`db`", "SHOW DATABASES IN `ice`", "SHOW CATALOGS"]
)
def test_a_list_that_is_refused_removes_nothing(tmp_path: Path, statement: str) -> None:
    """As by a catalog whose own database is down."""
    state = tmp_path / "state.json"
    with StandIn(statements=visible()) as standin:
        ingest(standin, tmp_path, state=state, include_catalog_metadata=True)
        del standin.statements[statement]
        records, report = ingest(standin, tmp_path, state=state, include_catalog_metadata=True)
    assert any("refused" in str(entry) for entry in report.failures)
    assert removed(records) == []
