"""Tables that ask for it are looked after by the service itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hot.tiering.world import Table, World

from frazil.core.stamp import Stamp
from frazil.hot.read.arrow import Union
from frazil.hot.read.pins import pinned
from frazil.hot.tiering import care, history
from frazil.hot.tiering.status import table_status
from frazil.maintenance import Maintenance, caretaker, expiry

_ROUNDS = 14
_FAST: dict[str, Any] = {"table__datalake__freshness": "1s", "bucket__num": "1"}
_KEPT: dict[str, Any] = _FAST | {
    "table__datalake__auto_compaction": "true",
    "table__datalake__auto_expire_snapshot": "true",
}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a hundred commits and a day otherwise."""
    monkeypatch.setattr(Maintenance, "merge_every", 5)
    monkeypatch.setattr(Maintenance, "keep_snapshots", 2.0)
    monkeypatch.setattr(caretaker, "_EXPIRE_AT_LEAST", 2)
    monkeypatch.setattr(expiry, "AT_LEAST", 2)
    monkeypatch.setattr(care, "_PATIENCE", 2)
    monkeypatch.setattr(care, "_OWN_SETTINGS", Maintenance(5, 2.0))
    monkeypatch.setattr(history, "_EVERY_SECONDS", 0.5)


def _snapshots(table: Table) -> list[dict[str, Any]]:
    found = table.world.client.tables.load(table.hot.namespace, table.hot.name).metadata
    return list(found.get("snapshots", []))


def _files(table: Table) -> int:
    return int(_snapshots(table)[-1]["summary"]["total-data-files"])


def _stamp(table: Table) -> Stamp:
    found = table_status(table.world.client, table.hot, table.world.settings)
    assert (found.problems, found.backlog) == ((), 0)
    assert found.stamp is not None
    return found.stamp


def _read(table: Table) -> list[dict[str, Any]]:
    """Both tiers."""
    client, kafka = table.world.client, table.world.settings
    rows = Union(pinned(client, str(table.hot), kafka=kafka), client, kafka).table().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["word"]))


@pytest.mark.usefixtures("eager")
def test_files_are_merged_and_snapshots_expire(world: World) -> None:
    keyed, log, plain = tables = (
        world.table(**_KEPT),
        world.table(key=(), **_KEPT),
        world.table(key=(), **_FAST),
    )
    where = keyed.hot.namespace
    with world.tiering(history=(where, "measured")) as service:
        for number in range(_ROUNDS):
            for table in tables:
                table.put(number, number + 1, word=f"r{number}-")
            keyed.delete(number)
            service.until(lambda: all(table.complete() for table in tables))
        assert min(_files(plain), len(_snapshots(plain))) >= _ROUNDS
        for table in (keyed, log):
            assert max(_files(table), len(_snapshots(table))) < _ROUNDS
            assert _stamp(table).read == (3 if table.keyed else 2) * _ROUNDS
            table.put(99)
            assert _read(table) == table.wanted()
    assert not service.errors
    # The service's own table has no settings: it is looked after as any other.
    own = world.client.tables.load(where, "measured").metadata["snapshots"]
    assert max(int(own[-1]["summary"]["total-data-files"]), len(own)) < _ROUNDS
    assert len({row["at"] for row in world.rows(f"{where[0]}.measured")}) >= _ROUNDS
    # Nothing that the next service needs is gone.
    for table in tables:
        table.put(100)
    world.once()
    assert all(table.complete() for table in tables)
