"""Tables that ask for it are looked after by the service itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.hot.tiering.world import Table, World

from frazil.core.stamp import Mirror, Stamp, stamp_key
from frazil.hot import table as hot_table
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
    "frazil__hot__keep": "1s",
}


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes a hundred commits and a day otherwise."""
    monkeypatch.setattr(Maintenance, "merge_every", 5)
    monkeypatch.setattr(Maintenance, "keep_snapshots", 2.0)
    monkeypatch.setattr(hot_table, "_KEEP_MARGIN", 1.0)
    monkeypatch.setattr(caretaker, "_EXPIRE_AT_LEAST", 2)
    monkeypatch.setattr(expiry, "AT_LEAST", 2)
    monkeypatch.setattr(care, "_PATIENCE", 2)
    monkeypatch.setattr(care, "_OWN_SETTINGS", Maintenance(5, 2.0))
    monkeypatch.setattr(history, "_EVERY_SECONDS", 0.5)


def _sizes(metadata: dict[str, Any]) -> tuple[int, int]:
    """Files and snapshots."""
    snapshots = metadata["snapshots"]
    return int(snapshots[-1]["summary"]["total-data-files"]), len(snapshots)


def _metadata(table: Table) -> dict[str, Any]:
    return table.world.client.tables.load(table.hot.namespace, table.hot.name).metadata


def _stamp(table: Table) -> Stamp:
    found = table_status(table.world.client, table.hot, table.world.settings)
    assert (found.problems, found.backlog) == ((), 0)
    assert found.stamp is not None
    return found.stamp


def _complete(table: Table) -> bool:
    try:
        return table.complete()
    except FileNotFoundError:
        # A slow reader's snapshot expired meanwhile, as it may after two seconds.
        return False


def _read(table: Table) -> list[dict[str, Any]]:
    """Both tiers."""
    client, kafka = table.world.client, table.world.settings
    rows = Union(pinned(client, str(table.hot), kafka=kafka), client, kafka).table().to_pylist()
    return sorted(rows, key=lambda row: (row["id"], row["word"]))


def _own_is_kept(world: World, namespace: tuple[str, ...], name: str) -> bool:
    """The service's own table has no settings: it is looked after as any other."""
    metadata = world.client.tables.load(namespace, name).metadata
    written = Mirror.decode(metadata["properties"][stamp_key(history.WRITER)]).stamp.round
    return written >= _ROUNDS and max(_sizes(metadata)) < _ROUNDS


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
            service.until(lambda: all(_complete(table) for table in tables))
        assert min(_sizes(_metadata(plain))) >= _ROUNDS
        # It comes to them in turn, when it has time.
        service.until(lambda: all(max(_sizes(_metadata(one))) < _ROUNDS for one in (keyed, log)))
        service.until(lambda: _own_is_kept(world, where, "measured"))
    assert not service.errors
    # Nobody tiers and expires any more while both tiers are read.
    for table in (keyed, log):
        assert _stamp(table).read == (3 if table.keyed else 2) * _ROUNDS
        table.put(99)
        assert _read(table) == table.wanted()
    assert len({row["at"] for row in world.rows(f"{where[0]}.measured")}) >= _ROUNDS
    # Nothing that the next service needs is gone.
    for table in tables:
        table.put(100)
    world.once()
    assert all(table.complete() for table in tables)
