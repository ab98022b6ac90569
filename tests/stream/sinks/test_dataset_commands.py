"""Commands over a pipeline that writes a dataset; none of them starts Spark for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.stream.crash.runs import frazil
from tests.stream.sinks.shelf import Shelf, fresh

from frazil.cli.main import cli
from frazil.client import Client
from frazil.core.errors import FrazilError
from frazil.core.stamp import Position, Stamp
from frazil.stream.sinks.dataset_place import file_name, place_of


@pytest.fixture
def config(local_datasets: Shelf) -> dict[str, Any]:
    pipeline = {"source": {"sensors": {"rate": 5}}, "dataset": f"things.{fresh('commands')}"}
    return {"catalog": {"uri": local_datasets.server.uri}, "pipelines": {"readings": pipeline}}


def test_plan_and_status(config: dict[str, Any], local_datasets: Shelf) -> None:
    name = config["pipelines"]["readings"]["dataset"]
    planned = frazil(config, "plan")
    assert planned.returncode == 0, planned.stderr
    assert f"{name}: would be created" in planned.stdout
    assert "generic table, one file for each round" in planned.stdout
    assert "Iceberg format" not in planned.stdout
    found = frazil(config, "status")
    assert found.returncode == 0, found.stderr
    assert f"{name} (not created yet)" in found.stdout

    with Client(local_datasets.server.uri) as client:
        client.namespaces.create("things", exist_ok=True)
        made = client.generic_tables.create("things", name.partition(".")[2], "json")
    place = place_of(made.location, None)
    stamp = Stamp(
        pipeline="readings",
        epoch=3,
        round=2,
        token="t",
        source="s",
        positions={"sensors": Position(id="2026-01-01T00:00:00+00:00", next=(7,))},
        read=7,
        written=7,
    )
    place.put(file_name("readings", 2, "json"), b"[]", stamp)
    (document,) = json.loads(frazil(config, "status", "--json").stdout)
    assert (document["table"], document["exists"], document["epoch"], document["written"]) == (
        name,
        True,
        3,
        7,
    )
    assert document["committed-at"]
    shown = frazil(config, "status").stdout
    assert "7 written of 7 records read" in shown
    assert "expired" not in shown
    (document,) = json.loads(frazil(config, "plan", "--json").stdout)
    assert document["begins"] == "after its last commit (epoch 3, round 2)"
    assert document["table"]["format-version"] is None


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["verify", "FILE"], "writes a dataset"),
        (["reset", "FILE", "readings", "--to-offsets", "earliest", "--yes"], "writes a dataset"),
        (["dlq", "list", "FILE", "readings"], "has no dead-letter table"),
        (["dlq", "replay", "FILE", "readings", "--yes"], "has no dead-letter table"),
    ],
)
def test_commands_for_tables(config: dict[str, Any], command: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "pipelines.yaml"
    file.write_text(json.dumps(config))
    answer = CliRunner().invoke(cli, [str(file) if word == "FILE" else word for word in command])
    assert answer.exit_code
    assert isinstance(answer.exception, FrazilError | SystemExit), answer.output
    assert said in f"{answer.output}{answer.exception}"
    assert "Starting Spark" not in answer.output
