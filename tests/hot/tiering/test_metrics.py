"""What /metrics tells of hot tables."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from tests.hot.tiering.world import Table, World

from frazil.core.errors import InvalidConfig
from frazil.hot.tiering.metrics import HotMetrics
from frazil.stream.events import FreshnessBroken, FreshnessReported, TableFreshness, TableStopped


def test_gauges_and_counters() -> None:
    registry = CollectorRegistry()
    metrics = HotMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"frazil_hot_{name}", {"table": "a.b", **labels})

    metrics.notify(FreshnessReported("hot", (TableFreshness("a.b", 1.5, 4.0, 7, trouble="bad"),)))
    assert [value(name) for name in ("lag_seconds", "freshness_seconds", "backlog_offsets", "failing")] == [
        1.5,
        4.0,
        7.0,
        1.0,
    ]
    for cause in ("round", "round", "kafka"):
        metrics.notify(FreshnessBroken("hot", "a.b", 5.0, 4.0, cause))
    assert value("breaches_total", cause="round") == 2.0
    assert value("breaches_total", cause="kafka") == 1.0
    metrics.notify(FreshnessReported("hot", (TableFreshness("a.b", 0.0, 4.0, 0),)))
    assert (value("failing"), value("lag_seconds")) == (0.0, 0.0)
    # It is gone; what was counted is not.
    metrics.notify(FreshnessReported("hot", ()))
    assert value("lag_seconds") is None
    assert value("breaches_total", cause="round") == 2.0


def test_a_table_whose_properties_became_wrong(world: World) -> None:
    bad, good = world.table(table__datalake__freshness="2s"), world.table()
    registry = CollectorRegistry()
    metrics = HotMetrics(registry)

    def failing(table: Table) -> float | None:
        return registry.get_sample_value("frazil_hot_failing", {"table": str(table.hot)})

    with world.tiering(observers=(metrics,)) as service:
        bad.put(1)
        service.until(lambda: bad.complete() and failing(bad) == 0.0)
        bad.alter(table__datalake__freshness="soon")
        # One thread tells the one, another the other.
        service.until(lambda: failing(bad) == 1.0 and bool(service.seen.of(TableStopped)))
        assert [event.table for event in service.seen.of(TableStopped)] == [str(bad.hot)]
        # The promise stands.
        bad.put(2)
        service.until(
            lambda: any(
                (one.table, one.cause) == (str(bad.hot), "failing")
                for one in service.seen.of(FreshnessBroken)
            )
        )
        good.put(1)
        service.until(good.complete)
        bad.alter(table__datalake__freshness="2s")
        service.until(lambda: bad.complete() and failing(bad) == 0.0)
    assert not service.errors
    bad.alter(table__datalake__freshness="soon")
    with pytest.raises(InvalidConfig, match="soon"):
        world.once()
    bad.alter(table__datalake__freshness="2s")
