"""Seeded changes, tiered now and then: at every moment both readers give what a model in Python has."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.hot.read.world import HotRows, HotWorld

from frazil.devstack.seaweed import ObjectStore
from frazil.hot.read import spark
from frazil.hot.read.pins import Pins

_COLUMNS = {"shop": "string required", "n": "int required", "word": "string", "amount": "decimal(10, 2)"}
_STEPS = 8


@pytest.mark.parametrize(
    ("seed", "key", "version", "partitioning"),
    [
        (1, ("shop", "n"), 2, ()),
        (2, ("shop", "n"), 3, ("bucket(3, n)",)),
        (3, ("n",), 3, ("word",)),
        (4, (), 2, ("truncate(1, word)",)),
    ],
)
def test_random_changes(
    hot: HotWorld,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    key: tuple[str, ...],
    version: int,
    partitioning: tuple[str, ...],
) -> None:
    if seed != 1:
        # As with many changes.
        monkeypatch.setattr(spark, "_SIEVED", 1)
    ways = random.Random(-seed)
    # As with tasks elsewhere.
    monkeypatch.setattr(spark, "fits", lambda _: ways.random() < 0.5)
    rng = random.Random(seed)
    table = hot.table(_COLUMNS, key=key, partitions=3, version=version, partitioning=partitioning)
    kept: list[tuple[Pins, list[dict[str, Any]]]] = []
    for _ in range(_STEPS):
        for _ in range(rng.choice([0, 1, 7, 60])):
            _change(rng, table)
        if rng.random() < 0.5:
            table.tier()
        pins = table.check()
        kept.append((pins, table.expected()))
    table.tier()
    for pins, expected in rng.sample(kept, 3):
        table.check(pins, expected)


def test_an_object_store(hot: HotWorld, object_store: ObjectStore) -> None:
    profile, credential = object_store.warehouse_storage("hotread", "hot")
    warehouse = hot.client.warehouses.create("hotread", profile, credential).name
    world = HotWorld(hot.kafka, hot.spark, hot.server, warehouse)
    rng = random.Random(7)
    table = world.table(_COLUMNS, key=("n",), version=3, partitioning=("bucket(3, n)",))
    for _ in range(2):
        for _ in range(40):
            _change(rng, table)
        table.tier()
    for _ in range(20):
        _change(rng, table)
    table.check()
    world.close()


def _change(rng: random.Random, table: HotRows) -> None:
    row = {
        "shop": rng.choice("abc"),
        "n": rng.randrange(25),
        "word": rng.choice([None, "x", "yy", "zzz"]),
        "amount": rng.choice([None, "1.50", "-20.00"]),
    }
    if table.key and rng.random() < 0.3:
        table.delete(tuple(row[name] for name in table.key))
    else:
        table.put(row)
