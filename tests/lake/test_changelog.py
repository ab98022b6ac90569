"""Changelogs are the brute-force difference of snapshots, whatever happened between them."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.lake.changing import States, Story
from tests.lake.upserts import KeyedWorld

import frazil
from frazil.client import Client
from frazil.lake import changelog_pairs
from frazil.lake.catalog import Lake

_numbers = itertools.count(1)


def told(lake: Lake, client: Client, version: int, seed: int, steps: int) -> tuple[States, random.Random]:
    rng = random.Random(seed)
    world = KeyedWorld(lake, client, version=version)
    Story(world, rng).run(steps)
    return States(lake.spark, client, world.name), rng


def check(states: States, rng: random.Random, pairs: int) -> None:
    """All commits of the story, then random stretches of it."""
    states.check(None, None, key=["id"])
    states.check(None, None, net=True)
    main = states.main()
    for options in ({}, {"key": ["id"]}, {"key": ["id"], "net": True}):
        frame = frazil.changes(states.spark, f"{states.namespace}.{states.table}", **options)
        rows = sorted(frame.toArrow().to_pylist(), key=lambda row: row["_change_ordinal"])
        states.check_rows(rows, None, None, **options)
    for _ in range(pairs):
        since, until = sorted(rng.sample(range(len(main)), 2))
        key = rng.choice([(), ["id"], ["id", "word"]])
        if "word" in key and "word" not in states.names(main[until]).values():
            key = ["id"]
        states.check(main[since], main[until], key=key, net=rng.random() < 0.5)


@pytest.mark.parametrize(("version", "seed"), [(2, 1), (3, 2)])
def test_a_story(version: int, seed: int, lake: Lake, client: Client) -> None:
    check(*told(lake, client, version, seed, 14), pairs=4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", [2, 3])
def test_long_stories(
    version: int, seed: int, lake: Lake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog_pairs, "IN_MEMORY", random.Random(seed).choice([3, 400_000]))
    check(*told(lake, client, version, 100 + seed, 40), pairs=20)
