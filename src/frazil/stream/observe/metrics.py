"""Prometheus metrics of a running process, one label: the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from frazil.stream.events import (
    CaughtUp,
    Claimed,
    Event,
    RoundCommitted,
    RoundRetried,
    RoundStarted,
    Stopped,
    TableStopped,
)

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_LABELS = ("pipeline",)


class Metrics:
    """An observer that counts."""

    def __init__(self, pipelines: Iterable[str], *, wall: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._wall = wall
        ProcessCollector(registry=self.registry)
        self._read = self._counter("records_read", "Records taken from the log by committed rounds.")
        self._written = self._counter("rows_written", "Rows in committed files.")
        self._bad = self._counter("dead_letters", "Records that became dead letters in committed rounds.")
        self._bytes = self._counter("bytes_written", "Bytes of committed files.")
        self._files = self._counter("files_written", "Committed files.")
        self._commits = self._counter("commits", "Rounds that were committed.")
        self._retries = self._counter("retries", "Rounds that failed and were tried again.")
        self._failures = self._counter("failures", "Times that the pipeline was ended by an error.")
        self._round = self._histogram("round_seconds", "A whole round, from its plan to its commit.")
        self._job = self._histogram("job_seconds", "The Spark job of a round.")
        self._commit = self._histogram("commit_seconds", "The commit of a round.")
        self._lag = self._gauge("lag_offsets", "Offsets that are not read yet.")
        self._partition_lag = Gauge(
            "frazil_pipeline_partition_lag_offsets",
            "Offsets of a partition that are not read yet.",
            ("pipeline", "topic", "partition"),
            registry=self.registry,
        )
        #: By pipeline, the partitions that have a series.
        self._partitions: dict[str, set[tuple[str, int]]] = {}
        self._last = self._gauge("last_commit_timestamp_seconds", "When the last round was committed.")
        self._epoch = self._gauge("epoch", "Counts the writers of the pipeline; this process is the newest.")
        self._running = self._gauge("running", "1 while the pipeline runs, 0 after it ended.")
        for name in pipelines:
            self._begin(name)

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)

    def notify(self, event: Event) -> None:
        name = event.pipeline
        match event:
            case Claimed():
                self._epoch.labels(name).set(event.epoch)
            case RoundStarted():
                self._lag.labels(name).set(event.offsets + event.lag)
            case RoundCommitted():
                self._committed(event)
            case CaughtUp():
                self._lag.labels(name).set(0)
                for topic, partition in self._partitions.get(name, ()):
                    self._partition_lag.labels(name, topic, partition).set(0)
            case RoundRetried():
                self._retries.labels(name).inc()
            case TableStopped():
                self._failures.labels(name).inc()
            case Stopped():
                self._running.labels(name).set(0)
                if event.error is not None:
                    self._failures.labels(name).inc()

    def _begin(self, name: str) -> None:
        """A series that is there from the start: a rate over it misses nothing."""
        for counter in (self._read, self._written, self._bad, self._bytes, self._files, self._commits):
            counter.labels(name)
        for counter in (self._retries, self._failures):
            counter.labels(name)
        self._running.labels(name).set(1)

    def _committed(self, event: RoundCommitted) -> None:
        name = event.pipeline
        self._read.labels(name).inc(event.read)
        self._written.labels(name).inc(event.written)
        self._bad.labels(name).inc(event.bad)
        self._bytes.labels(name).inc(event.bytes)
        self._files.labels(name).inc(event.files)
        self._commits.labels(name).inc()
        self._round.labels(name).observe(event.seconds)
        self._job.labels(name).observe(event.job_seconds)
        self._commit.labels(name).observe(event.commit_seconds)
        self._lag.labels(name).set(event.lag)
        for topic, lags in event.lags.items():
            for partition, lag in enumerate(lags):
                self._partitions.setdefault(name, set()).add((topic, partition))
                self._partition_lag.labels(name, topic, partition).set(lag)
        self._last.labels(name).set(self._wall())

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(f"frazil_pipeline_{name}", about, _LABELS, registry=self.registry)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(f"frazil_pipeline_{name}", about, _LABELS, registry=self.registry)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(f"frazil_pipeline_{name}", about, _LABELS, registry=self.registry, buckets=_SECONDS)
