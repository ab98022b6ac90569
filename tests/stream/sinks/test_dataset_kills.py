"""kill -9 of the driver and of tasks at every step of a round: each record is in one file, once."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.stream.crash.runs import Run
from tests.stream.sinks.shelf import Shelf, fresh

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]

IN_DRIVER = ("round.planned", "round.job-done")
IN_TASKS = ("task.fetched", "dataset.before", "dataset.after", "task.written")
_BATCH = 400
SAME = "SELECT sensor_id, reading, event_time FROM source"


def _config(shelf: Shelf, name: str, records: int, *, through_spark: bool) -> dict[str, Any]:
    """Readings are there at once; the number of them grows from run to run."""
    pipeline: dict[str, Any] = {
        "source": {"sensors": {"rate": 1_000_000, "records": records}},
        "dataset": {"table": f"kills.{name}", "format": "jsonl"},
        "freshness": "100ms",
        "limits": {"records_per_round": _BATCH},
    }
    if through_spark:
        pipeline["transform"] = SAME
    return {
        "catalog": {"uri": shelf.server.uri, "warehouse": shelf.warehouse},
        "spark": {"master": "local[2]"},
        "pipelines": {name: pipeline},
    }


def _readings(shelf: Shelf, name: str) -> list[int]:
    return [row["reading"] for rows in shelf.rows(f"kills.{name}") for row in rows]


_WAYS = [
    pytest.param("s3", False, id="s3-fused"),
    pytest.param("local", True, id="local-spark", marks=pytest.mark.exhaustive),
    pytest.param("s3", True, id="s3-spark", marks=pytest.mark.exhaustive),
    pytest.param("local", False, id="local-fused", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("datasets", "through_spark"), _WAYS, indirect=["datasets"])
def test_the_driver_is_killed(datasets: Shelf, through_spark: bool) -> None:
    """One after the other, so that each start is also the recovery from the death before."""
    name, wanted = fresh("driver"), 0
    for point in IN_DRIVER:
        wanted += 2 * _BATCH
        config = _config(datasets, name, wanted, through_spark=through_spark)
        with Run(config, "--once", failpoint=f"{point}@2") as run:
            assert run.wait() == -signal.SIGKILL, run.story()
        there = _readings(datasets, name)
        assert there == list(range(len(there)))
        assert len(there) < wanted or point == "round.job-done"
    _finish(datasets, name, wanted + _BATCH, through_spark=through_spark)


@pytest.mark.parametrize(("datasets", "through_spark"), _WAYS, indirect=["datasets"])
def test_workers_are_killed(datasets: Shelf, through_spark: bool) -> None:
    """Spark runs a task again, or the loop its round: the file may be there already."""
    name = fresh("worker")
    config = _config(datasets, name, 6 * _BATCH, through_spark=through_spark)
    with Run(config, "--once", trap=(",".join(IN_TASKS), "kill")) as run:
        assert run.wait() == 0, run.story()
        assert run.trapped == set(IN_TASKS), run.story()
        assert run.events("round-retried"), run.story()
    assert _readings(datasets, name) == list(range(6 * _BATCH))


def _finish(shelf: Shelf, name: str, records: int, *, through_spark: bool) -> None:
    with Run(_config(shelf, name, records, through_spark=through_spark), "--once") as run:
        assert run.wait() == 0, run.story()
    assert _readings(shelf, name) == list(range(records))
    assert all(len(rows) <= _BATCH for rows in shelf.rows(f"kills.{name}"))
