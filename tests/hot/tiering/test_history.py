"""The table of what was measured."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.hot.tiering.world import World

from frazil.core.errors import NotAllowed, Unavailable
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
