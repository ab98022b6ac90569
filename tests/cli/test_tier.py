"""The flags of `frazil tier`, without a service."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.clusters import LOG_TABLE
from frazil.cli.hot_status import document, is_hot, lines
from frazil.cli.main import cli
from frazil.cli.tier import flags
from frazil.client import Client
from frazil.core.errors import InvalidInput
from frazil.hot.find import HotTables, Listing
from frazil.hot.tiering.status import HotStatus
from frazil.hot.tiering.told import Told


def test_the_flags_of_fluss() -> None:
    datalake, kafka = flags(
        [
            "--datalake.format",
            "iceberg",
            "--datalake.iceberg.type",
            "rest",
            "--datalake.iceberg.uri=http://localhost:8181/catalog",
            "--datalake.iceberg.header.X-Iceberg-Access-Delegation",
            "vended-credentials",
            "--kafka.bootstrap.servers",
            "one:9092",
        ]
    )
    assert datalake == {
        "datalake.format": "iceberg",
        "datalake.iceberg.type": "rest",
        "datalake.iceberg.uri": "http://localhost:8181/catalog",
        "datalake.iceberg.header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    assert kafka == {"bootstrap.servers": "one:9092"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--fluss.bootstrap.servers", "one:9123"], "--kafka.bootstrap.servers"),
        (["--datalake.format"], "has no value"),
        (["--other", "x"], "no option of frazil tier"),
        (["word"], "no option of frazil tier"),
    ],
)
def test_flags_that_are_refused(given: list[str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        flags(given)
    result = CliRunner().invoke(cli, ["tier", *given])
    assert isinstance(result.exception, InvalidInput)


def test_which_files_are_of_hot_tables(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    assert not is_hot(file)
    for text, expected in (
        ("kafka: {}", True),
        ("datalake.format: iceberg", True),
        ("datalake: {format: iceberg}", True),
        ("kafka: {}\npipelines: {}", False),
        ("other: 1", False),
        ("[1]", False),
        ("{", False),
    ):
        file.write_text(text)
        assert is_hot(file) == expected, text


@pytest.mark.parametrize(
    ("given", "asked"),
    [([], [LOG_TABLE]), (["--log-table", "shop.log"], ["shop.log"]), (["--log-table", "None"], [])],
)
def test_where_status_reads_breaches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: list[str], asked: list[str]
) -> None:
    found: list[str] = []

    def noted(_client: Client, _now: datetime, table: str) -> dict[str, Told]:
        found.append(table)
        return {}

    monkeypatch.setattr("frazil.hot.tiering.status.told", noted)
    monkeypatch.setattr(HotTables, "look", lambda *_: Listing(()))
    (tmp_path / "hot.yaml").write_text("kafka: {bootstrap.servers: '127.0.0.1:1'}")
    result = CliRunner().invoke(cli, ["status", str(tmp_path / "hot.yaml"), *given])
    assert (result.output, result.exit_code) == ("no hot tables\n", 0)
    assert found == asked


def test_pipelines_have_no_log_of_tiering(tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text("pipelines: {}")
    result = CliRunner().invoke(cli, ["status", str(file), "--log-table", "shop.log"])
    assert isinstance(result.exception, InvalidInput)
    assert "--log-table is for hot tables" in result.exception.message


def test_how_a_hot_table_is_shown() -> None:
    late = HotStatus("a.b", "a.b", freshness=30.0, lag=31.5, backlog=12)
    assert lines(late, 0.0)[1:] == [
        "  kind         keyed",
        "  lag          31.5 s (promised: 30s, BROKEN)",
        "  breaches     not known",
        "  in log only  12 offsets",
        "  tiered       never",
    ]
    assert lines(replace(late, breaches=0), 0.0)[3] == "  breaches     none in 24 hours"
    told = replace(late, breaches=1200, cause="round")
    assert lines(told, 0.0)[3] == "  breaches     1,200 in 24 hours, the last one: round"
    assert (document(told)["breaches"], document(told)["cause"]) == (1200, "round")
    assert not HotStatus("a.b", "a.b", enabled=False, freshness=1.0, lag=9.0).breach
