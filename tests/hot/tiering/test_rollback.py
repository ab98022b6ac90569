"""Hot tables that somebody rolled back: what is said, and whether it helps."""

from __future__ import annotations

import re

import pytest
from tests.hot.tiering.world import COLUMNS, Table, World

from frazil.core.errors import HistoryChanged
from frazil.hot.read.pins import pin
from frazil.hot.rollback import rolled_back
from frazil.hot.table import Binding, HotTable
from frazil.hot.tiering.status import hot_status

_OTHERS = {"id": -1, "word": "others", "price": 0.5}


def _rolled_back(world: World) -> Table:
    """To before anything was tiered: somebody else wrote to the table first."""
    table = world.table(bucket__num="1")
    table.sql("INSERT INTO {} VALUES (-1, 'others', 0.5)")
    first = world.client.tables.load(table.hot.namespace, table.hot.name).metadata["current-snapshot-id"]
    table.put(1, 2)
    world.once()
    table.rows[-1] = _OTHERS
    assert table.complete()
    _call(table, f"rollback_to_snapshot('{table.hot}', {first})")
    assert table.found() == [_OTHERS]
    table.put(3)
    return table


def _call(table: Table, what: str) -> None:
    table.sql(f"CALL tiered.system.{what}")


def _told(world: World, table: Table) -> str:
    """The same by tiering, by a read and by status."""
    with pytest.raises(HistoryChanged) as tiering:
        world.once()
    with pytest.raises(HistoryChanged) as read:
        pin(world.client, str(table.hot), kafka=world.settings)
    (status,) = [one for one in hot_status(world.client, world.settings) if one.table == str(table.hot)]
    assert {tiering.value.message, read.value.message} == {*status.problems}
    return tiering.value.message


def _steps(told: str) -> list[str]:
    """The statements of the message, as somebody would paste them."""
    found = re.findall(r"(?:CALL|ALTER TABLE) <catalog>.*?(?:`frazil-hot`|\))(?=[;,.] )", told)
    return [one.replace("<catalog>", "tiered") for one in found]


def test_the_commit_is_made_main_again(world: World) -> None:
    table = _rolled_back(world)
    told = _told(world, table)
    assert told.startswith(f"the hot table {table.hot}: tiering cannot tell what is in the table: ")
    assert "frazil reset" not in told
    table.sql(_steps(told)[0])
    world.once()
    assert table.complete()


def test_all_of_the_log_is_tiered_once_more(world: World) -> None:
    table = _rolled_back(world)
    for step in _steps(_told(world, table))[1:]:
        table.sql(step)
    world.once()
    assert table.complete()
    table.put(4)
    world.once()
    assert table.complete()


def test_a_service_goes_on_where_a_table_was_rolled_back_to(world: World) -> None:
    """To a commit of its own: what came later is tiered again."""
    table = world.table(bucket__num="1", table__datalake__freshness="1s")
    table.put(1)
    world.once()
    first = world.client.tables.load(table.hot.namespace, table.hot.name).metadata["current-snapshot-id"]
    with world.tiering() as service:
        table.put(2)
        service.until(table.complete)
        _call(table, f"rollback_to_snapshot('{table.hot}', {first})")
        table.put(3)
        service.until(table.complete)
    assert not service.errors


def test_what_passes_by_itself_needs_nobody() -> None:
    hot = HotTable(("a",), "b", Binding(topic="a.b", topic_id="T", source="k", brokers="x"), COLUMNS)
    error = HistoryChanged(
        "the last commit of pipeline hot (epoch 1, round 2) is not in the history of the table a.b any more, "
        "which ends at epoch 1, round 1: it was rolled back or replaced",
        "Start the pipeline again to go on from there",
    )
    assert rolled_back(hot, error).message == (
        "the hot table a.b: the last commit of tiering (epoch 1, round 2) is not in the history of the table "
        "a.b any more, which ends at epoch 1, round 1: it was rolled back or replaced. Tiering goes on with "
        "the table as it is now"
    )
