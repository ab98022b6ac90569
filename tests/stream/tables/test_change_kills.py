"""kill -9 of a pipeline that follows the changes of a table: each change lands once."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from tests.stream.crash.runs import Run
from tests.stream.tables.conftest import SCHEMA, Source

from frazil.client import Client
from frazil.devstack.frazil_server import FrazilServer
from frazil.lake.changelog import read_changes

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

POINTS = ("round.planned@3", "task.written", "round.job-done@2", "commit.before@2", "commit.after@2")


def become(source: Source, rows: dict[int, str]) -> None:
    """The rows of the table, in one commit, in place of all that are there."""
    table = source.table
    old = [task.file for task in table.scan().plan_files()]
    data = pa.table({"id": list(rows), "word": list(rows.values())}, SCHEMA)
    with table.transaction() as together, together.update_snapshot().overwrite() as change:
        for file in old:
            change.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, data, table.io):
            change.append_data_file(file)


def config(server: FrazilServer, source: Source) -> dict[str, Any]:
    return {
        "catalog": {"uri": server.uri},
        "spark": {"master": "local[2]"},
        "pipelines": {
            f"kills-{source.name}": {
                # From the first snapshot on.
                "source": {
                    "table": f"tables.{source.name}",
                    "changes": True,
                    "start": "2020-01-01T00:00:00Z",
                },
                "table": f"tables.{source.name}_changes",
                "freshness": "100ms",
                "limits": {"records_per_round": 11, "records_per_task": 4},
            }
        },
    }


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(("round.job-done@2", "commit.after@2"), id="some"),
        pytest.param(POINTS, id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_every_change_lands_once(
    points: tuple[str, ...], source: Source, shelf: Catalog, client: Client, frazil_sqlite: FrazilServer
) -> None:
    rows = dict.fromkeys(range(20), "a")
    source.append(*rows)
    for turn in range(2 * len(points)):
        rows = {
            number: (f"w{turn}" if number % 5 == turn % 5 else word)
            for number, word in rows.items()
            if number % 11 != turn
        } | {100 + turn: "new"}
        become(source, rows)
    for point in points:
        with Run(config(frazil_sqlite, source), "--once", failpoint=point) as run:
            assert run.wait() == -signal.SIGKILL or point == "task.written", run.story()
    with Run(config(frazil_sqlite, source), "--once") as run:
        assert run.wait() == 0, run.story()
    landed = shelf.load_table(("tables", f"{source.name}_changes")).scan().to_arrow()
    batches = read_changes(client, f"tables.{source.name}")
    wanted = [row for batch in batches for row in batch.to_pylist()]
    assert counted(landed.to_pylist()) == counted(wanted)
    assert landed.num_rows > 60


def counted(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    names = ("id", "word", "_change_type", "_commit_snapshot_id", "_commit_timestamp", "_correction")
    return Counter(tuple(row[name] for name in names) for row in rows)
