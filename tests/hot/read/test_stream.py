"""A hot table as a stream: history, then the log, with no gap and no overlap."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from tests.hot.read.world import HotRows, HotWorld, ordered, plain, row

from frazil.hot.read import stream
from frazil.hot.read.pins import Pins
from frazil.hot.read.stream import Followed, follow

_TYPE = "_change_type"


class Copy:
    """What somebody has who applies a changelog; each change must fit what is there."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.kinds: Counter[str] = Counter()
        self.pins: Pins | None = None

    def apply(self, some: Followed) -> None:
        self.pins = some.pins
        before: dict[str, Any] | None = None
        for one in some.rows.to_pylist():
            kind = one.pop(_TYPE)
            (found,) = plain([one])
            self.kinds[kind] += 1
            if kind in ("DELETE", "UPDATE_BEFORE"):
                self.rows.remove(found)
            else:
                self.rows.append(found)
            assert (kind == "UPDATE_AFTER") == (before is not None), (
                "an update has two rows, one after another"
            )
            before = found if kind == "UPDATE_BEFORE" else None

    def catch_up(self, table: HotRows) -> None:
        table.flush()
        for some in follow(table.name, catalog=table.world.client, pins=self.pins, bounded=True):
            self.apply(some)
        assert ordered(self.rows) == table.expected()


def test_history_then_changes(hot: HotWorld) -> None:
    table = hot.table()
    table.put(*map(row, range(20))).tier()
    table.put(row(1, "new"), row(30)).delete(2, 99)
    copy = Copy()
    copy.catch_up(table)
    assert copy.kinds == {"INSERT": 21, "UPDATE_BEFORE": 1, "UPDATE_AFTER": 1, "DELETE": 1}
    # Goes on where it was, also after rows that it knows were tiered.
    table.put(row(1, "newer")).delete(3).tier()
    table.put(row(3, "again")).delete(1)
    copy.catch_up(table)
    assert copy.kinds == {"INSERT": 22, "UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 3}


def test_a_log_is_only_added_to(hot: HotWorld) -> None:
    table = hot.table(key=(), partitions=3)
    copy = Copy()
    table.put(*map(row, range(5)))
    copy.catch_up(table)
    table.tier()
    table.put(*map(row, range(5)))
    copy.catch_up(table)
    assert copy.kinds == {"INSERT": 10}


@pytest.mark.parametrize("version", [2, 3])
def test_a_stream_goes_on_while_tiering_commits(
    hot: HotWorld, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(stream, "_REBASE_SECONDS", 0.0)
    columns = {"shop": "string required", "n": "int required", "word": "string"}
    table = hot.table(columns, key=("shop", "n"), partitions=3, version=version)
    rng, copy = random.Random(version), Copy()
    words = (f"w{number}" for number in itertools.count())
    table.put({"shop": "a", "n": 0, "word": None}).tier()
    stop = {"shop": "end", "n": 0, "word": None}
    bases = set()
    for some in follow(table.name, catalog=hot.client):
        copy.apply(some)
        bases.add(some.pins.snapshot)
        if ordered(copy.rows) != table.expected():
            continue
        if stop in copy.rows:
            break
        if sum(copy.kinds.values()) > 150:
            table.put(stop)
        for _ in range(rng.choice([1, 10])):
            made = {"shop": rng.choice("ab"), "n": rng.randrange(6), "word": next(words)}
            if rng.random() < 0.3:
                table.delete((made["shop"], made["n"]))
            table.put(made)
        table.flush()
        if rng.random() < 0.3:
            table.tier()
    assert ordered(copy.rows) == table.expected()
    assert len(bases) > 2, "its snapshot is not for ever"
