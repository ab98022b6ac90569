"""The source as `datahub ingest` runs it, against the stand-in and into DataHub's file sink."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from datahub.ingestion.run.pipeline import Pipeline
from datahub.ingestion.source.source_registry import source_registry
from datahub.masking.secret_registry import SecretRegistry
from tests.lineage.flink.ingesting import Records, edges, ingest, recipe
from tests.lineage.standin import CAPTURED, Reply, StandIn, visible

from frazil.lineage.flink.datahub_source import FlinkRecipe, FrazilFlinkSource

GOLDEN = Path(__file__).parents[1] / "fixtures" / "golden"


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


@pytest.mark.parametrize("granularity", ["job", "vertex"])
def test_no_secret_of_a_querys_hint_in_what_is_emitted(tmp_path: Path, granularity: str) -> None:
    """With table.exec.simplify-operator-name-enabled = false, names of vertices have all of it."""
    options = 'properties.sasl.jaas.config=org.x required password="s3cr3t";, topic=other'
    hinted = f"TableSourceScan(table=[[c, d, t]], fields=[x], hints=[[[OPTIONS options:{{{options}}}]]])"

    def change(path: str, answer: Any) -> Any:
        if "plan" in answer:
            for vertex in answer["vertices"]:
                vertex["name"] = f"Source: {hinted} -> k_out[2]: Writer"
            answer["plan"]["nodes"][0]["description"] = f"[1]:{hinted}<br/>+- k_out[2]: Writer<br/>"
        return answer

    with StandIn(jobs=("kafka_to_kafka",), change=change) as standin:
        records, report = ingest(standin, tmp_path, gateway=False, operator_granularity=granularity)
    shown = json.dumps(records) + report.as_string()
    assert ("options:{\\u2026}" in shown) is (granularity == "vertex")
    assert "s3cr3t" not in shown


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
