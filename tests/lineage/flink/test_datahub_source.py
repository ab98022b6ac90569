"""The source as `datahub ingest` runs it, against the stand-in and into DataHub's file sink."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from datahub.ingestion.run.pipeline import Pipeline
from datahub.ingestion.source.source_registry import source_registry
from datahub.masking.secret_registry import SecretRegistry
from tests.lineage.datahub.validating import problems
from tests.lineage.standin import CAPTURED, Reply, StandIn, visible

from frazil.lineage.datahub.jobs import job_proposals
from frazil.lineage.flink.datahub_source import FlinkRecipe, FlinkReport, FrazilFlinkSource
from frazil.lineage.flink.read import FlinkReader
from frazil.lineage.flink.resolve.snapshots import IcebergCatalogs
from frazil.lineage.model import JobLineage
from frazil.lineage.tables import CatalogTable

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"
ROOT = "http://flink:8081"

Records = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "frazil.client.exchange.Retry.wait",
        lambda self, attempt, asked: None if attempt >= self.attempts else 0.0,
    )


def recipe(standin: StandIn, file: Path, *, gateway: bool = True, **more: Any) -> dict[str, Any]:
    connection = {"rest_api_url": standin.url, **({"sql_gateway_url": standin.url} if gateway else {})}
    connection |= more.pop("connection", {})
    state = more.pop("state", None)
    given: dict[str, Any] = {
        "run_id": "frazil-flink-test",
        "source": {"type": "frazil-flink", "config": {"connection": connection, **more}},
        "sink": {"type": "file", "config": {"filename": str(file)}},
    }
    if state is not None:
        given["pipeline_name"] = "flink"
        provider = {"type": "file", "config": {"filename": str(state)}}
        given["source"]["config"]["stateful_ingestion"] = {
            "enabled": True,
            "state_provider": provider,
            "fail_safe_threshold": 100,
        }
    return given


def ingest(standin: StandIn, folder: Path, **more: Any) -> tuple[Records, FlinkReport]:
    file = folder / "out.json"
    pipeline = Pipeline.create(recipe(standin, file, **more))
    pipeline.run()
    report = pipeline.source.get_report()
    assert isinstance(report, FlinkReport)
    records = json.loads(file.read_text().replace(standin.url, ROOT))
    assert problems(records) == []
    return records, report


def check_golden(name: str, records: Records) -> None:
    """Without what depends on the moment. `FRAZIL_GOLDEN=write` writes them again."""
    for record in records:
        record.pop("systemMetadata", None)
    text = json.dumps(records, indent=1, sort_keys=True) + "\n"
    file = GOLDEN / f"{name}.json"
    if os.environ.get("FRAZIL_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert json.loads(text) == json.loads(file.read_text())


def edges(records: Records) -> dict[str, Any]:
    """What jobs read and write."""
    return {
        record["entityUrn"]: record["aspect"]["json"]
        for record in records
        if record["aspectName"] == "dataJobInputOutput"
    }


def removed(records: Records) -> list[str]:
    return [
        record["entityUrn"]
        for record in records
        if record["aspectName"] == "status" and record["aspect"]["json"]["removed"]
    ]


def test_datahub_finds_the_source() -> None:
    assert source_registry.get("frazil-flink") is FrazilFlinkSource


@pytest.mark.parametrize("granularity", ["job", "vertex"])
def test_golden(tmp_path: Path, granularity: str) -> None:
    with StandIn(statements=visible()) as standin:
        records, report = ingest(
            standin,
            tmp_path,
            operator_granularity=granularity,
            platform_instance_map={"kafka": "prod-kafka"},
            catalog_platform_map={"ice": {"platform_instance": "lake"}},
        )
    assert not report.failures
    assert (report.jobs, report.runs) == (5, 5)
    check_golden(f"flink-{granularity}", records)


def test_golden_of_catalogs(tmp_path: Path) -> None:
    with StandIn(jobs=(), statements=visible()) as standin:
        records, report = ingest(standin, tmp_path, include_catalog_metadata=True)
    assert report.tables == 6
    check_golden("flink-catalogs", records)


def test_urns_are_those_of_the_original(tmp_path: Path) -> None:
    """So that a recipe can be switched over, and back."""
    urns = []
    for kind in ("flink", "frazil-flink"):
        with StandIn(statements=visible()) as standin:
            given = recipe(standin, tmp_path / f"{kind}.json", platform_instance="eu")
            given["source"]["type"] = kind
            Pipeline.create(given).run()
        records = json.loads((tmp_path / f"{kind}.json").read_text())
        wanted = ("dataFlow", "dataJob", "dataProcessInstance")
        urns.append({record["entityUrn"] for record in records if record["entityType"] in wanted})
    assert urns[0] == urns[1]


def test_unresolved_nodes_are_reported_with_reason_and_remedy(tmp_path: Path) -> None:
    with StandIn(jobs=("kafka_to_kafka",)) as standin:
        _, report = ingest(standin, tmp_path, gateway=False)
    assert not report.failures
    gateway, script = "set connection.sql_gateway_url", "its CREATE TABLE in ddl_file"
    none, iceberg = "the plan names no connector", "iceberg_catalogs, if it is an Iceberg table"
    assert [str(item) for item in report.unresolved] == [
        f"kafka_to_kafka reads default_catalog.default_database.k_orders: {none}; {gateway}, or {script}",
        f"kafka_to_kafka writes k_out: {none}; {gateway}, or {script}, or {iceberg}",
    ]


@pytest.mark.parametrize(
    ("state", "result"), [("FINISHED", "SUCCESS"), ("FAILED", "FAILURE"), ("CANCELED", "SKIPPED")]
)
@pytest.mark.parametrize(("kind", "told"), [("STREAMING", "STREAMING"), ("BATCH", "BATCH_SCHEDULED")])
def test_runs_of_one_name_are_executions_of_one_job(
    tmp_path: Path, state: str, result: str, kind: str, told: str
) -> None:
    """A job that still runs has only begun; an older one of the same name has ended."""

    def change(path: str, answer: Any) -> Any:
        running = {"state": "RUNNING", "end-time": -1}
        if path.endswith("overview"):
            (job,) = answer["jobs"]
            older = {**job, "jid": "f" * 32, "state": state, "start-time": job["start-time"] - 1000}
            return {"jobs": [older, {**job, **running}]}
        if "plan" not in answer:
            return answer
        return {**answer, **running, "plan": {**answer["plan"], "type": kind}}

    with StandIn(jobs=("kafka_to_kafka",), change=change) as standin:
        records, report = ingest(standin, tmp_path, gateway=False)
    events = [
        (record["aspect"]["json"]["status"], record["aspect"]["json"].get("result", {}).get("type"))
        for record in records
        if record["aspectName"] == "dataProcessInstanceRunEvent"
    ]
    assert (report.jobs, report.runs) == (1, 2)
    assert events == [("STARTED", None), ("STARTED", None), ("COMPLETE", result)]
    kinds = [
        record["aspect"]["json"].get("type")
        for record in records
        if record["aspectName"] == "dataProcessInstanceProperties"
    ]
    assert kinds == [told, told]


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


def test_what_a_program_named_its_operators_after_becomes_datasets(tmp_path: Path) -> None:
    def change(path: str, answer: Any) -> Any:
        if "plan" in answer:
            steps = ("Source: KafkaSource-clicks", "+- Map", "   +- FileSink-gs://lake/clicks: Writer")
            answer["plan"]["nodes"][0]["description"] = "".join(f"{step}<br/>" for step in steps)
        return answer

    with StandIn(jobs=("kafka_to_kafka",), change=change) as standin:
        records, report = ingest(standin, tmp_path, gateway=False)
    assert not report.failures
    (told,) = report.unresolved
    assert "lineage of tables is there" in str(told)
    (used,) = edges(records).values()
    datasets = [
        "urn:li:dataset:(urn:li:dataPlatform:kafka,clicks,PROD)",
        "urn:li:dataset:(urn:li:dataPlatform:gcs,lake/clicks,PROD)",
    ]
    ends = [*used["inputDatasetEdges"], *used["outputDatasetEdges"]]
    assert [end["destinationUrn"] for end in ends] == datasets
    assert set(datasets) <= {record["entityUrn"] for record in records}


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


def test_without_lineage_what_is_known_of_it_stays(tmp_path: Path) -> None:
    with StandIn(statements=visible()) as standin:
        records, report = ingest(standin, tmp_path, include_lineage=False)
    assert report.jobs == len(CAPTURED)
    assert edges(records) == {}


def test_all_that_is_unresolved_is_listed(tmp_path: Path) -> None:
    with StandIn(jobs=tuple(f"kafka_to_kafka#{number}" for number in range(30))) as standin:
        _, report = ingest(standin, tmp_path, gateway=False)
    assert len(report.unresolved) == 60
    assert len({str(item).split()[0] for item in report.unresolved}) == 30


def test_no_secret_in_what_is_reported(tmp_path: Path) -> None:
    with StandIn(authorization="Bearer other") as standin:
        _, report = ingest(standin, tmp_path, connection={"token": "t0ken"})
    assert report.failures
    assert "t0ken" not in report.as_string()


def test_no_secret_in_what_is_shown_of_a_recipe() -> None:
    recipe = FlinkRecipe.model_validate(
        {
            "connection": {"rest_api_url": "http://flink:8081", "username": "me", "password": "pass-w0rd"},
            "iceberg_catalogs": {"ice": {"uri": "http://ice", "credential": "me:s3cret-of-ice"}},
            "kafka": {"bootstrap.servers": "kafka:9092", "sasl.password": "pass-of-kafka"},
        }
    )
    recipe.settings()
    shown = f"{recipe!r} {recipe} {recipe.model_dump_redacted()}"
    secrets = ("pass-w0rd", "s3cret-of-ice", "pass-of-kafka")
    assert not [secret for secret in secrets if secret in shown]
    masked = SecretRegistry.get_instance().get_all_secrets()
    assert [secret for secret in secrets if secret not in masked] == []


def test_connection_is_tested() -> None:
    with StandIn(statements=visible()) as standin:
        config: dict[str, Any] = {"connection": {"rest_api_url": standin.url, "sql_gateway_url": standin.url}}
        report = FrazilFlinkSource.test_connection(config)
        assert report.basic_connectivity is not None
        assert report.basic_connectivity.capable
        assert report.capability_report is not None
        assert all(found.capable for found in report.capability_report.values())
        standin.faults.append(("/v1/", [Reply(500)] * 99))
        report = FrazilFlinkSource.test_connection(config)
        assert report.basic_connectivity is not None
        assert "500" in (report.basic_connectivity.failure_reason or "")
    with StandIn() as standin:
        config = {
            "connection": {"rest_api_url": standin.url, "timeout_seconds": 5, "max_retries": 1},
            "iceberg_catalogs": {"ice": {"uri": "http://127.0.0.1:9"}},
            "kafka": {"bootstrap.servers": "127.0.0.1:9"},
            "ddl_file": "/none.sql",
        }
        report = FrazilFlinkSource.test_connection(config)
    assert report.capability_report is not None
    assert {str(name) for name, found in report.capability_report.items() if not found.capable} == {
        "iceberg_catalogs.ice",
        "kafka",
        "ddl_file",
    }
    report = FrazilFlinkSource.test_connection({"connection": {"rest_api_url": "x"}})
    assert report.basic_connectivity is not None
    assert "not legal" in (report.basic_connectivity.failure_reason or "")
