"""The benchmark of lineage: its truth, and how it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.lineage.__main__ import many, run
from bench.lineage.jobs import ICEBERG_TABLES, JOBS, NAMESPACE
from bench.lineage.report import OURS, THEIRS, Report, Run
from bench.lineage.score import Said, score, truth


def test_the_truth_names_every_column_of_a_table() -> None:
    for job in JOBS:
        for sink, columns in job.writes.items():
            namespace, _, name = sink.partition(".")
            if namespace == NAMESPACE:
                defined = ICEBERG_TABLES[name].partition(", PRIMARY")[0]
                assert [part.split()[0] for part in defined.split(", ")] == list(columns), job.name


def test_what_is_missing_and_what_is_wrong() -> None:
    right = {job.name: truth(job) for job in JOBS}
    found = score(right)
    assert (found.missing, found.wrong) == ([], [])
    assert (found.sources, found.sinks, found.columns) == (
        found.of_sources,
        found.of_sinks,
        found.of_columns,
    )
    before = truth(JOBS[0])
    right[JOBS[0].name] = Said(before.reads, frozenset({"kafka:other"}), before.columns)
    right.pop(JOBS[1].name)
    found = score(right)
    assert found.of_sinks - found.sinks == 2
    assert found.wrong == ["append writes kafka:other"]
    assert "append_old_sink reads kafka:shop.orders" in found.missing


def test_results() -> None:
    good, none = score({job.name: truth(job) for job in JOBS}), score({})
    wrong = score({JOBS[0].name: Said(frozenset({"kafka:other"}))})
    runs = [Run(OURS, "gateway", good, whole=True), Run(OURS, "", wrong), Run(THEIRS, "", none)]
    report = Report(runs, 1000, {OURS: 12.0, THEIRS: 99.0})
    assert [result.line() for result in report.results()] == [
        "RESULT lineage.sinks_resolved 1.00 >=1 ok",
        "RESULT lineage.sources_resolved 1.00 >=1 ok",
        "RESULT lineage.columns_right 1.00 >=1 ok",
        "RESULT lineage.wrong_edges 1.00 <=0 short",
        "RESULT lineage.thousand_jobs_s 12.00 <=60 ok",
    ]
    assert report.table()[3] == ("DataHub's own", "", "0 of 19", "0 of 17", "0 of 44", "0")
    assert "wrong: append reads kafka:other" in report.text()


@pytest.mark.exhaustive
@pytest.mark.jvm
@pytest.mark.services
@pytest.mark.slow
def test_a_run() -> None:
    results = {result.name: result.verdict for result in run(50).results()}
    assert results.pop("lineage.thousand_jobs_mb") == "-", "it has no goal"
    assert set(results.values()) == {"ok"}
    assert len(results) == 5


def test_both_sources_are_run(tmp_path: Path) -> None:
    assert many(OURS, 5, tmp_path) > 0
    assert many(THEIRS, 5, tmp_path) > 0
