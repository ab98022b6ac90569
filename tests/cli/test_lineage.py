from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.lineage.standin import Reply, StandIn, visible

from frazil.cli.lineage import _settings, lineage
from frazil.core.errors import InvalidConfig, NotFound, Unavailable


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(lineage, ["flink", *arguments], env=dict(environment), catch_exceptions=True)


def test_drawn_in_the_terminal() -> None:
    with StandIn(jobs=("kafka_to_iceberg", "kafka_to_kafka"), statements=visible()) as standin:
        result = run(standin.url, "--gateway", standin.url)
        assert result.exit_code == 0, result.output
        assert "iceberg:db.orders" in result.stdout
        assert "kafka_to_kafka" in result.stdout
        result = run(standin.url, "--gateway", standin.url, "--table", "db.orders", "--column", "amount")
        assert result.stdout.split() == ["kafka:orders.amount", "└─", "iceberg:db.orders.amount"]
        assert run(standin.url, "--gateway", standin.url, "--format", "mermaid").stdout.startswith(
            "flowchart"
        )
        assert "<svg" in run(standin.url, "--gateway", standin.url, "--format", "svg").stdout


def test_json_and_what_is_unresolved(tmp_path: Path) -> None:
    ddl = tmp_path / "tables.sql"
    ddl.write_text("CREATE TABLE k_orders (order_id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'orders')")
    with StandIn(jobs=("kafka_to_kafka",)) as standin:
        result = run(standin.url, "--ddl", str(ddl), "--json")
        (job,) = json.loads(result.stdout)
        assert [use["dataset"]["name"] for use in job["uses"]] == ["orders"]
        assert job["uses"][0]["evidence"][0]["kind"] == "ddl"
        assert job["unresolved"][0]["where"] == "writes k_out"
        result = run(standin.url, "--ddl", str(ddl))
        assert "unresolved: kafka_to_kafka writes k_out" in result.stderr


def test_json_has_what_was_selected() -> None:
    with StandIn(jobs=("kafka_to_iceberg", "kafka_to_kafka"), statements=visible()) as standin:
        asked = (standin.url, "--gateway", standin.url, "--json")
        (job,) = json.loads(run(*asked, "--table", "db.orders").stdout)
        assert job["job"]["name"] == "kafka_to_iceberg"
        assert len(job["columns"]) > 1
        (job,) = json.loads(run(*asked, "--table", "db.orders", "--column", "amount").stdout)
        assert [edge["downstream"]["column"] for edge in job["columns"]] == ["amount"]
        assert isinstance(run(*asked, "--table", "nope").exception, NotFound)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_job_that_cannot_be_read_is_told_and_the_exit_code_is_1(form: tuple[str, ...]) -> None:
    with StandIn(jobs=("kafka_to_iceberg", "kafka_to_kafka"), statements=visible()) as standin:
        standin.faults.append((f"/jobs/{standin.job_id('kafka_to_kafka')}$", [Reply(404)]))
        result = run(standin.url, "--gateway", standin.url, *form)
    assert result.exit_code == 1
    assert "db.orders" in result.stdout
    assert "kafka_to_kafka" not in result.stdout
    assert "job kafka_to_kafka" in result.stderr


def test_a_recipe_gives_the_settings(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        """
source:
  type: flink
  config:
    connection: {rest_api_url: "http://elsewhere", token: "${FLINK_SECRET}"}
    job_name_pattern: {allow: ["kafka_to_kafka"]}
    stateful_ingestion: {enabled: true}
"""
    )
    with StandIn(authorization="Bearer t0ken") as standin:
        result = run(standin.url, "--recipe", str(recipe), "--json", FLINK_SECRET="t0ken")
        assert [job["job"]["name"] for job in json.loads(result.stdout)] == ["kafka_to_kafka"]


def test_catalogs_of_the_command_line_are_beside_those_of_the_recipe(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        """
source:
  config:
    connection:
    iceberg_catalogs: {ice: {uri: "http://h/old", scope: s}, lake: {uri: "http://h/lake"}}
"""
    )
    settings = _settings("http://h", None, ("ice=http://h/new", "more=http://h/more"), None, recipe)
    uris = {name: catalog.uri for name, catalog in settings.iceberg_catalogs.items()}
    assert uris == {"ice": "http://h/new", "lake": "http://h/lake", "more": "http://h/more"}
    assert settings.iceberg_catalogs["ice"].scope is None


def test_settings_of_a_recipe_that_are_no_group_are_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("source: {config: {connection: http://h}}")
    result = run("http://127.0.0.1:9", "--recipe", str(recipe))
    assert isinstance(result.exception, InvalidConfig)
    assert "source.config.connection" in result.exception.message


def test_a_cluster_that_is_away_is_one_line() -> None:
    with StandIn(faults=[("overview", [Reply(404)])]) as standin:
        result = run(standin.url)
    assert result.exception is not None
    result = run("http://127.0.0.1:9", "--recipe", "/dev/null")
    assert isinstance(result.exception, InvalidConfig)
    assert not isinstance(result.exception, Unavailable)


@pytest.mark.parametrize("text", ["ice", "=http://h", "ice="])
def test_a_catalog_needs_name_and_address(text: str) -> None:
    result = run("http://127.0.0.1:9", "--iceberg", text)
    assert isinstance(result.exception, InvalidConfig)
