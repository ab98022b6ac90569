"""Prometheus metrics of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

if TYPE_CHECKING:
    from frazil.catalog.http.routing import Endpoint

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class RequestMetrics:
    """Counts requests by operation and status and measures how long they take."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "frazil_http_requests", "Requests answered.", ["operation", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "frazil_http_request_seconds",
            "Time from the request line to the last byte handed to the socket.",
            ["operation"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
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
        # Looking a labelled child up costs more than using it.
        self._counters: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def observe(self, endpoint: Endpoint | None, status: int, seconds: float) -> None:
        operation = endpoint.name if endpoint else "none"
        counter = self._counters.get((operation, status))
        if counter is None:
            counter = self._counters[(operation, status)] = self._requests.labels(operation, str(status))
            self._timers[operation] = self._seconds.labels(operation)
        counter.inc()
        self._timers[operation].observe(seconds)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)
