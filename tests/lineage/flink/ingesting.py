"""`datahub ingest` with our source, against the stand-in and into DataHub's file sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from datahub.ingestion.run.pipeline import Pipeline
from tests.lineage.datahub.validating import problems
from tests.lineage.standin import StandIn

from frazil.lineage.flink.datahub_source import FlinkReport

ROOT = "http://flink:8081"

Records = list[dict[str, Any]]


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
