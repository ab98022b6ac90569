"""The table of what was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.hot.tiering.world import World

from frazil.core.errors import InvalidConfig, NoSuchTable, NotAllowed, Unavailable
from frazil.core.schema import Schema
from frazil.hot.tiering.history import COLUMNS, TieringHistory
from frazil.hot.tiering.status import hot_status
from frazil.hot.tiering.told import TOLD_HOURS, Told, told
from frazil.lake.catalog import Lake
from frazil.lake.delivery import Patience
from frazil.lake.table import LakeTable
from frazil.stream.events import TableFreshness


def _measured(breaches: int) -> TableFreshness:
    return TableFreshness("a.b", 1.0, 4.0, 7, breaches, "round", None)


def test_each_breach_is_told_once(world: World) -> None:
    where = world.table().hot.namespace
    history = TieringHistory(Lake(world.spark, world.client), where, "told", Patience(), every=0.0)
    history.write([_measured(2)])
    history.write([_measured(2)])
    # The table was gone for a while.
    history.write([TableFreshness("a.c", 0.0, 4.0, 0, 0, None, None)])
    history.write([_measured(3)])
    rows = sorted(world.rows(f"{where[0]}.told"), key=lambda row: row["at"])
    assert [(row["breaches"], row["cause"]) for row in rows if row["table"] == "a.b"] == [
        (2, "round"),
        (0, None),
        (1, "round"),
    ]


@pytest.mark.parametrize("refused", [False, True])
def test_a_table_of_an_older_service_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, *, refused: bool
) -> None:
    """It had no watermark, and gets one if it may."""
    where, lake = world.table().hot.namespace, Lake(world.spark, world.client)
    old = Schema(tuple(field for field in COLUMNS if field.name != "watermark"))
    name = "refused" if refused else "old"
    lake.create(where, name, old)
    if refused:
        monkeypatch.setattr(LakeTable, "evolve", _refuse)
    for at in (None, 1_500_000):
        history = TieringHistory(lake, where, name, Patience(), every=0.0)
        history.write([replace(_measured(0), watermark=at)])
    rows = sorted(world.rows(f"{where[0]}.{name}"), key=lambda row: row["at"])
    if refused:
        assert ["watermark" in row for row in rows] == [False, False]
    else:
        assert [row["watermark"] for row in rows] == [None, datetime.fromtimestamp(1.5, UTC)]


def _refuse(*_: Any) -> None:
    raise NotAllowed("not yours")


def test_a_catalog_that_is_away_is_no_refusal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    where, lake = world.table().hot.namespace, Lake(world.spark, world.client)
    lake.create(where, "later", Schema(tuple(field for field in COLUMNS if field.name != "watermark")))
    history = TieringHistory(lake, where, "later", Patience(), every=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "evolve", _nobody_answers)
        with pytest.raises(Unavailable):
            history.write([_measured(0)])
    history.write([replace(_measured(0), watermark=1_500_000)])
    (row,) = world.rows(f"{where[0]}.later")
    assert row["watermark"] == datetime.fromtimestamp(1.5, UTC)


def _nobody_answers(*_: Any) -> None:
    raise Unavailable("no answer")


def test_a_table_of_something_else_is_not_written(world: World) -> None:
    """It would get a row of nulls every minute."""
    table = world.table(key=())
    before = world.client.tables.load(table.hot.namespace, table.hot.name).metadata
    lake = Lake(world.spark, world.client)
    history = TieringHistory(lake, table.hot.namespace, table.hot.name, Patience(), every=0.0)
    with pytest.raises(InvalidConfig, match="is none that tiering wrote: the table has no column 'at'; "):
        history.write([_measured(1)])
    with pytest.raises(InvalidConfig, match="--log-table"):
        world.once(history=(table.hot.namespace, table.hot.name))
    after = world.client.tables.load(table.hot.namespace, table.hot.name).metadata
    assert (after["schemas"], after.get("snapshots")) == (before["schemas"], before.get("snapshots"))


def test_services_of_other_brokers_share_the_table(world: World) -> None:
    """Each would else end the writing of the other, and nobody would be told."""
    where, lake = world.table().hot.namespace, Lake(world.spark, world.client)
    one, other = (TieringHistory(lake, where, "shared", Patience(), every=0.0) for _ in range(2))
    for number in range(1, 4):
        one.write([_measured(number)])
        other.write([replace(_measured(2 * number), table="c.d")])
    rows = world.rows(f"{where[0]}.shared")
    assert {
        name: sum(row["breaches"] for row in rows if row["table"] == name) for name in ("a.b", "c.d")
    } == {
        "a.b": 3,
        "c.d": 6,
    }


def test_a_table_that_was_dropped_is_made_again(world: World) -> None:
    where, lake = world.table().hot.namespace, Lake(world.spark, world.client)
    history = TieringHistory(lake, where, "gone", Patience(), every=0.0)
    history.write([_measured(1)])
    world.client.tables.drop(where, "gone")
    with pytest.raises(NoSuchTable):
        history.write([_measured(2)])
    history.write([_measured(3)])
    (row,) = world.rows(f"{where[0]}.gone")
    assert row["breaches"] == 2


def test_what_fails_is_not_tried_again_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables wait while it is tried."""
    now = [1000.0]
    where, lake = world.table().hot.namespace, Lake(world.spark, world.client)
    history = TieringHistory(lake, where, "slow", Patience(), every=60.0, clock=lambda: now[0])
    now[0] += 61
    with monkeypatch.context() as patch:
        patch.setattr(LakeTable, "evolve", _nobody_answers)
        lake.create(where, "slow", COLUMNS)
        with pytest.raises(Unavailable):
            history.write([_measured(1)])
        assert history.write([_measured(1)]) is None
    now[0] += 61
    assert history.write([_measured(1)]) is not None


def test_what_was_told_lately(world: World) -> None:
    where = world.table().hot.namespace
    table, now, day = f"{where[0]}.lately", datetime.now(UTC), timedelta(hours=TOLD_HOURS)
    assert told(world.client, now, table) is None
    clock = iter((now - day).timestamp() + minutes * 60 for minutes in (-60, -10, 1, 2, 3, 4))
    history = TieringHistory(
        Lake(world.spark, world.client), where, "lately", Patience(), every=0.0, clock=lambda: next(clock)
    )
    quiet = TableFreshness("a.c", 0.0, 4.0, 0, 0, None, None)
    for number, cause in ((4, "kafka"), (6, "catalog"), (7, "starting"), (9, "round"), (9, "round")):
        history.write([quiet, replace(_measured(number), cause=cause)])
    assert told(world.client, now, table) == {"a.b": Told(5, "round")}
    assert told(world.client, now + timedelta(minutes=90), table) == {}


def test_status_has_what_was_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, well = world.table(), world.table()
    monkeypatch.setattr("frazil.hot.tiering.status.told", lambda *_: {str(broken.hot): Told(5, "round")})
    found = {one.table: one for one in hot_status(world.client, world.settings)}
    assert (found[str(broken.hot)].breaches, found[str(broken.hot)].cause) == (5, "round")
    assert (found[str(well.hot)].breaches, found[str(well.hot)].cause) == (0, None)
