"""How fresh hot tables are, for /metrics: one label more, the table."""

from __future__ import annotations

import contextlib

from prometheus_client import CollectorRegistry, Counter, Gauge

from frazil.stream.events import Event, FreshnessBroken, FreshnessReported, TableFreshness


class HotMetrics:
    """An observer that adds to what a registry has."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = _gauge(registry, "lag_seconds", "Age of the oldest record that is not in Iceberg.")
        self._freshness = _gauge(registry, "freshness_seconds", "What was promised.")
        self._backlog = _gauge(registry, "backlog_offsets", "Offsets that are not in Iceberg.")
        self._watermark = _gauge(
            registry,
            "watermark_seconds",
            "Event time that Iceberg has reached, seconds since 1970; of tables with an event time.",
        )
        self._failing = _gauge(registry, "failing", "1 while the table does not go on, else 0.")
        self._breaches = Counter(
            "frazil_hot_breaches",
            "Times that the lag went beyond the freshness, by cause.",
            ("table", "cause"),
            registry=registry,
        )
        self._known: set[str] = set()

    def notify(self, event: Event) -> None:
        match event:
            case FreshnessBroken():
                self._breaches.labels(event.table, event.cause).inc()
            case FreshnessReported():
                self._report(event.tables)
            case _:
                pass

    def _report(self, tables: tuple[TableFreshness, ...]) -> None:
        for one in tables:
            self._lag.labels(one.table).set(one.lag)
            self._freshness.labels(one.table).set(one.freshness)
            self._backlog.labels(one.table).set(one.backlog)
            self._failing.labels(one.table).set(one.trouble is not None)
            if one.watermark is not None:
                self._watermark.labels(one.table).set(one.watermark / 1_000_000)
        names = {one.table for one in tables}
        for gone in self._known - names:
            for gauge in (self._lag, self._freshness, self._backlog, self._failing):
                gauge.remove(gone)
            with contextlib.suppress(KeyError):
                # Not all have one.
                self._watermark.remove(gone)
        self._known = names


def _gauge(registry: CollectorRegistry, name: str, about: str) -> Gauge:
    return Gauge(f"frazil_hot_{name}", about, ("table",), registry=registry)
