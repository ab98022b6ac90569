"""Prometheus metrics of the server."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from frazil.catalog.http.routing import Endpoint

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class _Observed:
    """Requests of one operation and status: how long they took together, and how many in each bucket."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(_BUCKETS) + 1)


class RequestMetrics(Collector):
    """Counts requests by operation and status and measures how long they take."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests: dict[tuple[str, int], _Observed] = {}
        self.registry.register(self)
        self.commit_conflicts = Counter(
            "frazil_commit_conflicts",
            "Commits that lost the swap and were tried again.",
            registry=self.registry,
        )
        self.reports = Counter(
            "frazil_metrics_reports", "Scan and commit reports of engines.", ["type"], registry=self.registry
        )
        self.purged_files = Counter(
            "frazil_purged_files", "Files deleted by table purges.", registry=self.registry
        )
        self.purges_waiting = Gauge(
            "frazil_purges_waiting", "Purges not yet finished.", registry=self.registry
        )

    def observe(self, endpoint: Endpoint | None, status: int, seconds: float) -> None:
        key = (endpoint.name if endpoint else "none", status)
        observed = self._requests.get(key)
        if observed is None:
            observed = self._requests[key] = _Observed()
        observed.seconds += seconds
        observed.buckets[bisect_left(_BUCKETS, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """Renders what `observe` gathered, which is far cheaper than the library's own histogram."""
        requests = CounterMetricFamily(
            "frazil_http_requests", "Requests answered.", labels=["operation", "status"]
        )
        histogram = HistogramMetricFamily(
            "frazil_http_request_seconds",
            "Time from the request line to the last byte handed to the socket.",
            labels=["operation", "status"],
        )
        for (operation, status), observed in sorted(self._requests.items()):
            counts = list(accumulate(observed.buckets))
            requests.add_metric([operation, str(status)], counts[-1])
            buckets = [(str(bound), count) for bound, count in zip((*_BUCKETS, "+Inf"), counts, strict=True)]
            histogram.add_metric([operation, str(status)], buckets=buckets, sum_value=observed.seconds)
        yield requests
        yield histogram

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)
