"""`frazil tier` killed at every step; in the end each row is in Iceberg once, as it was last put."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from click.testing import CliRunner
from tests.hot.tiering.world import Table, World
from tests.stream.crash.conftest import bucket_shelf
from tests.stream.crash.points import IN_DRIVER, IN_TASKS
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf

from frazil.cli.main import cli
from frazil.devstack.frazil_server import FrazilServer
from frazil.devstack.kafka import Kafka
from frazil.devstack.seaweed import ObjectStore

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


@pytest.fixture
def shelf(frazil_sqlite: FrazilServer, object_store: ObjectStore) -> Shelf:
    return bucket_shelf(frazil_sqlite, object_store)


def _config(world: World) -> dict[str, Any]:
    return {
        "datalake.format": "iceberg",
        "datalake.iceberg.type": "rest",
        "datalake.iceberg.uri": world.server.catalog_uri,
        "datalake.iceberg.warehouse": world.warehouse,
        "kafka": {"bootstrap.servers": world.kafka.bootstrap_servers},
        "spark": {"master": "local[2]"},
    }


def _some(rng: Random, keyed: Table, log: Table) -> None:
    for _ in range(40):
        number = rng.randrange(30)
        if rng.random() < 0.25:
            keyed.delete(number)
        else:
            keyed.put(number, word=f"w{rng.random()}-")
    log.put(*range(25), word=f"w{rng.random()}-")


def _found(shelf: Shelf, table: Table) -> list[dict[str, Any]]:
    rows = shelf.load(str(table.hot)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["word"]))


def _lags(run: Run) -> dict[str, float]:
    """By table, as the service tells whoever asks it."""
    (uri,) = re.findall(r"Metrics at (\S+)/metrics", run.errors)
    with urllib.request.urlopen(f"{uri}/metrics", timeout=120) as answer:
        text = answer.read().decode()
    found = re.findall(r'^frazil_hot_lag_seconds\{table="([^"]+)"\} (\S+)$', text, re.MULTILINE)
    return {table: float(lag) for table, lag in found}


@pytest.mark.parametrize(
    "points",
    [
        # The second commit of a round: the other table has its rows, this one does not.
        pytest.param(("round.job-done", "commit.before@2", "commit.after"), id="some"),
        pytest.param(
            (*IN_DRIVER, "commit.before@2", "commit.after@2"), id="all", marks=pytest.mark.exhaustive
        ),
    ],
)
def test_no_row_is_lost_or_there_twice(
    shelf: Shelf, kafka: Kafka, points: tuple[str, ...], tmp_path: Path
) -> None:
    assert shelf.warehouse is not None
    world = World(kafka, cast("Any", None), shelf.server, shelf.warehouse)
    rng, keyed, log = Random(8), world.table(), world.table(key=())
    given = _config(world)
    for point in points:
        _some(rng, keyed, log)
        with Run(given, "--once", "--log-table", "none", failpoint=point, command="tier --config") as run:
            assert run.wait() == -signal.SIGKILL, run.story()
    _some(rng, keyed, log)
    trap = (",".join(IN_TASKS), "kill")
    more = ("--log-table", "none", "--metrics-port", "0")
    with Run(given, *more, trap=trap, command="tier --config") as run:
        run.until_event("claimed", 2)
        run.until(lambda: all(_found(shelf, table) == table.wanted() for table in (keyed, log)), "all rows")
        run.until(lambda: _lags(run) == {str(keyed.hot): 0.0, str(log.hot): 0.0}, "no lag at /metrics")
        run.signal(signal.SIGINT)
        assert run.wait() == 0, run.story()
        assert run.trapped == set(IN_TASKS)
    for table in (keyed, log):
        assert _found(shelf, table) == table.wanted()
        assert not shelf.stray_files(str(table.hot))
    file = tmp_path / "hot.yaml"
    file.write_text(json.dumps(given))
    shown = CliRunner().invoke(cli, ["status", str(file), "--json"])
    lags = {one["table"]: (one["lag"], one["backlog"], one["breach"]) for one in json.loads(shown.stdout)}
    assert lags[str(keyed.hot)] == lags[str(log.hot)] == (0.0, 0, False)
    world.close()
