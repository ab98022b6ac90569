"""kill -9 of a process that reads a hot table as a stream, JVM included: its checkpoint goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.hot.read.test_streaming import Copy
from tests.hot.read.world import HotRows, HotWorld, plain, row
from tests.hot.support import wait_until

import frazil

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROOT = Path(__file__).parents[3]
_PROGRAM = "import sys; from tests.hot.read.test_stream_kills import work; work(*sys.argv[1:])"
_HELD = "held"
#: Until a process has started a JVM and read some batches, on a machine whose cores are all busy.
_SECONDS = 600.0


def work(uri: str, table: str, folder: str, hold: str) -> None:
    """What the process does. It rests in the batch `hold`, whose rows landed while Spark does not know it."""
    from frazil.lake.session import spark_session, spark_settings

    spark, place = spark_session(spark_settings(f"{uri}/catalog")), Path(folder)

    def take(frame: DataFrame, number: int) -> None:
        rows = [plain([one.asDict()])[0] for one in frame.collect()]
        (place / f"{number}-{os.getpid()}.json").write_text(json.dumps(rows))
        if number == int(hold):
            (place / _HELD).touch()
            time.sleep(2 * _SECONDS)

    changes = frazil.read_stream(
        spark, table, catalog={"uri": uri, "warehouse": "default"}, records_per_batch=7
    )
    state = str(place / "state")
    query = changes.writeStream.option("checkpointLocation", state).foreachBatch(take).start()
    query.processAllAvailable()
    query.stop()
    spark.stop()


@contextmanager
def started(table: HotRows, folder: Path, hold: int = -1) -> Iterator[subprocess.Popen[bytes]]:
    """It is dead behind the block, whatever it was doing."""
    table.flush()
    arguments = [table.world.server.uri, table.name, str(folder), str(hold)]
    with (folder / "errors").open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # Python may be dead already; its JVM is not.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_SECONDS)


def killed(table: HotRows, folder: Path, hold: int) -> None:
    with started(table, folder, hold) as process:
        wait_until(lambda: (folder / _HELD).exists() or process.poll() is not None, f"batch {hold}", _SECONDS)
    assert process.returncode == -signal.SIGKILL, (folder / "errors").read_text()[-4000:]
    (folder / _HELD).unlink()


def landed(folder: Path) -> dict[int, list[list[dict[str, Any]]]]:
    """What each batch had, once for each time that it was run."""
    found: dict[int, list[list[dict[str, Any]]]] = {}
    for path in folder.glob("*-*.json"):
        found.setdefault(int(path.name.partition("-")[0]), []).append(json.loads(path.read_text()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "holds",
    [
        pytest.param((1,), id="history"),
        pytest.param((0, 2, 3, 5), id="everywhere", marks=pytest.mark.exhaustive),
    ],
)
def test_killed_and_started_again(hot: HotWorld, tmp_path: Path, holds: tuple[int, ...]) -> None:
    """Batches 0 to 2 are history; then comes the log, that goes on and is tiered while nobody reads."""
    table = hot.table()
    table.put(*map(row, range(20))).tier()
    table.put(row(1, "new"), row(30)).delete(2, 99)
    for number, hold in enumerate(holds):
        killed(table, tmp_path, hold)
        table.put(row(3, f"later{number}"), row(40 + number)).delete(5 + number).tier()
        table.put(row(1, f"last{number}"), row(50 + number)).delete(40 + number)
    with started(table, tmp_path) as process:
        assert process.wait(_SECONDS) == 0, (tmp_path / "errors").read_text()[-4000:]
    runs = landed(tmp_path)
    assert {number for number, rows in runs.items() if len(rows) == 2} == set(holds)
    assert all(rows == rows[:1] * len(rows) for rows in runs.values()), (
        "a batch that is run again is the same"
    )
    copy = Copy(table, tmp_path)
    copy.batches = {number: rows[0] for number, rows in runs.items()}
    copy.check()
    assert len(copy.batches) > max(holds) + 1
