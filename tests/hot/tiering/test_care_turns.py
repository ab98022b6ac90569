"""When tables are looked after, and for how long: nothing is merged here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from frazil.core.schema import Field, Schema
from frazil.hot.table import Binding, HotTable
from frazil.hot.tiering import care
from frazil.hot.tiering.care import Care
from frazil.lake.catalog import Lake
from frazil.lake.files import MEGABYTE
from frazil.lake.table import LakeTable
from frazil.maintenance import Caretaker, Done, Maintenance, caretaker
from frazil.stream.cdc.lane import Lane

_SCHEMA = Schema((Field("id", "long"),))


class Keeper:
    """A caretaker that finds something to do at every `every`th commit."""

    made: list[Keeper]

    def __init__(self, *_: Any, **__: Any) -> None:
        self.every, self.needs = 1, 0.0
        self.told: list[str] = []
        self.runs: list[str] = []
        #: How long it may take, at each call.
        self.within: list[float] = []
        Keeper.made.append(self)

    def committed(self, table: Any, *, within: float) -> Done | None:
        self.within.append(within)
        due = (len(self.told) + 1) % self.every == 0
        if due and self.needs > within:
            return Done(str(table), needs=self.needs)
        self.told.append(str(table))
        if due:
            self.runs.append(str(table))
        return Done(str(table)) if due else None


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Care:
    monkeypatch.setattr(care, "Caretaker", Keeper)
    Keeper.made = []
    return Care(cast("Any", None), cast("Any", None))


def _commit(kept: Care, name: str = "b", *, times: int = 1, letters: bool = False) -> Keeper:
    binding = Binding(topic=f"a.{name}", topic_id="T", source="kafka:K", brokers="x")
    table = HotTable(("a",), name, binding, _SCHEMA, compaction=True)
    tables = [name, f"{name}-letters"] if letters else [name]
    lane = SimpleNamespace(
        topic=table.topic,
        tables=tables,
        config=SimpleNamespace(table=SimpleNamespace(files=SimpleNamespace(size=MEGABYTE))),
    )
    before = len(Keeper.made)
    for _ in range(times):
        kept.committed(cast("Lane", lane), table)
    return Keeper.made[-1] if len(Keeper.made) > before else Keeper.made[0]


def test_what_piled_up_is_one_run_at_a_time(kept: Care) -> None:
    keeper = _commit(kept, times=60)
    keeper.every = 10
    for runs in range(1, 6):
        kept.work(float("inf"))
        assert (len(keeper.runs), len(keeper.told)) == (runs, runs * 10)
    # Also where a commit is of several tables: none is forgotten, none is told of twice.
    both = _commit(kept, "c", times=3, letters=True)
    for _ in range(8):
        kept.work(float("inf"))
    assert both.runs == ["c", "c-letters"] * 3
    assert len(keeper.told) == 60


def test_what_takes_longer_than_there_is_waits(kept: Care) -> None:
    keeper = _commit(kept)
    keeper.needs = 20.0
    kept.work(10.0)
    assert (keeper.told, keeper.runs) == ([], [])
    # By now that is known: nobody has to look again.
    asked = len(keeper.within)
    kept.work(29.0)
    assert len(keeper.within) == asked
    kept.work(31.0)
    assert keeper.runs == ["b"]


def test_one_that_does_not_fit_holds_up_no_other(kept: Care) -> None:
    large = _commit(kept, "large", times=5)
    large.needs = 20.0
    small = _commit(kept, "small")
    kept.work(10.0)
    kept.work(10.0)
    assert (large.runs, small.runs) == ([], ["small"])


def test_what_piles_up_is_not_put_off_for_ever(kept: Care) -> None:
    """It would only take longer."""
    keeper = _commit(kept, times=care._PATIENCE - 1)
    keeper.needs = 20.0
    kept.work(10.0)
    kept.work(-5.0)
    assert keeper.runs == []
    _commit(kept)
    kept.work(-5.0)
    assert keeper.runs == ["b"]
    kept.work(-5.0)
    # That was one of them.
    assert keeper.runs == ["b", "b"]


class _Merged(Exception):
    """It began."""


def _caretaker(monkeypatch: pytest.MonkeyPatch, size: int, total: int | None = None) -> Caretaker:
    """Of a table of ten commits of one file each."""
    summary = {"operation": "append", "added-data-files": "1", "added-files-size": str(size)}
    if total is not None:
        summary["total-files-size"] = str(total)
    rows = [
        {"snapshot-id": number, "parent-snapshot-id": number - 1, "timestamp-ms": 1, "summary": summary}
        for number in range(1, 11)
    ]
    monkeypatch.setattr(caretaker, "document", lambda _: {"snapshots": rows, "current-snapshot-id": 10})

    def begun(*_: Any) -> None:
        raise _Merged

    spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))
    config = Maintenance(merge_every=5, keep_snapshots=None)
    return Caretaker(cast("Any", spark), cast("Lake", SimpleNamespace(load_for_jobs=begun)), config)


_TABLE = cast("LakeTable", SimpleNamespace(namespace=("a",), name="b", uuid="u"))


def _needs(keeper: Caretaker, within: float) -> float:
    done = keeper.committed(_TABLE, within=within)
    assert done is not None
    assert done.needs is not None
    return done.needs


def test_how_long_a_merge_takes_is_told_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = _caretaker(monkeypatch, 90 * MEGABYTE)
    needs = _needs(keeper, 5.0)
    # 900 MB, and what the last merge may have left, on two cores.
    assert 30 < needs < 120
    # It was not done: it is due at the next word, and the commit still counts for one.
    assert _needs(keeper, needs - 1) == needs
    with pytest.raises(_Merged):
        keeper.committed(_TABLE, within=needs + 1)


def test_a_small_table_is_merged_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = _caretaker(monkeypatch, 1000, total=10_000)
    assert _needs(keeper, 0.0) < 3
    with pytest.raises(_Merged):
        keeper.committed(_TABLE)
