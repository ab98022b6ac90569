from __future__ import annotations

from typing import Any

import pytest

from frazil.catalog.metadata import JobWrites, writes_of, writes_of_updates
from frazil.catalog.metadata.jobs import MAX_JOB_ID_LENGTH, MAX_JOBS_OF_SNAPSHOT

Json = dict[str, Any]

FLINK = {
    "operation": "append",
    "flink.operator-id": "cbc357ccb763df2852fee8c4fc7d55f2",
    "flink.job-id": "e3b8c5c5b0f9c5f0a9f0a1d5f1b2c3d4",
    "flink.max-committed-checkpoint-id": "17",
}


def snapshot(number: int, summary: dict[str, str] | None) -> Json:
    found: Json = {"snapshot-id": number, "timestamp-ms": 1000 + number}
    return found if summary is None else {**found, "summary": summary}


def named(summary: dict[str, str]) -> list[tuple[str, str]]:
    return [(job.kind, job.job_id) for job in writes_of([snapshot(1, summary)])]


@pytest.mark.parametrize(
    ("summary", "jobs"),
    [
        (FLINK, [("flink", "e3b8c5c5b0f9c5f0a9f0a1d5f1b2c3d4")]),
        ({"spark.app.id": "a1", "app-id": "a1", "engine-name": "spark"}, [("spark", "a1")]),
        ({"app-id": "a1", "engine-name": "spark"}, [("spark", "a1")]),
        ({"app-id": "a1", "engine-name": "trino"}, []),
        ({"app-id": "a1"}, []),
        (
            {"frazil.stamp.orders-raw": "{…}", "spark.app.id": "a1"},
            [("spark", "a1"), ("frazil", "orders-raw")],
        ),
        ({"operation": "append"}, []),
        ({}, []),
    ],
)
def test_the_jobs_that_a_summary_names(summary: dict[str, str], jobs: list[tuple[str, str]]) -> None:
    assert named(summary) == jobs


@pytest.mark.parametrize("strange", ["", "x" * (MAX_JOB_ID_LENGTH + 1), "a\x00b", "a\nb"])
def test_an_id_that_no_index_could_hold_is_passed_over(strange: str) -> None:
    assert named({"flink.job-id": strange, "spark.app.id": "a1"}) == [("spark", "a1")]
    assert named({"frazil.stamp." + strange: "{}"}) == []


def test_no_summary_makes_a_commit_expensive() -> None:
    many = {f"frazil.stamp.p{number}": "{}" for number in range(10_000)}
    assert len(named(many)) == MAX_JOBS_OF_SNAPSHOT


def test_snapshots_of_one_job_are_counted_together() -> None:
    other = {"flink.job-id": "other"}
    found = writes_of([snapshot(1, FLINK), snapshot(2, None), snapshot(3, other), snapshot(4, FLINK)])
    assert found == (
        JobWrites("flink", FLINK["flink.job-id"], 1001, 1004, 4, 2),
        JobWrites("flink", "other", 1003, 1003, 3, 1),
    )


def test_of_a_commit_only_what_it_adds() -> None:
    updates: list[Json] = [
        {"action": "set-properties", "updates": FLINK},
        {"action": "add-snapshot", "snapshot": snapshot(7, FLINK)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    assert [job.last_snapshot_id for job in writes_of_updates(updates)] == [7]
    assert writes_of_updates(updates[:1]) == ()
