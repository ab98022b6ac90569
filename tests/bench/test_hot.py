"""The benchmark of hot tables: what it compares with, and how it counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from bench.cdc.changes import Workload
from bench.cdc.rows import table_of
from bench.hot.__main__ import parsed, run
from bench.hot.events import Stream
from bench.hot.many import Commit, Kept, Settings, commits_of, oldest_ages
from bench.hot.place import Broken, broken, place
from bench.hot.report import Report
from bench.hot.union import Tail, groups_of
from bench.meter import Usage

from frazil.core.stamp import Position, Stamp, stamp_key
from frazil.hot.table import TIERING


@pytest.mark.parametrize("keys", [0, 7])
def test_rows_that_events_leave(keys: int) -> None:
    stream, rows = Stream("t", keys), dict[int, int]()
    events = zip(stream.ids(1000).tolist(), stream.deletes(1000).tolist(), strict=True)
    for number, (i, gone) in enumerate(events):
        rows.pop(i, None)
        if not gone:
            rows[i] = number
    assert dict(stream.rows(1000)) == rows
    assert stream.deletes(1000).any() == bool(keys)
    assert not stream.deletes(1000)[-100:].any(), "that all was seen is seen by rows"


def test_groups() -> None:
    workload = Workload(3000, 200, "random")
    workload.batch()
    alive = workload.alive
    rows = table_of(alive, workload.versions[alive]).group_by("status")
    found = rows.aggregate([("quantity", "count"), ("quantity", "sum")]).to_pylist()
    assert groups_of(workload) == {
        row["status"]: (row["quantity_count"], row["quantity_sum"]) for row in found
    }


def test_overhead() -> None:
    tail = Tail(100_000)
    for plain, union in ((2.0, 2.4), (4.0, 9.0), (1.0, 1.0)):
        tail.used["plain"].append(Usage(cpu={"jvm": plain}))
        tail.used["union"].append(Usage(cpu={"jvm": union / 2, "workers": union / 2}))
    assert tail.overhead == pytest.approx(0.2), "of the middle ones"
    report = Report(10, [Tail(0, tail.used), tail, Tail(1_000_000, tail.used, wrong=3)])
    assert [result.line() for result in report.results()] == [
        "RESULT hot.union_overhead.100k 0.20 <=0.3 ok",
        "RESULT hot.union_overhead.1m 0.20 - -",
        "RESULT hot.rows_wrong 3.00 <=0 short",
    ]
    assert "| 0 | plain Iceberg |" in report.markdown()


def test_the_age_of_the_oldest_record_of_a_commit() -> None:
    sent = np.arange(10.0)
    commits = [Commit(1.0, 0), Commit(4.5, 4), Commit(5.0, 4), Commit(40.0, 10)]
    assert oldest_ages(commits, sent) == [(0, 4.5), (4, 36.0)], "commits with nothing in them have none"


def test_commits_of_tiering_alone() -> None:
    def snapshot(number: int, end: int | None) -> dict[str, object]:
        position = {"t": Position(id="x", next=(end or 0,))}
        stamp = Stamp(
            pipeline=TIERING, epoch=1, round=number, token="a", source="kafka:x", positions=position
        )
        summary = {} if end is None else {stamp_key(TIERING): stamp.encode()}
        return {"sequence-number": number, "timestamp-ms": number * 1000, "summary": summary}

    found = commits_of([snapshot(3, 9), snapshot(1, 0), snapshot(2, None)], "t")
    assert found == [Commit(1.0, 0), Commit(3.0, 9)]


def test_breaches() -> None:
    event = {"event": "freshness-broken", "at": "2026-01-01T00:00:20.500Z", "table": "a.b", "lag": 31.5}
    log = "\n".join(["no JSON", json.dumps(event | {"cause": "round"}), json.dumps({"event": "claimed"})])
    found = broken(log)
    assert found == [Broken(1_767_225_620.5, "a.b", 31.5, "round")]
    assert found[0].since == 1_767_225_589.0, "a record of the warm-up is not counted, whenever it is told"
    kept = Kept(Settings(50, 10, 1, "30s", 60), 1, found, 1, 5, 0, 1.0, 2.0, 3, 0.5, 0, 1.0)
    assert kept.breaches == 5, "by whoever found more"
    assert "1 by round, the worst after 31.5 s" in Report(0, kept=kept).text()
    assert [result.name for result in Report(0, kept=kept).results()] == ["hot.breaches.50", "hot.rows_wrong"]


@pytest.mark.exhaustive
@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.slow
def test_a_tiny_run() -> None:
    """At a place of its own: the service would tier what other tests left behind."""
    arguments = "--quick --rows 5000 --tails 0,500 --rate 500 --seconds 5 --tables 3 --minutes 0.5"
    with place() as where:
        report = run(where, parsed(arguments.split()))
    results = {result.name: result.value for result in report.results()}
    assert results["hot.rows_wrong"] == 0
    assert {"hot.union_overhead.500", "hot.visible_seconds.p99", "hot.breaches.3"} <= set(results)
    assert report.kept is not None
    assert report.kept.commits >= 3
    assert report.markdown().count("| 500 |") == 2
