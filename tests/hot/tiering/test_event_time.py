"""The event time that a hot table's rows in Iceberg have reached."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from tests.hot.tiering.world import Table, World

from frazil.core.schema import Field, Schema
from frazil.hot.tiering.metrics import HotMetrics
from frazil.hot.tiering.status import table_status

_COLUMNS = Schema((Field("id", "long"), Field("word", "string"), Field("at", "timestamptz")))
_NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _send(table: Table, partition: int, number: int, at: datetime | None) -> None:
    key = json.dumps({"id": number}, separators=(",", ":")).encode() if table.keyed else None
    row = {"id": number, "word": "w", "at": None if at is None else at.isoformat()}
    table.send(key, json.dumps(row).encode(), partition)


def _watermark(table: Table) -> datetime | None:
    return table_status(table.world.client, table.hot, table.world.settings).watermark


def _told(registry: CollectorRegistry, table: Table) -> float | None:
    return registry.get_sample_value("frazil_hot_watermark_seconds", {"table": str(table.hot)})


@pytest.mark.parametrize("key", [("id",), ()], ids=["keyed", "log"])
def test_the_watermark_follows_the_slowest_partition(world: World, key: tuple[str, ...]) -> None:
    table = world.table(columns=_COLUMNS, key=key, frazil__hot__event_time="at")
    _send(table, 0, 1, _NOON + timedelta(minutes=5))
    _send(table, 0, 2, _NOON)
    _send(table, 1, 3, _NOON + timedelta(minutes=2))
    world.once()
    assert _watermark(table) == _NOON + timedelta(minutes=2)
    # Nothing that has a time, and something late: it does not go back.
    _send(table, 0, 4, None)
    world.once()
    _send(table, 1, 5, _NOON - timedelta(hours=1))
    world.once()
    assert _watermark(table) == _NOON + timedelta(minutes=2)
    if table.keyed:
        table.delete(1)
        world.once()
        assert _watermark(table) == _NOON + timedelta(minutes=2)


def test_it_is_told_and_found_again(world: World) -> None:
    table, plain = world.table(columns=_COLUMNS, bucket__num="1"), world.table()
    later = _NOON + timedelta(seconds=1.5)
    first, second = CollectorRegistry(), CollectorRegistry()
    with world.tiering(observers=(HotMetrics(first),)) as service:
        _send(table, 0, 1, _NOON)
        plain.put(1)
        service.until(lambda: len(table.found()) == 1 and plain.complete())
        assert (_told(first, table), _watermark(table)) == (None, None)
        # Named while the service runs, which finds it within seconds.
        table.alter(frazil__hot__event_time="at")

        def sent() -> bool:
            _send(table, 0, 2, later)
            return _told(first, table) == later.timestamp()

        service.until(sent)
    assert _told(first, plain) is None
    # The next service tells it by what is in Iceberg.
    with world.tiering(observers=(HotMetrics(second),)) as service:
        _send(table, 0, 3, None)
        service.until(lambda: _told(second, table) == later.timestamp())
        # The column goes: the table goes on without one.
        table.sql("ALTER TABLE {} DROP COLUMN at")
        table.send(b'{"id":4}', b'{"id": 4, "word": "w"}')
        service.until(lambda: len(table.found()) == 4)
    assert not service.errors
    assert _watermark(table) == later
