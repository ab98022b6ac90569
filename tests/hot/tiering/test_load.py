"""What is due beside the rounds, while these are back to back."""

from __future__ import annotations

import functools
import itertools
from collections import Counter

import pytest
from pyiceberg.exceptions import NoSuchTableError
from tests.hot.tiering.world import World

from frazil.hot.tiering import care, loop
from frazil.hot.tiering.history import TieringHistory
from frazil.hot.tiering.loop import TieringLoop
from frazil.lake.table import LakeTable
from frazil.maintenance import Caretaker


def test_what_is_overdue_does_not_wait_for_an_idle_moment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: Counter[str] = Counter()

    def committed(self: Caretaker, table: LakeTable, *, within: float) -> None:
        looked[str(table)] += 1

    monkeypatch.setattr(Caretaker, "committed", committed)
    monkeypatch.setattr(care, "_PATIENCE", 3)
    monkeypatch.setattr(loop, "TieringHistory", functools.partial(TieringHistory, every=1.0))
    # Under load there is none.
    monkeypatch.setattr(TieringLoop, "_idle", lambda self: None)
    table, numbers = world.table(table__datalake__freshness="1s"), itertools.count()
    log = f"{table.hot.namespace[0]}.load_log"

    def told() -> int:
        table.put(next(numbers))
        try:
            return sum(row["table"] == str(table.hot) for row in world.rows(log))
        except NoSuchTableError:
            return 0

    with world.tiering(history=((table.hot.namespace[0],), "load_log")) as service:
        service.until(lambda: told() >= 2 and looked[str(table.hot)] >= 3)
        service.until(table.complete)
    assert not service.errors
