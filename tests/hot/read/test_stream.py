"""A hot table as a stream: history, then the log, with no gap and no overlap."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from tests.hot.read.world import HotRows, HotWorld, ordered, plain, row

from frazil.core.errors import NotFound, SourceChanged
from frazil.devstack.seaweed import ObjectStore
from frazil.hot.read import stream
from frazil.hot.read.pins import Pins
from frazil.hot.read.stream import Followed, follow
from frazil.hot.table import table_name

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


def test_a_log_that_lost_records_is_refused(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in their place would be left out."""
    table = hot.table(partitions=1).put(*map(row, range(5)))
    table.flush()
    told = follow(table.name, catalog=hot.client)
    next(told)
    ends = iter([(2,)])
    monkeypatch.setattr(stream, "log_ends", lambda *_: next(ends))
    with pytest.raises(SourceChanged, match="read up to 5 and now ends at 2"):
        next(told)


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


@pytest.mark.parametrize("key", [("id",), ()])
def test_goes_on_anywhere_in_the_history(hot: HotWorld, key: tuple[str, ...]) -> None:
    """Several files, some of whose rows were replaced since; a row after the snapshot, and one after all."""
    table = hot.table(key=key)
    for first in range(0, 40, 10):
        table.put(*(row(number, f"w{first}") for number in range(first, first + 12))).tier()
    table.put(row(50))
    table.flush()
    whole = list(follow(table.name, catalog=hot.client, bounded=True))
    stops = [number for number, some in enumerate(whole, 1) if some.pins.row is not None]
    assert len(stops) > 3, "a batch for each file"
    table.put(row(5, "later"), row(51)).tier()
    for stop in [*stops, len(whole)]:
        copy = Copy()
        for some in whole[:stop]:
            copy.apply(some)
        assert copy.pins is not None
        copy.pins = Pins.decode(copy.pins.encode())
        copy.catch_up(table)
    loaded = hot.lake.load(*table_name(table.name))
    loaded.java.expireSnapshots().expireSnapshotId(whole[0].pins.snapshot).commit()
    with pytest.raises(NotFound, match="which was pinned, expired"):
        next(follow(table.name, catalog=hot.client, pins=whole[0].pins))


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


def test_rows_in_iceberg_that_somebody_else_changed(hot: HotWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not told, and are what later changes of the log replace."""
    monkeypatch.setattr(stream, "_REBASE_SECONDS", 0.0)
    table = hot.table(partitions=1).put(row(1), row(2), row(3)).tier()
    told = (one for some in follow(table.name, catalog=hot.client) for one in some.rows.to_pylist())

    def following(count: int) -> list[tuple[Any, ...]]:
        table.flush()
        return [(one[_TYPE], one["id"], one["word"]) for one in itertools.islice(told, count)]

    assert len(following(3)) == 3
    hot.spark.sql(f"UPDATE frazil.{table.name} SET word = 'right' WHERE id = 1")
    hot.spark.sql(f"DELETE FROM frazil.{table.name} WHERE id = 2")
    table.put(row(4)).tier()
    assert following(1) == [("INSERT", 4, "x")]
    table.put(row(1, "new"), row(2, "new"))
    assert following(3) == [("UPDATE_BEFORE", 1, "right"), ("UPDATE_AFTER", 1, "new"), ("INSERT", 2, "new")]


def test_an_object_store(hot: HotWorld, object_store: ObjectStore) -> None:
    """With the keys that the catalog gives, also where it goes on in the middle of the history."""
    profile, credential = object_store.warehouse_storage("hotfollowed", "hot")
    warehouse = hot.client.warehouses.create("hotfollowed", profile, credential).name
    world = HotWorld(hot.kafka, hot.spark, hot.server, warehouse)
    table = world.table(version=3)
    for first in (0, 10):
        table.put(*(row(number, f"w{first}") for number in range(first, first + 12))).tier()
    copy = Copy()
    copy.apply(next(follow(table.name, catalog=world.client, bounded=True)))
    assert copy.pins is not None
    assert copy.pins.row is not None, "there is more of the history"
    table.put(row(1, "new"), row(30)).delete(2).tier()
    table.put(row(1, "newer")).delete(30)
    copy.catch_up(table)
    assert copy.kinds == {"INSERT": 23, "UPDATE_BEFORE": 2, "UPDATE_AFTER": 2, "DELETE": 2}
    world.close()


_UUIDS = [f"6f1e0a4c-93a8-4f6e-8a3c-00000000000{number}" for number in range(5)]


def test_keys_of_bytes(hot: HotWorld) -> None:
    table = hot.table({"id": "uuid required", "code": "fixed[2]", "n": "int"}, version=3)
    table.put(*({"id": one, "code": "aGk=", "n": 1} for one in _UUIDS[:3])).tier()
    table.put({"id": _UUIDS[0], "code": None, "n": 2}, {"id": _UUIDS[3], "code": "aGk=", "n": 1})
    table.delete(_UUIDS[1]).put({"id": _UUIDS[0], "code": "aGk=", "n": 3})
    table.flush()
    rows: dict[str, int] = {}
    for some in follow(table.name, catalog=hot.client, bounded=True):
        for one in some.rows.to_pylist():
            kind = one.pop(_TYPE)
            if kind in ("DELETE", "UPDATE_BEFORE"):
                assert rows.pop(str(one["id"])) == one["n"]
            else:
                rows[str(one["id"])] = one["n"]
    assert rows == {_UUIDS[0]: 3, _UUIDS[2]: 1, _UUIDS[3]: 1}
