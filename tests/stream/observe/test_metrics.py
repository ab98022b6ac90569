"""/metrics and /health, asked over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.stream.observe.story import claimed, committed, started

from frazil.core.errors import ServiceError
from frazil.stream.events import CaughtUp, RoundRetried, Stopped
from frazil.stream.observe import Board, Metrics, MetricsServer, Observers


class Served:
    def __init__(self) -> None:
        self.board, self.metrics = (
            Board(["orders", "clicks"]),
            Metrics(["orders", "clicks"], wall=lambda: 42.5),
        )
        self.observers = Observers([self.board, self.metrics])
        self.server = MetricsServer(self.board, self.metrics)

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.server.uri + path, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def samples(self) -> dict[tuple[str, str], float]:
        _, text = self.get("/metrics")
        return {
            (sample.name.removeprefix("frazil_pipeline_"), sample.labels["pipeline"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "pipeline" in sample.labels and not {"le", "topic"} & set(sample.labels)
        }

    def partition_lags(self) -> dict[tuple[str, str], float]:
        _, text = self.get("/metrics")
        return {
            (sample.labels["topic"], sample.labels["partition"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "topic" in sample.labels
        }


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    with found.server:
        yield found


def test_every_count_starts_at_zero(served: Served) -> None:
    samples = served.samples()
    for name in ("records_read", "rows_written", "bytes_written", "files_written", "commits", "retries"):
        assert samples[f"{name}_total", "clicks"] == 0
    assert samples["running", "orders"] == 1


def test_commits_are_counted(served: Served) -> None:
    for event in (claimed(), started(), committed(), started(round=2), committed(written=10, lag=0)):
        served.observers.notify(event)
    samples = served.samples()
    expected = {
        "epoch": 3,
        "records_read_total": 200,
        "rows_written_total": 100,
        "bytes_written_total": 24_690,
        "files_written_total": 4,
        "commits_total": 2,
        "lag_offsets": 0,
        "last_commit_timestamp_seconds": 42.5,
        "round_seconds_count": 2,
        "round_seconds_sum": 5,
        "job_seconds_sum": 4,
        "commit_seconds_sum": 1,
    }
    assert {name: samples[name, "orders"] for name in expected} == expected


def test_the_lag_of_each_partition(served: Served) -> None:
    served.observers.notify(committed(lag=40))
    assert served.partition_lags() == {("orders-topic", "0"): 30, ("orders-topic", "1"): 10}
    served.observers.notify(CaughtUp("orders"))
    assert set(served.partition_lags().values()) == {0}


def test_failures_and_retries_are_counted_and_health_says_so(served: Served) -> None:
    status, body = served.get("/health")
    assert (status, json.loads(body)["status"]) == (200, "ok")
    served.observers.notify(RoundRetried("orders", "no answer", 1, 1.0))
    status, body = served.get("/health")
    assert (status, json.loads(body)["pipelines"]["orders"]["state"]) == (200, "retrying")
    served.observers.notify(Stopped("orders", "a bad record"))
    served.observers.notify(Stopped("clicks"))
    samples = served.samples()
    assert (samples["retries_total", "orders"], samples["failures_total", "orders"]) == (1, 1)
    assert samples["failures_total", "clicks"] == 0
    assert samples["running", "orders"] == 0
    status, body = served.get("/health")
    assert status == 503
    assert json.loads(body)["pipelines"]["orders"]["trouble"] == "a bad record"


def test_other_paths_are_not_found(served: Served) -> None:
    assert served.get("/")[0] == 404


def test_a_port_that_is_taken_is_told(served: Served) -> None:
    port = int(served.server.uri.rpartition(":")[2])
    with pytest.raises(ServiceError, match=f"127.0.0.1:{port}.*--metrics-port"):
        MetricsServer(served.board, served.metrics, port=port)
