"""While pipelines run, others write to their tables, add partitions, and roll a table back."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections import Counter

import pytest
from pyiceberg.table.snapshots import Operation
from tests.stream.crash import outside
from tests.stream.crash.conftest import MakeLine
from tests.stream.crash.records import Row
from tests.stream.crash.runs import Run
from tests.stream.crash.tables import Shelf
from tests.stream.crash.world import Line, caught_up, config

pytestmark = [pytest.mark.services, pytest.mark.jvm, pytest.mark.slow]


def test_others_change_things_while_pipelines_run(local_shelf: Shelf, make_line: MakeLine) -> None:
    busy, grown, rolled = lines = [make_line(local_shelf, name) for name in ("busy", "grown", "rolled")]
    # So many rounds that files are merged between them.
    busy.records_per_round = busy.records_per_task = 30
    busy.partitioning, busy.merge_every = (), 5
    for line in lines:
        line.feed.produce(150)
    with Run(config(*lines), "--metrics-port", "0") as run:
        for line in lines:
            caught_up(run, line)
        extra: Counter[Row] = Counter()
        for _ in range(4):
            busy.feed.produce(60)
            extra += outside.append_rows(busy, 2)
        outside.add_column(busy, "added")
        outside.add_partitions(grown.feed, 4)
        for line in (busy, grown):
            line.feed.produce(150)
        outside.roll_back(rolled, 1)
        rolled.feed.produce(30)
        run.until_event("stopped", pipeline=rolled.name)
        caught_up(run, busy, extra=extra)
        caught_up(run, grown)
        assert len(grown.next_offsets()) == 4
        _check_metrics(run, busy)
        # The last commit is told of before what is due after it is done.
        run.until(lambda: _merges(busy), "merged files")
        run.signal(signal.SIGINT)
        assert run.wait() == 1, run.story()
        assert f"pipeline {rolled.name} failed" in run.errors
        assert "rolled back" in run.errors
    rolled.check(complete=False)


def _merges(line: Line) -> int:
    """Commits that put other files in the place of some."""
    summaries = [each.summary for each in line.shelf.load(line.table).snapshots()]
    return sum(summary is not None and summary.operation is Operation.REPLACE for summary in summaries)


def _check_metrics(run: Run, line: Line) -> None:
    (uri,) = re.findall(r"Metrics at (\S+)/metrics", run.errors)
    with urllib.request.urlopen(f"{uri}/metrics", timeout=120) as answer:
        text = answer.read().decode()
    (rows,) = re.findall(rf'rows_written_total{{pipeline="{line.name}"}} (\S+)', text)
    assert float(rows) == len(line.feed.log())
